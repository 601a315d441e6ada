"""Placements of ONNX ops that only copy; offsets are checked on the reference kernels' bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cases import examples

from cpplan.model.graph import Graph

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper, parser  # noqa: E402

from cpplan.io.onnx.model import read_onnx  # noqa: E402
from cpplan.io.onnx.run import OnnxRun  # noqa: E402
from cpplan.verification.tensor_bytes import to_bytes  # noqa: E402

Node = tuple[onnx.NodeProto, list[tuple[int, ...]], dict[str, np.ndarray]]


def read(text: str, *, opset: int = 17) -> Graph:
    text = f'<ir_version: 8, opset_import: ["" : {opset}, "my" : 1]> {text}'
    return read_onnx(parser.parse_model(text))


def placements(text: str, *, opset: int = 17) -> list[tuple[str, str, int]]:
    """Those of all ops, in the order of the file."""
    return [tuple(p) for op in read(text, opset=opset).ops for p in op.placements]


# --- random ops against the reference kernels ----------------------------------------------------


def one_node(
    node: onnx.NodeProto, shapes: list[tuple[int, ...]], values: dict[str, np.ndarray], opset: int
) -> onnx.ModelProto:
    """A model of one node that reads ``x0``, ``x1``, … of these shapes, and constants."""
    make = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node],
        "g",
        [make(f"x{k}", TensorProto.FLOAT, shape) for k, shape in enumerate(shapes)],
        [make(name, TensorProto.FLOAT, None) for name in node.output],
        [numpy_helper.from_array(value, name) for name, value in values.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


# Extents of one are frequent: they decide what lies in one piece.
SHAPES = st.lists(st.sampled_from([1, 1, 2, 3]), min_size=1, max_size=4).map(tuple)


@st.composite
def concats(draw: st.DrawFn) -> Node:
    shape = draw(SHAPES)
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    extents = draw(st.lists(st.integers(0, 3), min_size=1, max_size=4))
    shapes = []
    for extent in extents:
        own = list(shape)
        own[axis] = extent
        shapes.append(tuple(own))
    names = [f"x{k}" for k in range(len(shapes))]
    return helper.make_node("Concat", names, ["y"], axis=axis), shapes, {}


@st.composite
def splits(draw: st.DrawFn) -> Node:
    shape = draw(SHAPES)
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    parts = draw(st.lists(st.integers(0, 3), min_size=1, max_size=4))
    whole = list(shape)
    whole[axis] = sum(parts)
    names = [f"y{k}" for k in range(len(parts))]
    node = helper.make_node("Split", ["x0", "parts"], names, axis=axis)
    return node, [tuple(whole)], {"parts": np.array(parts, np.int64)}


@st.composite
def slices(draw: st.DrawFn) -> Node:
    shape = draw(SHAPES)
    rank = len(shape)
    axes = draw(st.lists(st.integers(0, rank - 1), min_size=1, max_size=rank, unique=True))
    bound = st.integers(-4, 4) | st.sampled_from([-(2**40), 2**40])
    columns = {
        "starts": [draw(bound) for _ in axes],
        "ends": [draw(bound) for _ in axes],
        "axes": [axis - draw(st.sampled_from([0, rank])) for axis in axes],
        "steps": [draw(st.sampled_from([1, 1, 1, 2])) for _ in axes],
    }
    values = {name: np.array(column, np.int64) for name, column in columns.items()}
    return helper.make_node("Slice", ["x0", *values], ["y"]), [shape], values


@st.composite
def gathers(draw: st.DrawFn) -> Node:
    shape = draw(SHAPES)
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    extent = shape[axis]
    first = draw(st.integers(-extent, extent - 1))
    count = draw(st.integers(1, extent - first % extent))
    indices = np.arange(first, first + count, dtype=np.int64)
    indices = draw(st.sampled_from([indices, indices[::-1].copy(), indices[:1].reshape(())]))
    indices[indices >= extent] -= extent
    return helper.make_node("Gather", ["x0", "i"], ["y"], axis=axis), [shape], {"i": indices}


@st.composite
def pads(draw: st.DrawFn) -> Node:
    shape = draw(SHAPES)
    rank = len(shape)
    axes = draw(st.lists(st.integers(0, rank - 1), min_size=1, max_size=rank, unique=True))
    counts = [draw(st.sampled_from([0, 0, 1, 2])) for _ in range(2 * len(axes))]
    axes = [axis - draw(st.sampled_from([0, rank])) for axis in axes]
    values = {"pads": np.array(counts, np.int64), "axes": np.array(axes, np.int64)}
    return helper.make_node("Pad", ["x0", "pads", "", "axes"], ["y"]), [shape], values


@st.composite
def expands(draw: st.DrawFn) -> Node:
    shape = draw(SHAPES)
    target = [draw(st.sampled_from([1, n])) if n > 1 else draw(st.integers(1, 3)) for n in shape]
    target = draw(st.lists(st.integers(1, 2), max_size=1)) + target
    values = {"target": np.array(target, np.int64)}
    return helper.make_node("Expand", ["x0", "target"], ["y"]), [shape], values


@st.composite
def tiles(draw: st.DrawFn) -> Node:
    shape = draw(SHAPES)
    times = np.array([draw(st.integers(1, 2)) for _ in shape], np.int64)
    return helper.make_node("Tile", ["x0", "times"], ["y"]), [shape], {"times": times}


@pytest.mark.parametrize(
    "nodes", [concats(), splits(), slices(), gathers(), pads(), expands(), tiles()], ids=repr
)
def test_a_placement_is_where_the_bytes_are_and_missing_only_where_they_are_not(
    nodes: st.SearchStrategy[Node],
) -> None:
    @given(nodes)
    @settings(max_examples=examples(30))
    def check(drawn: Node) -> None:
        node, shapes, constants = drawn
        counter, inputs = 1, {}
        for k, shape in enumerate(shapes):  # numbers that occur once
            count = int(np.prod(shape))
            inputs[f"x{k}"] = np.arange(counter, counter + count, dtype=np.float32).reshape(shape)
            counter += count
        run = OnnxRun(one_node(node, shapes, constants, 18), {}, inputs, seed=0, weights="model")
        values, (op,) = run.values(), run.graph.ops
        assert op.in_place == ()
        for part, whole, offset in op.placements:
            value = to_bytes(values[part], "float32")
            place = to_bytes(values[whole], "float32")[offset : offset + value.size]
            assert value.tobytes() == place.tobytes() != b""
        related = {frozenset(placement[:2]) for placement in op.placements}
        for one in inputs:
            for other in op.outputs:
                part, whole = sorted((values[one].ravel(), values[other].ravel()), key=len)
                # A repeated input may seem to lie elsewhere too: only its first copy counts.
                starts = [0] if node.op_type in ("Expand", "Tile") else range(len(whole))
                copied = part.size > 0 and any(
                    np.array_equal(whole[at : at + part.size], part) for at in starts
                )
                assert ({one, other} in related) == copied

    check()


# --- by hand -------------------------------------------------------------------------------------


def test_parts_of_a_concatenation_lie_one_after_another() -> None:
    text = """g (float[1,2,3] a, float[1,4,3] b) => (float[1,8,3] y)
    { y = Concat<axis = 1>(a, b, a) }"""
    # 24 B, 48 B, 24 B; a is written twice, and one placement is as good as the other.
    assert placements(text) == [("a", "y", 0), ("b", "y", 24), ("a", "y", 72)]


def test_no_part_is_in_one_piece_where_others_come_between_its_rows() -> None:
    text = """g (float[2,2] a, float[2,3] b) => (float[2,5] y) { y = Concat<axis = 1>(a, b) }"""
    assert placements(text) == []
    # One part that is all there is lies in one piece whatever the axis.
    text = "g (float[2,2] a, float[2,0] b) => (float[2,2] y) { y = Concat<axis = 1>(a, b) }"
    assert placements(text) == [("a", "y", 0)]


def test_constants_are_placed_nowhere_but_move_what_comes_after_them() -> None:
    text = """g (float[2] a) => (float[4] y) <float[2] w = {1,2}> { y = Concat<axis = 0>(w, a) }"""
    assert placements(text) == [("a", "y", 8)]


def test_the_parts_of_a_split_that_nobody_names() -> None:
    value = helper.make_tensor_value_info

    def split(names: list[str], extents: list[int]) -> list[tuple[str, str, int]]:
        graph = helper.make_graph(
            [helper.make_node("Split", ["x", "parts"], names)],
            "g",
            [value("x", TensorProto.FLOAT, [sum(extents)])],
            [value(n, TensorProto.FLOAT, [e]) for n, e in zip(names, extents, strict=True) if n],
            [numpy_helper.from_array(np.array(extents, np.int64), "parts")],
        )
        read = read_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]))
        return [tuple(placement) for placement in read.ops[0].placements]

    assert split(["", "b", "c"], [1, 2, 3]) == [("b", "x", 4), ("c", "x", 12)]
    assert split(["a", "", "c", ""], [1, 2, 3, 4]) == [("a", "x", 0)]


def test_a_row_of_a_row_is_in_one_piece() -> None:
    text = """g (float[4,5,6] x) => (float[1,2,6] y) <int64[2] from = {2,1}, int64[2] to = {3,3}>
    { y = Slice(x, from, to) }"""
    assert placements(text) == [("y", "x", 4 * (2 * 30 + 1 * 6))]


def test_a_slice_backwards_is_in_one_piece_if_it_is_one_row() -> None:
    text = """g (float[4,3] x) => (float[1,3] y) <int64[1] from = {-1}, int64[1] to = {-2},
    int64[1] axis = {0}, int64[1] back = {-1}> { y = Slice(x, from, to, axis, back) }"""
    assert placements(text) == [("y", "x", 36)]
    assert placements(text.replace("{-2}", "{-3}").replace("[1,3]", "[2,3]")) == []


def test_every_other_row_is_not_in_one_piece() -> None:
    text = """g (float[5,3] x) => (float[3,3] y) <int64[1] from = {0}, int64[1] to = {5},
    int64[1] axis = {0}, int64[1] step = {2}> { y = Slice(x, from, to, axis, step) }"""
    assert placements(text) == []


def test_old_slices_and_pads_carry_their_numbers_as_attributes() -> None:
    text = "g (float[4,3] x) => (float[2,3] y) { y = Slice<starts = [1], ends = [-1]>(x) }"
    assert placements(text, opset=9) == [("y", "x", 12)]
    text = "g (float[4,3] x) => (float[7,3] y) { y = Pad<pads = [1,0,2,0]>(x) }"
    assert placements(text, opset=9) == [("x", "y", 12)]


def test_a_pad_that_cuts_away_leaves_a_part_of_its_input() -> None:
    text = """g (float[4,3] x) => (float[2,3] y) <int64[4] p = {-1,0,-1,0}> { y = Pad(x, p) }"""
    assert placements(text) == [("y", "x", 12)]
    # One row is cut off in front, and one of zeros is added behind.
    assert placements(text.replace("-1,0,-1,0", "-1,0,1,0").replace("[2,3]", "[4,3]")) == []


def test_where_a_slice_begins_may_follow_from_shapes_and_arithmetic() -> None:
    graph = read(
        """g (float[6,2] x, float[3,2] z) => (float[3,2] y) <int64[1] zero = {0},
        int64[1] big = {99}>
        { s = Shape(z) b = Gather(s, zero) two = Constant<value_ints = [2]>() h = Mul(b, two)
          e = Min(h, big) y = Slice(x, b, e, zero) }"""
    )
    assert [tuple(p) for op in graph.ops for p in op.placements] == [("y", "x", 24)]


def test_the_long_name_of_the_domain_is_understood() -> None:
    proto = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17, "ai.onnx" : 17]>
        g (float[6] x) => (float[2] y) <int64[1] one = {1}, int64[1] four = {4}, int64[1] two,
        float[2] t>
        { two = ai.onnx.Add(one, one) t = ai.onnx.Slice(x, two, four) y = Neg(t) }"""
    )
    op, _ = read_onnx(proto).ops
    assert op.placements == (("t", "x", 8),)


