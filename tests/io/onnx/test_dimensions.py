"""Dimensions of ONNX models: bound, suggested, and refused by name."""

from __future__ import annotations

import re
import resource
import shlex
from collections.abc import Callable

import numpy as np
import pytest
from support.onnx_texts import model, read, refusal

import cpplan
from cpplan.cli.options import parse_dims
from cpplan.io.execution import execute
from cpplan.model.errors import InputError

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

from cpplan.io.onnx.model import read_onnx  # noqa: E402
from cpplan.io.onnx.reorder import reorder_onnx  # noqa: E402


def test_a_bound_dimension_reaches_what_inference_would_lose() -> None:
    graph = read(
        """g (float[N,3,H,8] x, float[2,3,3,3] w) => (float[N,2,unknown,6] y)
        { c = Conv(x, w) y = Relu(c) }""",
        N=8,
        H=10,
    )
    assert graph.tensor["c"].shape == graph.tensor["y"].shape == (8, 2, 8, 6)


def test_a_stale_symbolic_shape_of_an_inner_tensor_is_found_again() -> None:
    loaded = model("g (float[N] x) => (float[M] y) { t = Relu(x) y = Concat<axis=0>(t, t) }")
    loaded.graph.value_info.append(
        helper.make_tensor_value_info("t", TensorProto.FLOAT, ["something"])
    )
    graph = read_onnx(loaded, {"N": 5})
    assert graph.tensor["t"].shape == (5,)
    assert graph.tensor["y"].shape == (10,)


def test_unbound_dimensions_are_named_at_once_with_options_that_bind_them() -> None:
    text = "g (float[N,3,H] x, float[N,a] z) => (float[A,B,C] y) { y = Relu(x) }"
    loaded = model(text)
    loaded.graph.input[1].type.tensor_type.shape.dim[1].dim_param = "my size"
    message = refusal(loaded)
    assert "dimensions 'N', 'H', 'my size' are unbound" in message
    assert "--dim N=1 --dim H=64 --dim 'my size=64'" in message
    assert "dims={'N': 1, 'H': 64, 'my size': 64}" in message
    assert "--dim N=1..128" in message
    assert "dimensions 'N', 'my size' are unbound" in refusal(loaded, H=5)


@pytest.mark.parametrize(
    ("body", "extent"),
    [
        ("y = Conv<kernel_shape = [100]>(x, w)", 128),
        ("y = MaxPool<kernel_shape = [200]>(x)", 256),
        ("y = MaxPool<kernel_shape = [40], dilations = [20]>(x)", 1024),
        ("y = MaxPool<kernel_shape = [99999]>(x)", 64),
    ],
)
def test_suggested_extents_have_room_for_windows(body: str, extent: int) -> None:
    message = refusal(f"g (float[N,1,T] x, float[2,1,100] w) => (float[A,B,C] y) {{ {body} }}")
    assert f"--dim N=1 --dim T={extent} (dims=" in message


def test_the_options_of_the_error_line_bind_the_model() -> None:
    loaded = model(
        """g (float[N,T] x, int64 n) => (float[A] y, float[R,B] s)
        <bool go = {1}, int64[1] one = {1}, int64[1] axis = {1}> {
        z = Unsqueeze(x, one)
        p = MaxPool<kernel_shape = [90], strides = [90]>(z)
        q = Squeeze(p, axis)
        y, s = Loop(n, go, q) <body = b (int64 i, bool c, float[] v) =>
            (bool c, float[] w, float[] r) { w = Exp(v) r = Neg(w) }> }"""
    )
    loaded.graph.output[0].type.tensor_type.ClearField("shape")
    loaded.graph.output[1].type.tensor_type.ClearField("shape")
    loaded.graph.input[0].type.tensor_type.shape.dim[1].ClearField("dim_param")
    line = re.search(r"e\.g\. (--dim .*?) \(dims=", refusal(loaded))
    assert line is not None
    dims = parse_dims(tuple(word for word in shlex.split(line[1]) if word != "--dim"))
    assert dims == {"N": 1, "x[1]": 128, "Loop_3[turns]": 8}
    graph = read_onnx(loaded, dims)  # type: ignore[arg-type]
    inputs = {"n": np.array(8)}
    execute(loaded, cpplan.solve(graph), dims=dims, inputs=inputs)  # type: ignore[arg-type]


