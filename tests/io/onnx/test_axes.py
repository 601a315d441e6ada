"""Axes of ONNX's operators: a part of the inputs gives that part of the outputs, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from support.cases import seeds

pytest.importorskip("onnx")
import onnx
from support.onnx_nodes import KINDS, Draw, Drawn

from cpplan.io.axes import Operation, register_axes, same
from cpplan.io.onnx.kernels import make_kernel
from cpplan.io.onnx.model import read_onnx
from cpplan.io.onnx.operation import operation_of
from cpplan.io.onnx.piece_nodes import piece_node
from cpplan.io.pieces import PieceWork, piece_work, slices
from cpplan.model.axes import Axis
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op

Array = npt.NDArray[Any]
# No piece of these is a node: a position is interpolated, or may be padding alone.
_WITHOUT_NODE = {"Pad", "Resize"}


def run(drawn: Drawn, values: Mapping[str, Array], node: Any = None) -> dict[str, Array]:
    """Results of the whole node, or of a piece's, on these values."""
    node = drawn.node if node is None else node
    return make_kernel(node, {}, {"": drawn.opset})(values)


def read(drawn: Drawn) -> tuple[Graph, Op]:
    graph = read_onnx(drawn.model())
    return graph, graph.ops[0]


def random_cases(kind: str) -> Iterator[tuple[Draw, Drawn, Graph, Op, dict[str, Array]]]:
    """Random nodes of a kind: the graph, its op, and the results of the whole node."""
    for seed in seeds(12):
        draw = Draw(seed)
        drawn = KINDS[kind](draw)
        graph, op = read(drawn)
        whole = run(drawn, drawn.values)
        # The reference kernel is wrong of pools that round up.
        if all(whole[name].shape == graph.tensor[name].shape for name in op.outputs):
            yield draw, drawn, graph, op, whole


def parts_of(values: Mapping[str, Array], work: PieceWork) -> dict[str, Array]:
    """The parts of a node's inputs that a piece reads."""
    return {
        name: np.asarray(values[name])[(*slices(box), ...)]
        for name, box in work.boxes.items()
        if name in values
    }


def cuts(op: Op, draw: Draw) -> Iterator[dict[str, tuple[int, int]]]:
    """An interval of each axis by itself, and of two axes that cut no tensor twice."""
    spans = {}
    for axis in op.axes:
        start = draw.number(0, axis.extent - 1)
        spans[axis.name] = (start, draw.number(start + 1, axis.extent))
        if not axis.accumulates:
            yield {axis.name: spans[axis.name]}
    for one, other in zip(op.axes, op.axes[1:], strict=False):
        places = [(w.tensor, w.axis) for axis in (one, other) for w in axis.windows]
        if not (one.accumulates or other.accumulates) and len(set(places)) == len(places):
            yield {axis.name: spans[axis.name] for axis in (one, other)}


def with_garbage(values: Mapping[str, Array], work: PieceWork, op: Op) -> dict[str, Array]:
    """The values, with others wherever the piece reads nothing."""
    spoilt = {}
    for name, value in values.items():
        if name not in op.inputs:
            spoilt[name] = value
            continue
        other = np.full_like(value, {"f": 1e9, "b": True}.get(value.dtype.kind, 77))
        if value.dtype == np.int64:
            other = np.zeros_like(value)  # indices
        if name in work.boxes:
            other[slices(work.boxes[name])] = value[slices(work.boxes[name])]
        spoilt[name] = other
    return spoilt


@pytest.mark.parametrize("kind", KINDS)
def test_a_piece_depends_on_its_windows_only(kind: str) -> None:
    split = 0
    for draw, drawn, graph, op, whole in random_cases(kind):
        for spans in cuts(op, draw):
            work = piece_work(graph, op, tuple(spans), tuple(spans.values()))
            spoilt = run(drawn, with_garbage(drawn.values, work, op))
            for name in op.outputs:
                if name in work.boxes:
                    box = slices(work.boxes[name])
                    np.testing.assert_array_equal(spoilt[name][box], whole[name][box], f"{spans}")
                    split += 1
    assert split