@pytest.mark.parametrize("begin", ["Identity(b)", "my.Odd(one)"])
def test_where_it_is_not_known_nothing_is_placed(begin: str) -> None:
    text = f"""g (float[6] x, int64[1] b, int64[1] e) => (float[2] y) <int64[1] one = {{1}},
    float[2] t, int64[1] c> {{ c = {begin} t = Slice(x, c, e) y = Neg(t) }}"""
    assert placements(text) == []


def test_an_enclosing_graph_says_where_a_slice_begins() -> None:
    graph = read(
        """g (bool c, float[4] x) => (float[2] y) <int64[1] b = {1}, int64[1] e = {3}>
        { y = If(c) <
          then_branch = t () => (float[2] p) { p = Slice(x, b, e) },
          else_branch = o () => (float[2] q) { f = Constant<value_ints = [9]>()
            b2 = Add(b, b) q = Slice(x, b2, f) }> }"""
    )
    then, orelse = graph.ops[0].bodies
    assert [op.placements for op in then.ops] == [(("y", "x", 4),)]
    assert [op.placements for op in orelse.ops] == [(("y", "x", 8),)]


@pytest.mark.parametrize(
    ("before", "extent", "expected"), [(2, 4, [1]), (3, 4, []), (2, 3, []), (0, 2, [0])]
)
def test_elements_narrower_than_a_byte_lie_at_whole_bytes(
    before: int, extent: int, expected: list[int]
) -> None:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Pad", ["x", "pads"], ["y"])],
        "g",
        [value("x", TensorProto.INT4, [extent])],
        [value("y", TensorProto.INT4, [before + extent + 4])],
        [numpy_helper.from_array(np.array([before, 4], np.int64), "pads")],
    )
    (op,) = read_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])).ops
    assert [placement.offset for placement in op.placements] == expected


@pytest.mark.parametrize(
    "node", ["DepthToSpace<blocksize = 1>(x)", "my.Concat<axis = 0>(x)", "Relu(x)", "Reshape(x, s)"]
)
def test_other_ops_and_views_place_nothing(node: str) -> None:
    text = f"""g (float[1,4,2,2] x) => (float[1,4,2,2] y) <float[1,4,2,2] t,
    int64[4] s = {{1,4,2,2}}> {{ t = {node} y = Neg(t) }}"""
    assert placements(text) == []


def test_the_light_models_place_what_they_concatenate() -> None:
    folder = Path(onnx.__file__).parent / "backend/test/data/light"
    graph = read_onnx(folder / "light_squeezenet.onnx")
    # Eight fire modules, each with two halves side by side at batch 1.
    assert [len(op.placements) for op in graph.ops if op.kind == "Concat"] == [2] * 8
    assert sum(len(op.placements) for op in graph.ops) == 16
    assert {op.kind for op in graph.ops if op.in_place} == {"Relu"}