def test_a_window_larger_than_its_input_is_refused() -> None:
    text = "g (float[1,1,T] x) => (float[A,B,C] y) { y = MaxPool<kernel_shape = [9]>(x) }"
    message = refusal(text, T=8)
    assert "op 'MaxPool_0' (MaxPool): its window of 9 along axis 2 does not fit into" in message
    assert read(text, T=9).tensor["y"].shape == (1, 1, 1)
    branch = """g (bool c, float[1,1,T] x) => (float[A,B,C] y) { y = If (c) <
        then_branch = t () => (float[D,E,F] p) { p = MaxPool<kernel_shape = [9]>(x) },
        else_branch = e () => (float[G,H,I] q) { q = Relu(x) }> }"""
    read(branch, T=8)  # whether it ever slides is only known at run time


@pytest.mark.parametrize("stored", [None, -1, "?"])
def test_axes_without_a_name_are_bound_by_input_and_axis(stored: object) -> None:
    loaded = model("g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }")
    for value in (*loaded.graph.input, *loaded.graph.output):
        dim = value.type.tensor_type.shape.dim[1]
        dim.ClearField("dim_value")
        if isinstance(stored, int):
            dim.dim_value = stored
        elif stored is not None:
            dim.dim_param = str(stored)
    assert "--dim 'x[1]=64'" in refusal(loaded)
    graph = read_onnx(loaded, {"x[1]": 3})
    assert graph.tensor["y"].shape == (2, 3)
    symbolic = cpplan.load(loaded, dims={"x[1]": (1, 5)})
    assert symbolic.symbols is not None
    assert str(symbolic.symbols.shapes["y"][1]) == "`x[1]`"
    written = reorder_onnx(loaded, ["Relu_0"], {"x[1]": 3})
    assert written.graph.input[0].type.tensor_type.shape.dim[1].dim_value == 3


def test_an_axis_stored_as_zero_can_be_bound() -> None:
    loaded = model("g (float[0,3] x) => (float[M,3] y) { y = Relu(x) }")
    assert read_onnx(loaded).tensor["y"].shape == (0, 3)
    assert read_onnx(loaded, {"x[0]": 2}).tensor["y"].shape == (2, 3)


def test_an_input_of_one_integer_can_be_given_its_value() -> None:
    """The rate decides which branch runs; the other has no room for its window."""
    loaded = model(
        """g (float[1,1,8] x, int64 rate) => (float[A,B,C] y) <int64 high = {16}> {
        fast = Equal(rate, high)
        y = If (fast) <
            then_branch = t () => (float[D,E,F] p) { p = MaxPool<kernel_shape = [9]>(x) },
            else_branch = e () => (float[G,H,I] q) { q = MaxPool<kernel_shape = [3]>(x) }> }"""
    )
    graph = read_onnx(loaded, {"rate": 8})
    assert [op.kind for op in graph.ops] == ["MaxPool"]
    assert graph.tensor["y"].shape == (1, 1, 6)
    execute(loaded, cpplan.solve(graph), dims={"rate": 8})
    with pytest.raises(InputError, match="its window of 9"):
        read_onnx(loaded, {"rate": 16})


def test_names_that_outputs_repeat_are_labels() -> None:
    """Exporters call a row of scores by the batch's name; runtimes do not mind."""
    text = "g (float[N,3] x) => (float[N] y) <int64[1] axis = {0}> { y = ReduceSum<keepdims=0>"
    graph = read(text + "(x, axis) }", N=1)
    assert graph.tensor["y"].shape == (3,)