@pytest.mark.parametrize("kind", KINDS)
def test_the_node_of_a_piece_computes_that_part(kind: str) -> None:
    computed = 0
    for draw, drawn, graph, op, whole in random_cases(kind):
        operation = operation_of(drawn.node, graph.tensor, drawn.values.get, drawn.opset)
        for spans in cuts(op, draw):
            work = piece_work(graph, op, tuple(spans), tuple(spans.values()))
            made = piece_node(drawn.node, operation, work)
            if made is None:
                assert kind in _WITHOUT_NODE
                continue
            parts = parts_of(drawn.values, work)
            for axis, positions in made.takes.items():
                parts[made.node.input[0]] = parts[made.node.input[0]].take(positions, axis)
            found = run(drawn, {**parts, **made.constants}, made.node)
            for name in made.node.output:
                expected = whole[name][slices(work.boxes[name])]
                np.testing.assert_array_equal(
                    found[name], expected, f"{drawn.node.op_type}: {spans}"
                )
                computed += 1
    assert computed


@pytest.mark.parametrize("kind", ["Conv", "ConvInteger", "Gemm", "MatMul", "MatMulInteger"])
def test_pieces_of_a_sum_add_up_to_it(kind: str) -> None:
    added = 0
    for draw, drawn, graph, op, whole in random_cases(kind):
        operation = operation_of(drawn.node, graph.tensor, drawn.values.get, drawn.opset)
        for axis in (axis for axis in op.axes if axis.accumulates):
            at = draw.number(1, axis.extent - 1)
            total = None
            for span in ((0, at), (at, axis.extent)):
                work = piece_work(graph, op, (axis.name,), (span,))
                made = piece_node(drawn.node, operation, work)
                assert made is not None
                parts = parts_of(drawn.values, work)
                found = run(drawn, {**parts, **made.constants}, made.node)["y"]
                total = found if total is None else total + found
            np.testing.assert_array_equal(total, whole["y"])
            added += 1
    assert added


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("Conv", {"batch", "rows", "columns", "channels", "terms"}),
        ("QLinearConv", {"rows", "columns", "channels"}),
        ("Concat", {"batch", "channels", "rows", "columns"}),
        ("MatMul", {"batch", "rows", "columns", "terms"}),
    ],
)
def test_axes_have_the_names_of_the_field(kind: str, names: set[str]) -> None:
    found = {axis.name for seed in range(40) for axis in read(KINDS[kind](Draw(seed)))[1].axes}
    assert names <= found


def test_quantized_sums_are_not_added_up_in_parts() -> None:
    for seed in range(20):
        _, op = read(KINDS["QLinearConv"](Draw(seed)))
        assert not any(axis.accumulates for axis in op.axes)


def test_a_registered_rule_gives_the_axes_of_a_kind() -> None:
    drawn = KINDS["Relu"](Draw(3))
    shape = drawn.values["x"].shape

    def rule(op: Operation) -> list[Axis]:
        return [same("first", shape[0], [(op.input(), 0), (op.output, 0)])]

    register_axes("onnx", "Relu", rule)
    try:
        assert [axis.name for axis in read(drawn)[1].axes] == ["first"]
        register_axes("onnx", "Relu", None)
        assert read(drawn)[1].axes == ()
    finally:
        from cpplan.io import axes

        del axes._REGISTERED["onnx"]["Relu"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("caffe", "Conv", None), "framework 'caffe' is not understood: expected one of onnx"),
        (("onnx", "", None), "a kind of op must be a non-empty string"),
        (("onnx", "Conv", 3), "the rule for 'Conv' must be a function or None, not 3"),
    ],
)
def test_a_wrong_registration_is_named(given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        register_axes(*given)


@pytest.mark.parametrize("kind", ["Split", "ConvTranspose"])
def test_axis_of_too_many_positions_for_a_table_is_left_out(kind: str) -> None:
    made, wide = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    if kind == "Split":
        node, shape = made(kind, ["x"], ["y", "z"], axis=0), [1 << 40, 2]
    else:
        node, shape = made(kind, ["x", "w"], ["y"], kernel_shape=[1 << 40, 1]), [1, 1, 4, 4]
    image = wide("x", onnx.TensorProto.FLOAT, shape)
    outputs = [wide(name, onnx.TensorProto.FLOAT, None) for name in node.output]
    weights = onnx.numpy_helper.from_array(np.ones((1, 1, 1, 1), np.float32), "w")
    graph = onnx.helper.make_graph([node], "g", [image], outputs, [weights])
    opset = onnx.helper.make_opsetid("", 17)
    [op] = read_onnx(onnx.helper.make_model(graph, opset_imports=[opset])).ops
    assert all(axis.extent < 1 << 40 for axis in op.axes)
