"""TVM's figures for buffers inside functions and for constants, and its order of bindings."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from support.plan_verdicts import proved
from support.published import published

from cpplan import Graph, Op, Problem, Tensor, to_anf
from cpplan.packing import heuristics
from cpplan.program.expression import Call, Constant
from cpplan.runtime.deadline import Deadline


@pytest.fixture(scope="module")
def tvm() -> dict[str, Any]:
    """Cases read from TVM's tests."""
    return published("tvm")


# --- CalculateWorkspaceBytes ---------------------------------------------------------------------
# TVM adds up what the scopes around an allocation hold, each size rounded up to the alignment, used
# or not; the workspace is the largest such sum (tests/python/tir-analysis/
# test_tir_analysis_calculate_workspace.py).


class Scope(NamedTuple):
    """An allocation, and those made while it exists."""

    name: str
    size: int
    inner: tuple[Scope, ...] = ()


WIDE, PADDED, NARROW = 4 * 100352, 2 * 131072, 100352  # int32, int16 and uint8
GLOBAL = Scope("PaddedInput", PADDED, (Scope("DepthwiseConv2d", WIDE),))
LOCAL = Scope(
    "PaddedInput",
    PADDED,
    (
        Scope(
            "T_add",
            WIDE,
            (
                Scope("DepthwiseConv2d", WIDE),
                Scope(
                    "compute",
                    WIDE,
                    (
                        Scope("T_cast", WIDE),
                        Scope("T_cast_u8", NARROW, (Scope("clipped", WIDE),)),
                    ),
                ),
            ),
        ),
    ),
)