def test_a_dimension_that_the_model_lacks_is_refused_with_those_it_has() -> None:
    text = "g (float[N,S] x) => (float[N,S] y) { y = Relu(x) }"
    assert "no symbolic dimension 'B': it has N, S" in refusal(text, N=1, S=2, B=3)
    fixed = "g (float[2] x) => (float[2] y) { y = Relu(x) }"
    assert "no symbolic dimension 'B': it has none" in refusal(fixed, B=3)


@pytest.mark.parametrize("extent", [-1, 2.5, True, "8"])
def test_an_extent_that_is_no_count_is_refused(extent: object) -> None:
    loaded = model("g (float[N] x) => (float[N] y) { y = Relu(x) }")
    with pytest.raises(InputError, match="dimension 'N' must be a non-negative integer"):
        read_onnx(loaded, {"N": extent})  # type: ignore[dict-item]


def test_an_input_without_a_shape_is_named() -> None:
    loaded = model("g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }")
    loaded.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(InputError, match="input 'x' has no shape"):
        read_onnx(loaded)


def test_a_shape_that_depends_on_values_names_tensor_and_op() -> None:
    message = refusal("g (float[1,4] x, int64[2] n) => (float[A,B] y) { y = Expand(x, n) }")
    assert "tensor 'y' written by op 'Expand_0' has an unknown shape" in message


# --- results that values count --------------------------------------------------------------------

COUNTED = {
    "NonZero": ("float[2,6] x", "y = NonZero(x)", {"y": (2, 5)}, 12),
    "Compress": ("float[6,2] x, bool[6] c", "y = Compress<axis=-2>(x, c)", {"y": (5, 2)}, 6),
    "Compress of all": ("float[6,2] x, bool[9] c", "y = Compress(x, c)", {"y": (5,)}, 12),
    "Unique": (
        "float[6,2] x",
        "y, i, v, n = Unique(x)",
        {"y": (5,), "i": (5,), "v": (12,), "n": (5,)},
        12,
    ),
    "Unique rows": ("float[6,2] x", "y, , v = Unique<axis=0>(x)", {"y": (5, 2), "v": (6,)}, 6),
    "NonMaxSuppression": (
        "float[1,6,4] b, float[1,2,6] s",
        "y = NonMaxSuppression(b, s)",
        {"y": (5, 3)},
        12,
    ),
}


@pytest.mark.parametrize(("inputs", "body", "shapes", "most"), COUNTED.values(), ids=COUNTED)
def test_results_that_values_count_take_their_number(
    inputs: str, body: str, shapes: dict[str, tuple[int, ...]], most: int
) -> None:
    text = f"g ({inputs}) => ({', '.join(f'double {name}' for name in shapes)}) {{ {body} }}"
    loaded = model(text)
    for value in loaded.graph.output:
        value.ClearField("type")
        value.type.tensor_type.elem_type = TensorProto.INT64
    if "x" in inputs and "NonZero" not in body:
        loaded.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    op = body.split("=")[1].split("<")[0].split("(")[0].strip() + "_0"
    assert f"--dim '{op}[count]={most}'" in refusal(loaded)
    for name in (f"{op}[count]", "[count]"):
        tensors = read_onnx(loaded, {name: 5}).tensor
        assert {name: tensors[name].shape for name in shapes} == shapes
    with pytest.raises(InputError, match=f"must be at most {most}, .*, not {most + 1}"):
        read_onnx(loaded, {f"{op}[count]": most + 1})
    assert (
        read_onnx(loaded, {"[count]": 999}).tensor["y"].size
        == read_onnx(loaded, {f"{op}[count]": most}).tensor["y"].size
    )


FOUND = """g (float[2,6] x, bool[12] c) => (int64[R,K] y, float[L] z) {
    t = Relu(x) n = NonZero(t) y = Neg(n) q = Compress(t, c) z = Exp(q) }"""


