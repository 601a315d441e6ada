"""TFLite models: what their graphs are, and what is refused."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import cpplan
from cpplan import Tensor
from cpplan.io.axes import Operation, find_axes
from cpplan.io.tflite import planned_tflite, read_tflite
from cpplan.io.tflite.scratch import scratch_sizes
from cpplan.model.errors import InputError

pytest.importorskip("tflite", reason="needs cpplan[tflite]")
networks = pytest.importorskip("support.tflite_networks", reason="needs cpplan[tflite]")
kinds = pytest.importorskip("support.tflite_kinds", reason="needs cpplan[tflite]")
runtimes = pytest.importorskip("support.tflite_runtimes", reason="needs cpplan[tflite]")

MODELS = Path(__file__).resolve().parents[2] / "datasets" / "tflite"
SEPARABLE = MODELS / "separable.tflite"


def test_a_convolution_and_its_tensors():
    graph = cpplan.load(SEPARABLE)
    assert graph.name == "separable"
    stem = graph.op["stem"]
    assert (stem.kind, stem.inputs) == ("CONV_2D", ("image", "stem/weights", "stem/bias"))
    tensor = graph.tensor["stem"]
    assert (tensor.shape, tensor.dtype, tensor.nbytes) == ((1, 32, 32, 8), "int8", 8192)
    assert tensor.alignment == 16
    assert graph.tensor["stem/weights"].kind == "constant"
    # 3 * 3 products of one channel for each of 32 * 32 * 8 elements, two operations each
    assert stem.cost == 2 * 9 * 8192
    assert graph.op["block0/depthwise"].cost == 2 * 9 * 8192
    assert graph.op["scores"].cost == 2 * 4 * 2 * 2 * 64
    assert graph.tensor["image"].kind == "input"
    assert graph.tensor["probabilities"].kind == "output"


def test_a_reshape_is_a_view_and_costs_nothing():
    graph = cpplan.load(SEPARABLE)
    assert graph.tensor["flat"].view_of == ("pool", 0)
    assert graph.op["flat"].cost == 0


def test_element_wise_operators_may_write_over_what_they_read():
    graph = cpplan.load(MODELS / "two_inputs.tflite")
    pairs = {("gated", "image/dense"), ("gated", "vector/gate")}
    assert set(graph.op["gated"].in_place) == pairs
    assert graph.op["image/conv"].in_place == ()


def test_parts_lie_within_what_they_are_concatenated_to():
    graph = read_tflite(networks.joined())
    assert graph.op["whole"].placements == (("part0", "whole", 0), ("part1", "whole", 48))
    # The whole and y are of 96 B each; in the whole's place are both parts, the second where x was,
    # and at last y.
    assert cpplan.solve(graph, time_limit=5).peak == 192
    assert cpplan.solve(graph, time_limit=5, in_place=True).peak == 96


def test_bodies_are_subgraphs_with_bytes_of_their_own():
    graph = read_tflite(networks.conditional())
    branch = graph.op["chosen"]
    assert [len(body.ops) for body in branch.bodies] == [2, 1]
    # c, x and chosen last through the branches, of which the first holds three more
    assert cpplan.solve(graph, time_limit=5).peak == 5 * 96 + 1
    assert branch.cost == 48
    loop = read_tflite(networks.counting()).op["counted"]
    assert [body.ops[0].kind for body in loop.bodies] == ["LESS", "ADD"]


def test_variables_are_no_part_of_the_arena_and_keep_their_order():
    graph = read_tflite(networks.remembering())
    assert graph.tensor["memory0"].kind == "constant"
    assert [op.after for op in graph.ops] == [(), (), ("y0",)]
    assert not any(op.recomputable for op in graph.ops)
    with pytest.raises(InputError, match="y2"):
        cpplan.to_anf(graph, ["y2", "y1", "y0"])


def test_what_a_resource_variable_holds_depends_on_the_order():
    graph = read_tflite(networks.summing())
    kinds = [op.kind for op in graph.ops if op.sequence == "variable /sum"]
    assert kinds == ["VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"]
    assert graph.op["before"].after == graph.op["ASSIGN_VARIABLE"].after == ("CALL_ONCE",)
    assert graph.tensor["handle"].nbytes == 0
    for order in (
        ["CALL_ONCE", "handle", "ASSIGN_VARIABLE", "before", "after"],
        ["handle", "before", "after", "ASSIGN_VARIABLE", "CALL_ONCE"],
    ):
        with pytest.raises(InputError, match=r"before|CALL_ONCE"):
            cpplan.to_anf(graph, order)


def test_other_resource_variables_may_be_read_later(tmp_path):
    """Converters read all of them first; in the best order, each is live only where it is used."""
    data = networks.summing(["a", "b", "c"])
    graph = read_tflite(data)
    assert not any(op.bodies for op in graph.ops)  # what gives first values has none in the arena
    plan = cpplan.solve(graph, order="search", time_limit=5)
    assert (cpplan.solve(graph, time_limit=5).peak, plan.peak) == (80, 64)
    written = tmp_path / "net.tflite"
    path = tmp_path / "summing.tflite"
    path.write_bytes(data)
    plan.export(written, path)
    assert sums(written.read_bytes()) == sums(data) == [6.0, 9.0, 12.0]


def sums(data):
    """The first elements of the outputs of three runs on ones."""
    runs = [[np.ones((1, 4), np.float32)]] * 3
    return [float(y[0, 0]) for y in runtimes.run_litert(data, runs, delegates=False)]


def test_custom_operators_keep_their_order():
    (op,) = read_tflite(networks.single("my_kernel")).ops
    assert (op.kind, op.sequence, op.recomputable) == ("my_kernel", "state", False)


def test_tensors_of_one_name_are_told_apart():
    graph = read_tflite(networks.namesakes())
    assert [op.name for op in graph.ops] == ["a", "a#2", "tensor_0_3"]


@pytest.mark.parametrize(
    ("dims", "expected"),
    [
        ({"x[1]": 3}, r"no axis 'x\[1\]' is open in this model: expected 'x\[0\]'"),
        ({"x[0]": 0}, "must be a positive integer, not 0"),
        ({"x[0]": (1, 8)}, "must be a positive integer"),
    ],
)
def test_open_axes_are_refused(dims, expected):
    with pytest.raises(InputError, match=expected):
        read_tflite(networks.open_batch(), dims)


def test_open_axes_take_the_stored_extents_and_a_line_says_so(tmp_path, caplog):
    path = tmp_path / "open.tflite"
    path.write_bytes(networks.open_batch())
    graph = cpplan.load(path)
    assert [graph.tensor[name].shape for name in ("x", "y", "flat")] == [(1, 4), (1, 4), (1, 4)]
    assert caplog.messages == [
        f"{path}: open axes are planned as the file stores them: --dim 'x[0]=1'"
    ]
    caplog.clear()
    read_tflite(networks.single("RELU"))
    assert not caplog.messages


def test_open_axes_of_bodies_take_the_stored_extents():
    graph = read_tflite(networks.conditional(open_batch=True))
    inner = [tensor for body in graph.ops[0].bodies for tensor in body.tensors]
    assert {tensor.shape for tensor in inner if tensor.dtype == "float32"} == {(1, 24)}


def test_slices_of_a_loop_have_the_most_rows_that_they_can_have():
    graph = read_tflite(networks.collecting())
    body = graph.op["counted"].bodies[1]
    before, behind = (body.tensor[name] for name in ("before", "behind"))
    assert before.nbytes == behind.nbytes == body.tensor["after"].nbytes == 48
    assert before.shape is behind.shape is None
    # Parts of an unknown extent have no places in what they are joined to.
    for name in ("before", "taken", "behind", "after"):
        assert body.op[name].placements == body.op[name].in_place == ()


def test_given_extents_go_with_stored_ones(caplog):
    pytest.importorskip("ai_edge_litert", reason="needs cpplan[tflite]")
    graph = read_tflite(networks.open_image(), {"x[1]": 6})
    assert (graph.tensor["x"].shape, graph.tensor["y"].shape) == ((1, 6, 4, 1), (1, 3, 2, 1))
    assert "--dim 'x[0]=1' --dim 'x[2]=4'" in caplog.text


def test_axes_that_follow_from_values_are_refused():
    with pytest.raises(InputError, match="tensor 'rows': axis 0 is only known at run time"):
        read_tflite(networks.open_where())


def test_open_axes_are_bound_and_the_runtime_says_what_follows():
    graph = read_tflite(networks.open_batch(), {"x[0]": 5})
    assert [graph.tensor[name].shape for name in ("x", "y", "flat")] == [(5, 4), (5, 4), (1, 20)]


def test_the_runtime_computes_what_stored_extents_contradict():
    """Here they follow from numbers computed from extents."""
    for dims, frames in ((None, 1), ({"x[0]": 5}, 5)):
        graph = read_tflite(networks.open_frames(), dims)
        assert graph.tensor["frames"].shape == graph.tensor["y"].shape == (frames, 3, 2)


@pytest.mark.parametrize("kind", ["ADD", "BATCH_TO_SPACE_ND", "CONV_2D", "RESHAPE", "SLICE"])
def test_operators_that_lack_operands_or_results_are_read_or_refused(kind):
    for given in (None, {"x[0]": 2}):
        for inputs, outputs in ((0, 1), (1, 0), (0, 0), (1, 1)):
            for inner in (False, True):
                with suppress(InputError):
                    read_tflite(networks.lacking(kind, inputs, outputs, inner=inner), given)


def test_samples_that_are_stored_as_fewer_than_they_are_are_noticed():
    data = networks.dilated()
    assert read_tflite(data).tensor["apart"].shape == (2, 4, 4)
    assert read_tflite(data, {"x[0]": 3}).tensor["apart"].shape == (6, 4, 4)
    written = planned_tflite(data, cpplan.solve(read_tflite(data)))
    assert read_tflite(written).tensor["apart"].shape == (2, 4, 4)


def test_shapes_too_large_to_run_are_refused_before_memory_is_taken():
    """At 20,000 times as many rows and columns, ``y`` takes 48 GB."""
    graph = read_tflite(networks.open_square(10), {"x[0]": 5})
    assert graph.tensor["y"].shape == (50, 60)
    with pytest.raises(InputError, match="the runtime refuses these extents: "):
        read_tflite(networks.open_square(20_000), {"x[0]": 5})


def test_first_values_set_after_an_access_keep_their_place():
    graph = read_tflite(networks.summing(late=True))
    chained = [op.kind for op in graph.ops if op.sequence == "state"]
    assert chained == ["VAR_HANDLE", "READ_VARIABLE", "CALL_ONCE", "ASSIGN_VARIABLE"]


def test_shapes_that_follow_from_an_input_are_refused():
    data = networks.open_frames(by_values=True)
    message = "tensor 'frames': its shape follows from values at run time"
    with pytest.raises(InputError, match=message):
        read_tflite(data, {"x[0]": 5})


def test_axes_that_are_not_open_cannot_be_bound():
    with pytest.raises(InputError, match="'N' is open in this model: expected none"):
        cpplan.load(SEPARABLE, dims={"N": 2})


def test_operators_with_regions_are_named_as_unsupported():
    with pytest.raises(InputError, match="operator STABLEHLO_REDUCE is not supported"):
        read_tflite(networks.single("STABLEHLO_REDUCE"))


def test_what_is_compiled_for_fixed_addresses_is_not_planned():
    with pytest.raises(InputError, match="operator ethos-u is compiled for fixed addresses"):
        read_tflite(networks.single("ethos-u"))


def test_what_only_one_operator_reads_is_its_workspace():
    model = networks.Model()
    main = model.subgraph("main")
    x, scratch, y = (main.tensor(name, [1, 4]) for name in ("x", "scratch", "y"))
    main.made.inputs.append(x)
    main.run("my_kernel", [x, scratch, scratch], [y])
    main.made.outputs.append(y)
    (op,) = read_tflite(model.pack()).ops
    assert (op.inputs, op.workspaces) == (("x",), ("scratch",))


def test_operators_that_nobody_knows_are_named(monkeypatch):
    from tflite.utils import BUILTIN_OPCODE2NAME

    monkeypatch.delitem(BUILTIN_OPCODE2NAME, 28)
    with pytest.raises(InputError, match="operator code 28 is not one that the package tflite"):
        read_tflite(networks.single("TANH"))


def test_subgraphs_that_run_themselves_are_refused():
    model = networks.Model()
    main = model.subgraph("main")
    x, y = main.input("x", [1, 4]), main.tensor("y", [1, 4])
    options = networks.schema.CallOptionsT()
    options.subgraph = 0
    main.run("CALL", [x], [y], options)
    main.made.outputs.append(y)
    with pytest.raises(InputError, match="subgraph 0 runs itself"):
        read_tflite(model.pack())


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.9, 0.9999])
def test_files_that_are_cut_short(tmp_path, share):
    data = SEPARABLE.read_bytes()
    path = tmp_path / "cut.tflite"
    path.write_bytes(data[: int(share * len(data))])
    with pytest.raises(InputError, match=r"cut.tflite: (cut short|not a TFLite model)") as raised:
        cpplan.load(path)
    assert "\n" not in str(raised.value)


def test_files_of_another_format_are_refused(tmp_path):
    path = tmp_path / "graph.tflite"
    path.write_text('{"format": "cpplan.graph"}')
    with pytest.raises(InputError, match="expected the identifier TFL3"):
        cpplan.load(path)
    with pytest.raises(InputError, match="cannot be read: No such file"):
        cpplan.load(tmp_path / "none.tflite")
    with pytest.raises(InputError, match="is not a regular file"):
        read_tflite(tmp_path)


def test_damaged_files_raise_nothing_else():
    draw, data = random.Random(1), (MODELS / "two_inputs.tflite").read_bytes()
    refused = 0
    for _ in range(300):
        damaged = bytearray(data)
        damaged[draw.randrange(600)] = draw.randrange(256)
        try:
            read_tflite(bytes(damaged))
        except InputError:
            refused += 1
    assert refused > 50


def test_scratch_of_an_operator_without_outputs_is_not_known():
    operator = SimpleNamespace(kind="TRANSPOSE_CONV", custom=False, inputs=(0, 0, 0), outputs=())
    assert scratch_sizes(operator, [SimpleNamespace(shape=(4,), dtype="int8")]) is None


def test_ops_whose_shapes_are_not_those_of_their_kind_have_no_axes():
    """As damaged files have them: a result of no axes, more groups than channels."""
    vector, weights = Tensor("x", shape=(4,), dtype="int8"), Tensor("w", shape=(4, 4), dtype="int8")
    scalar = Tensor("y", shape=(), dtype="int8")
    dense = Operation("FULLY_CONNECTED", (vector, weights), (scalar,), {"weights_format": 0})
    assert find_axes("tflite", dense) == ()
    image, taps = (
        Tensor(name, shape=shape, dtype="int8")
        for name, shape in (("i", (1, 8, 8, 2)), ("k", (4, 1, 1, 3)))
    )
    made = Tensor("o", shape=(1, 8, 8, 4), dtype="int8")
    steps = {"stride_h": 1, "stride_w": 1, "padding": 1}
    assert find_axes("tflite", Operation("CONV_2D", (image, taps), (made,), steps)) == ()


# Kind, shapes, shapes of results, constants, table of options, offsets of the parts.
COPIES = [
    ("SLICE", [[1, 6, 4, 8]], [[1, 2, 4, 8]], [[0, 3, 0, 0], [1, 2, 4, 8]], "Slice", [96]),
    ("SLICE", [[1, 6, 4, 8]], [[1, 2, 2, 8]], [[0, 3, 0, 0], [1, 2, 2, 8]], "Slice", []),
    (
        "STRIDED_SLICE",
        [[1, 6, 4, 8]],
        [[1, 3, 4, 8]],
        [[0, 1, 0, 0], [1, 4, 4, 8], [1, 1, 1, 1]],
        "StridedSlice",
        [32],
    ),
    (
        "STRIDED_SLICE",
        [[1, 6, 4, 8]],
        [[1, 3, 4, 8]],
        [[0, 0, 0, 0], [1, 6, 4, 8], [1, 2, 1, 1]],
        "StridedSlice",
        [],
    ),
    ("PAD", [[1, 6, 4, 8]], [[1, 9, 4, 8]], [[[0, 0], [2, 1], [0, 0], [0, 0]]], "Pad", [64]),
    ("PAD", [[1, 6, 4, 8]], [[1, 6, 6, 8]], [[[0, 0], [0, 0], [1, 1], [0, 0]]], "Pad", []),
    ("PACK", [[4, 8]] * 3, [[3, 4, 8]], [], "Pack", [0, 32, 64]),
    ("UNPACK", [[3, 4, 8]], [[4, 8]] * 3, [], "Unpack", [0, 32, 64]),
]


def copying(kind, shapes, results, numbers, options) -> bytes:
    """A model of one operator that only copies."""
    fields = {"PACK": {"valuesCount": 3, "axis": 0}, "UNPACK": {"num": 3, "axis": 0}}
    given = {"table": options, **fields.get(kind, {})}
    return kinds.one_operator(kind, kinds.INT8, shapes, results, numbers, given)


@pytest.mark.parametrize(("kind", "shapes", "results", "numbers", "options", "offsets"), COPIES)
def test_operators_that_copy_have_placements(kind, shapes, results, numbers, options, offsets):
    (op,) = read_tflite(copying(kind, shapes, results, numbers, options)).ops
    assert [placement.offset for placement in op.placements] == offsets
    inner, outer = (op.inputs, op.outputs) if kind in ("PAD", "PACK") else (op.outputs, op.inputs)
    for part, placement in zip(inner, op.placements, strict=False):
        assert (placement.part, placement.whole) == (part, outer[0])


@pytest.mark.parametrize(("kind", "shapes", "results", "numbers", "options", "offsets"), COPIES)
def test_copies_onto_themselves_run_in_tflite_micro(
    kind, shapes, results, numbers, options, offsets
):
    data = copying(kind, shapes, results, numbers, options)
    plan = cpplan.solve(read_tflite(data), placement=True, time_limit=2)
    assert len(plan.relations) == len(offsets)
    runs = runtimes.draw_inputs(data)
    expected = runtimes.run_micro(data, runs)
    assert runtimes.equal(runtimes.run_micro(planned_tflite(data, plan), runs), expected)


def test_a_slice_backwards_begins_at_the_last_position():
    given = {"table": "StridedSlice", "beginMask": 0b1111, "endMask": 0b1101}
    numbers = [[0, 0, 0, 0], [0, -2, 0, 0], [1, -1, 1, 1]]
    shapes = [[1, 6, 4, 8]], [[1, 1, 4, 8]]
    data = kinds.one_operator("STRIDED_SLICE", kinds.INT8, *shapes, numbers, given)
    (op,) = read_tflite(data).ops
    assert [placement.offset for placement in op.placements] == [160]


def test_parts_of_a_split_lie_within_it():
    model, net = kinds.new_net("split", kinds.INT8)
    x = net.input("x", [4, 8])
    net.output(*net.split("parts", x, 2, 0))
    (op,) = read_tflite(model.pack()).ops
    assert [(p.whole, p.offset) for p in op.placements] == [("x", 0), ("x", 16)]