def summed(scope: Scope, alignment: int) -> int:
    """TVM's rule."""
    inner = max((summed(each, alignment) for each in scope.inner), default=0)
    return -(-scope.size // alignment) * alignment + inner


def as_scopes(scope: Scope, alignment: int) -> Graph:
    """Each allocation is a workspace of an op whose body is the scope: it is live throughout."""

    def op(scope: Scope) -> Op:
        bodies = (graph(scope.name, scope.inner),) if scope.inner else ()
        return Op(f"in {scope.name}", workspaces=(scope.name,), bodies=bodies)

    def graph(name: str, scopes: tuple[Scope, ...]) -> Graph:
        tensors = (Tensor(s.name, s.size, kind="workspace", alignment=alignment) for s in scopes)
        return Graph(name, tuple(tensors), tuple(map(op, scopes)))

    return graph("scopes", (scope,))


def as_values(alignment: int) -> Graph:
    """The computation of ``primfunc_local_allocates``, with each buffer live while it is needed.

    Nothing there reads the constant; here the convolution does.
    """

    def own(name: str, size: int) -> Tensor:
        return Tensor(name, size, alignment=alignment)

    body = Graph(
        "primfunc_local_allocates",
        (
            Tensor("data", 2 * 100352, kind="input"),
            *(own("PaddedInput", PADDED), own("DepthwiseConv2d", WIDE), own("T_add", WIDE)),
            *(own("T_cast", WIDE), own("compute", WIDE), own("clipped", WIDE)),
            own("T_cast_u8", NARROW),
            Tensor("sid", 8, kind="constant", alignment=alignment),
            Tensor("out", 2 * 100352, kind="output"),
        ),
        (
            Op("pad", inputs=("data",), outputs=("PaddedInput",)),
            Op("conv", inputs=("PaddedInput", "sid"), outputs=("DepthwiseConv2d",)),
            Op("add", inputs=("DepthwiseConv2d",), outputs=("T_add",)),
            Op("cast", inputs=("T_add",), outputs=("T_cast",)),
            Op("multiply_shift", inputs=("T_cast",), outputs=("compute",)),
            Op("clip", inputs=("compute",), outputs=("clipped",)),
            Op("narrow", inputs=("clipped",), outputs=("T_cast_u8",)),
            Op("widen", inputs=("T_cast_u8",), outputs=("out",)),
        ),
    )
    tensors = (
        Tensor("data", 2 * 100352, kind="input"),
        Tensor("out", 2 * 100352, kind="output"),
    )
    ops = (Op("call", inputs=("data",), outputs=("out",), bodies=(body,)),)
    return Graph("run_model", tensors, ops)


OUTSIDE = {"inputs": "outside", "outputs": "outside"}


@pytest.mark.parametrize(
    ("scope", "alignment", "published", "optimum"),
    [
        (GLOBAL, 1, 663_552, 663_552),
        # 262144 and 401408 rounded to tens; the upper one's rounding lies above all bytes used:
        # 401410 + 262144.
        (GLOBAL, 10, 663_560, 663_554),
        (LOCAL, 1, 1_566_720, 1_566_720),
        # Three times 401500, 262200, 100400, less the 92 B above the topmost.
        (LOCAL, 100, 1_567_100, 1_567_008),
    ],
)
def test_scopes_as_tvm_sums_them(scope, alignment, published, optimum):
    assert summed(scope, alignment) == published
    assert proved(as_scopes(scope, alignment)).peak == optimum


@pytest.mark.parametrize(
    ("alignment", "optimum", "with_constant"), [(1, 802_816, 802_824), (100, 802_908, 803_008)]
)
def test_lifespans_within_a_function_need_half_of_its_scopes(alignment, optimum, with_constant):
    # Optimum: two of the int32 buffers, 401408 + 401408; rounded to hundreds, but for the upper
    # one. The constant is there throughout: 8 B more, or 100 with what the others round up to.
    assert proved(as_values(alignment), **OUTSIDE).peak == optimum
    kept = proved(as_values(alignment), **OUTSIDE, constants="keep")
    assert kept.peak == with_constant < summed(LOCAL, alignment)


def test_vector_workspace_takes_64_bytes():
    # float32x4 times four.
    tensors = (Tensor("C", shape=(4, 4), dtype="float32", kind="workspace"),)
    plan = proved(Graph("decl_vector_type", tensors, (Op("f", workspaces=("C",)),)))
    assert plan.peak == 64


def test_published_workspaces(tvm):
    rows = tvm["tir_workspace_analysis"][0]["rows"]
    for row in rows:
        case, alignment, total = row.get("case", ""), row["alignment"], row["total"]
        if "vector" in case:
            assert total == 64
            continue
        scope = LOCAL if case == "primfunc_local_allocates" else GLOBAL
        if scope is GLOBAL:
            assert row["allocs_bytes"] == [GLOBAL.size, GLOBAL.inner[0].size]
        assert summed(scope, alignment) == total
        assert proved(as_scopes(scope, alignment)).peak <= total
    assert len(rows) >= 5


# --- constants -----------------------------------------------------------------------------------


def synthetic(alignment: int) -> Graph:
    """``relay.testing.synthetic`` for a float32 image of 1 × 3 × 24 × 12, as it infers.

    Equal constants are stored once: both dense layers have one weight, and so have both
    convolutions, for the workload fills weights of one shape alike. Of the bias and the batch
    normalization, simplified for inference, three vectors of one float a channel are left: no other
    number of them gives the totals that are published.
    """
    names = ("dense", "dense_relu", "conv", "softmax", "added")
    image = (1, 3, 24, 12)

    def tensor(name: str, shape: tuple[int, ...], **more: Any) -> Tensor:
        return Tensor(name, shape=shape, dtype="float32", alignment=alignment, **more)

    weights = {"dense_weight": (12, 12), "conv_weight": (3, 3, 3, 3)}
    weights |= dict.fromkeys(("bias", "scale", "shift"), (3, 1, 1))
    tensors = [
        tensor("data", image, kind="input"),
        *(tensor(name, shape, kind="constant") for name, shape in weights.items()),
        *(tensor(name, image) for name in ("biased", "scaled", "normed")),
    ]
    ops = []
    for k, given in enumerate(("data", "normed")):
        dense, relu, conv, softmax, added = (f"{name}{k}" for name in names)
        flat, back = f"flat{k}", f"back{k}"
        tensors += [
            tensor(flat, (72, 12), view_of=(given, 0)),
            *(tensor(name, (72, 12)) for name in (dense, relu)),
            tensor(back, image, view_of=(relu, 0)),
            *(tensor(name, image) for name in (conv, softmax)),
            tensor(added, image, kind="output" if k else "intermediate"),
        ]
        ops += [
            Op(f"dense{k}", inputs=(flat, "dense_weight"), outputs=(dense,)),
            Op(f"relu{k}", inputs=(dense,), outputs=(relu,)),
            Op(f"conv{k}", inputs=(given, "conv_weight"), outputs=(conv,)),
            Op(f"softmax{k}", inputs=(conv,), outputs=(softmax,)),
            Op(f"add{k}", inputs=(back, softmax), outputs=(added,)),
        ]
        if k == 0:
            ops += [
                Op("bias_add", inputs=(added, "bias"), outputs=("biased",)),
                Op("multiply", inputs=("biased", "scale"), outputs=("scaled",)),
                Op("shift", inputs=("scaled", "shift"), outputs=("normed",)),
            ]
    return Graph("synthetic", tuple(tensors), tuple(ops))


def constants_of(graph: Graph) -> Graph:
    """The image of constants alone."""
    return Graph(graph.name, tuple(t for t in graph.tensors if t.kind == "constant"), ())


# Published: stacked by falling size, 576, 324 and three times 12 B. The optimum puts the size with
# the largest rounding on top: at 16 that is 324, so that 576 + 48 + 324 are enough.
CONSTANTS = [(8, 948, 948), (16, 956, 948), (256, 1804, 1804)]


@pytest.mark.parametrize(("alignment", "published", "optimum"), CONSTANTS)
def test_constants_of_the_synthetic_model(alignment, published, optimum):
    image = constants_of(synthetic(alignment))
    assert proved(image, constants="keep").peak == optimum <= published
    size = [tensor.nbytes for tensor in image.tensors]
    alike = [alignment] * len(size)
    names = [tensor.name for tensor in image.tensors]
    problem = Problem(names, [0] * len(size), [1] * len(size), size, alike)
    offset = heuristics.get("greedy_by_size")(problem, Deadline(60))
    assert int(max(offset + problem.size)) == published


@pytest.mark.parametrize(("alignment", "optimum"), [(8, 11_316), (16, 11_316), (256, 12_556)])
def test_the_synthetic_model_with_its_constants_in_the_arena(alignment, optimum):
    # Optimum: the constants and three tensors of 3456 B, as in relu0 (data, dense0, dense_relu0),
    # all rounded up but the one on top: the one that loses most, 4, 12 and 244 B.
    plan = proved(synthetic(alignment), constants="keep")
    constants = sum(-(-size // alignment) * alignment for size in (576, 324, 12, 12, 12))
    tensors = 3 * -(-3456 // alignment) * alignment
    assert plan.peak == optimum == constants + tensors - {8: 4, 16: 12, 256: 244}[alignment]


def test_published_constants(tvm):
    rows = tvm["usmp_aot_totals"][0]["rows"]
    assert {(row["constant_alignment"], row["constants"]) for row in rows} == {
        (alignment, published) for alignment, published, _ in CONSTANTS
    }


# --- loops ---------------------------------------------------------------------------------------


def convolution(threads: int | None) -> Graph:
    """A convolution of USMP's tests: padding, then a loop that needs a buffer in each turn.

    ``threads`` turns run at once, each with a buffer of its own; with ``None`` the arena does not
    hold what the loop needs.
    """
    turns = 1 if threads is None else threads
    turn = Graph(
        "turn",
        (Tensor("Conv2dOutput_8", turns * 64 * 4, kind="workspace", alignment=16),),
        (Op("compute", workspaces=("Conv2dOutput_8",)),),
    )
    bodies = () if threads is None else (turn,)
    body = Graph(
        "conv2d",
        (
            Tensor("input", 401_408, kind="input"),
            Tensor("PaddedInput_8", 2 * 215_296, alignment=16),
            Tensor("output", 602_112, kind="output"),
        ),
        (
            Op("pad", inputs=("input",), outputs=("PaddedInput_8",)),
            Op("loop", inputs=("PaddedInput_8",), outputs=("output",), bodies=bodies),
        ),
    )
    tensors = (Tensor("input", 401_408, kind="input"), Tensor("output", 602_112, kind="output"))
    ops = (Op("conv2d", inputs=("input",), outputs=("output",), bodies=(body,)),)
    return Graph("run_model", tensors, ops)


@pytest.mark.parametrize(
    ("threads", "optimum"),
    [(1, 430_592 + 256), (4, 430_592 + 4 * 256), (None, 430_592)],
)
def test_buffers_inside_loops(threads, optimum):
    # Optimum: all that is live in the loop. The published pressure, 430848, is that of one thread.
    assert proved(convolution(threads), **OUTSIDE).peak == optimum


def test_published_pressure_of_loops(tvm):
    case = next(c for c in tvm["usmp"] if c["id"] == "usmp/extract_serial_vs_parallel_loops")
    plan = proved(convolution(1), **OUTSIDE)
    assert plan.peak == case["memory_pressure"] == case["proven_optimum_bytes"]
    planned = {name.rpartition("/")[2] for name in plan.buffers}
    assert planned == set(case["expect"]["planned_with_parallel_loop"])


# --- A-normal form -------------------------------------------------------------------------------


def test_published_order_of_bindings(tvm):
    # TVM's test_order: x + y * z with constants. Constants are no bindings here; the calls are.
    assert tvm["anf_order"]["example"].endswith("mul(y,z), add(x,mul)")
    x, y, z = (Constant(name, shape=(), dtype="int32") for name in "xyz")

    def scalar(kind: str, *args: Call | Constant) -> Call:
        return Call(kind, args, shape=(), dtype="int32")

    (product, total) = to_anf(scalar("add", x, scalar("mul", y, z))).ops
    assert (product.kind, product.inputs) == ("mul", ("y", "z"))
    assert (total.kind, total.inputs) == ("add", ("x", *product.outputs))
    # Both operands built in the other order: the same order of bindings.
    late = scalar("sub", z, x)
    early = scalar("mul", y, z)
    assert [op.kind for op in to_anf(scalar("add", early, late)).ops] == ["mul", "sub", "add"]