def test_several_counts_are_asked_for_together() -> None:
    assert "dimension '[count]' is unbound: give extents, e.g. --dim '[count]=12'" in refusal(FOUND)
    graph = read(FOUND, **{"NonZero_1[count]": 4, "[count]": 7})
    assert (graph.tensor["y"].shape, graph.tensor["z"].shape) == ((2, 4), (7,))


def test_a_plan_for_the_most_results_serves_when_there_are_fewer() -> None:
    loaded, dims = model(FOUND), {"[count]": 12}
    plan = cpplan.solve(read_onnx(loaded, dims), in_place=True)
    inputs = {"x": np.eye(2, 6, dtype=np.float32), "c": np.arange(12) % 3 == 0}
    outputs = execute(loaded, plan, dims=dims, inputs=inputs).outputs
    assert outputs["y"].tolist() == [[0, -1], [0, -1]]
    assert outputs["z"].shape == (4,)


# --- vectors that are part of no shape ------------------------------------------------------------

DOUBLED = " ".join(f"b{k + 1} = Concat<axis=0>(b{k}, b{k})" for k in range(24))
GROWING = {
    "doubled": f"""g () => (float[N] y) <int64[1] b0 = {{1}}>
        {{ {DOUBLED} y = ConstantOfShape(b24) }}""",
    "expanded": """g (float[2,3] x) => (float[M,N] y) <int64[1] s = {900000000}, int64[1] one = {1}>
        { t = Expand(one, s) q = Add(t, t) k = ReduceSum(q) y = Reshape(x, k) }""",
}


def grown(text: str, read: Callable[[str], object]) -> int:
    """Kilobytes by which the largest memory of this process grows while a text is read."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    read(text)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before


@pytest.mark.parametrize("text", GROWING.values(), ids=GROWING)
def test_values_of_long_vectors_are_not_propagated(text: str) -> None:
    # Propagated, they would take gigabytes.
    assert grown(text, refusal) < 200_000


SMALL_ONES = "int64[2] flat = {6, 4}, int64[1] first = {0}, int64[1] many = {9}, int64[1] end = {1}"


def test_computed_shapes_that_follow_from_one_another_are_found_in_one_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # ONNX's inference does not follow a Mod.
    ops = " ".join(
        f"s{k} = Shape(x{k}) m{k} = Mod(s{k}, many) b{k} = Slice(m{k}, first, end)"
        f" r{k} = Concat<axis=0>(rest, b{k}) x{k + 1} = Reshape(x{k}, r{k})"
        for k in range(12)
    )
    text = f"""g (float[2,3,4] x) => (float[M,N] y) <{SMALL_ONES}, int64[1] rest = {{-1}}>
        {{ x0 = Reshape(x, flat) {ops} y = Relu(x12) }}"""
    infer, calls = onnx.shape_inference.infer_shapes, []
    monkeypatch.setattr(
        onnx.shape_inference, "infer_shapes", lambda *a, **k: calls.append(0) or infer(*a, **k)
    )
    assert read(text).tensor["y"].shape == (6, 4)
    assert len(calls) == 3


def test_a_constant_behind_an_identity_is_not_stored_twice() -> None:
    graph = read(
        f"""g (float[6,4] x) => (float[M,N] y) <{SMALL_ONES}, float[4] b = {{1, 2, 3, 4}}>
        {{ s = Shape(x) r = Mod(s, many) c = Identity(b) q = Reshape(x, r) y = Add(q, c) }}"""
    )
    assert graph.root["c"] == ("b", 0)


def test_a_large_result_is_not_computed_to_find_its_shape() -> None:
    ops = " ".join(f"d{k} = Div(b{k}, two) b{k + 1} = Add(d{k}, b{k})" for k in range(40))
    text = f"""g (float[8,1] x) => (float[M,N] y) <int64[1] two = {{2}}>
        {{ b0 = Shape(x) {ops} y = ConstantOfShape(b40) }}"""
    assert grown(text, read) < 200_000
