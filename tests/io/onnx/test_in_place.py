"""ONNX ops that may write over an input, checked against the elements that kernels read."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, parser  # noqa: E402
from support.cases import examples  # noqa: E402

from cpplan.io.onnx import in_place  # noqa: E402
from cpplan.io.onnx.kernels import make_kernel  # noqa: E402
from cpplan.io.onnx.model import read_onnx  # noqa: E402
from cpplan.io.onnx.types import types_of  # noqa: E402


def model(text: str, *, opset: int = 17) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}, "my" : 1]> {text}')


def pairs(text: str, *, opset: int = 17) -> list[tuple[str, str]]:
    """The pairs of all ops, in the order of the file."""
    graph = read_onnx(model(text, opset=opset))
    return [pair for op in graph.ops for pair in op.in_place]


# Kind of op -> its call, the types of what it may replace, the type of y; 4 x 3 elements each.
FLOAT, BOOL, INT32 = "float", "bool", "int32"
UNARY = ("(x)", {"x": FLOAT}, FLOAT)
BINARY = ("(x, z)", {"x": FLOAT, "z": FLOAT}, FLOAT)
LOGIC = ("(x, z)", {"x": BOOL, "z": BOOL}, BOOL)
INTEGER = ("(x, z)", {"x": INT32, "z": INT32}, INT32)
COMPARISON = ("(x, z)", {"x": FLOAT, "z": FLOAT}, BOOL)
CALLS = {
    **dict.fromkeys(("And", "Or", "Xor"), LOGIC),
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor", "Mod"), INTEGER),
    **dict.fromkeys(("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"), COMPARISON),
    **dict.fromkeys(("Scatter", "ScatterElements"), ("<axis = 0>(x, i, u)", {"x": FLOAT}, FLOAT)),
    "BitShift": ('<direction = "LEFT">(x, z)', {"x": "uint32", "z": "uint32"}, "uint32"),
    "BitwiseNot": ("(x)", {"x": INT32}, INT32),
    "Cast": ("<to = 6>(x)", {"x": FLOAT}, INT32),
    "CastLike": ("(x, k)", {"x": FLOAT}, INT32),
    "Clip": ("(x, low, high)", {"x": FLOAT}, FLOAT),
    "DequantizeLinear": ("(x, high)", {"x": INT32}, FLOAT),
    "Dropout": ("(x, high, yes)", {"x": FLOAT}, FLOAT),
    "IsInf": ("(x)", {"x": FLOAT}, BOOL),
    "IsNaN": ("(x)", {"x": FLOAT}, BOOL),
    "Not": ("(x)", {"x": BOOL}, BOOL),
    "QuantizeLinear": ("(x, high)", {"x": FLOAT}, "uint8"),
    "ScatterND": ("(x, at, row)", {"x": FLOAT}, FLOAT),
    "TensorScatter": ("<axis = 1>(x, three)", {"x": FLOAT}, FLOAT),
    "Where": ("(c, x, z)", {"c": BOOL, "x": FLOAT, "z": FLOAT}, FLOAT),
}
CALLS = (
    dict.fromkeys(in_place._OF_FIRST, UNARY)
    | dict.fromkeys(in_place._OF_EACH | in_place._OF_FIRST_OF_MANY, BINARY)
    | CALLS
)
OPSET = {"Scatter": 10, "DequantizeLinear": 21, "TensorScatter": 24}
BYTES = {BOOL: 1, "uint8": 1, FLOAT: 4, INT32: 4, "uint32": 4}
CONSTANTS = """<float low = {1}, float high = {2}, bool yes = {1}, int32 k = {0},
int64[1,3] i = {0,1,0}, float[1,3] u = {7,8,9}, int64[1,1] at = {1}, float[1,3] row = {7,8,9},
float[4,1] three = {7,8,9,7}>"""


def one_op(kind: str) -> onnx.ModelProto:
    call, types, result = CALLS[kind]
    declared = ", ".join(f"{dtype}[4,3] {name}" for name, dtype in types.items())
    text = f"g ({declared}) => ({result}[4,3] y) {CONSTANTS} {{ y = {kind}{call} }}"
    return model(text, opset=OPSET.get(kind, 18))


@pytest.mark.parametrize("kind", sorted(CALLS))
def test_an_element_wise_op_may_replace_its_inputs_of_equal_element_size(kind: str) -> None:
    _, types, result = CALLS[kind]
    (op,) = read_onnx(one_op(kind)).ops
    # What takes in one operand after another has perhaps written all before it reads the second.
    replaced = list(types)[:1] if kind in in_place._OF_FIRST_OF_MANY else types
    assert op.in_place == tuple(("y", x) for x in replaced if BYTES[types[x]] == BYTES[result])
    assert op.placements == ()


def test_every_kind_is_an_operator_of_onnx() -> None:
    known = {schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""}
    assert sorted(CALLS.keys() - known) == []


# The mask of Dropout is random; Scatter, an old name of ScatterElements, has no reference kernel.
@pytest.mark.parametrize("kind", sorted(CALLS.keys() - {"Dropout", "Scatter"}))
def test_an_element_of_the_output_depends_on_no_other_element_of_such_an_input(kind: str) -> None:
    # This is what lets a kernel read each byte before it writes the one in its place.
    proto, rng = one_op(kind), np.random.default_rng(0)
    (node,) = proto.graph.node
    kernel = make_kernel(node, types_of(proto.graph), {"": proto.opset_import[0].version})
    stored = {t.name: onnx.numpy_helper.to_array(t) for t in proto.graph.initializer}
    read = {name: stored[name] for name in node.input if name in stored}
    for value in proto.graph.input:
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        read[value.name] = rng.integers(0, 2 if dtype.kind == "b" else 3, (4, 3)).astype(dtype)
    odd = {"IsNaN": np.nan, "IsInf": np.inf}.get(kind, 3)
    before, changed = kernel(read)["y"], 0
    for name in CALLS[kind][1]:
        for k in range(12):
            other = read[name].copy()
            other.flat[k] = not other.flat[k] if other.dtype == bool else odd
            after = kernel(read | {name: other})["y"]
            elsewhere = np.arange(12) != k
            np.testing.assert_array_equal(after.flat[elsewhere], before.flat[elsewhere])
            changed += not np.array_equal(after, before, equal_nan=True)
    assert changed > 0


@pytest.mark.parametrize(
    "node",
    [
        "Softmax(x)",
        "LogSoftmax(x)",
        "Mish(x)",
        "Gelu(x)",
        "Hardmax(x)",
        "LayerNormalization(x, row)",
        "LpNormalization(x)",
        "CumSum(x, zero)",
        "MatMul(x, square)",
        "Gemm(x, square)",
        "Transpose(x)",
        "my.Relu(x)",
    ],
)
def test_what_is_not_element_wise_makes_no_pair(node: str) -> None:
    text = f"""g (float[4,4] x, float[4,4] square) => (float[4,4] y) <float[4,4] t,
    float[4] row = {{1,2,3,4}}, int32 zero = {{0}}> {{ t = {node} y = ReduceSum(t) }}"""
    proto = model(text.replace("float[4,4] y", "float[1,1] y"), opset=20)
    assert [op.in_place for op in read_onnx(proto).ops] == [(), ()]


@given(
    st.lists(st.integers(1, 3), max_size=4),
    st.lists(st.booleans(), min_size=8, max_size=8),
    st.integers(0, 4),
    st.sampled_from(["Add", "Where", "Less", "Mul", "PRelu"]),
)
@settings(max_examples=examples(50))
def test_with_broadcasting_a_pair_means_equal_shapes(
    shape: list[int], ones: list[bool], dropped: int, kind: str
) -> None:
    full = tuple(shape)
    other = tuple(1 if one else n for n, one in zip(shape, ones, strict=False))
    if len(shape) > 1 and dropped < len(shape):
        other = other[dropped:]
    names = ["x", "z"] if kind == "PRelu" else ["z", "x"]
    out = TensorProto.BOOL if kind == "Less" else TensorProto.FLOAT
    value = helper.make_tensor_value_info
    inputs = [value("x", TensorProto.FLOAT, full), value("z", TensorProto.FLOAT, other)]
    if kind == "Where":
        inputs.append(value("c", TensorProto.BOOL, full))
        names = ["c", *names]
    graph = helper.make_graph(
        [helper.make_node(kind, names, ["y"])], "g", inputs, [value("y", out, full)]
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    found = {source for _, source in read_onnx(proto).ops[0].in_place}
    # Where z has fewer axes but as many elements, the axes it lacks are of extent one.
    same = other == full or math.prod(other) == math.prod(full)
    assert found == (set() if kind == "Less" else {"x", "z"} if same else {"x"})


def test_inputs_that_cannot_be_replaced_make_no_pair() -> None:
    text = """g (float[4] x, float[1] b, float s) => (float[4] y) <float[4] w = {1,2,3,4}>
    { t = Add(x, w) u = Mul(b, t) v = Sub(u, s) y = Where(m, v, x) }"""
    text = text.replace("float s)", "float s, bool[4] m)")
    # w is constant, b and s are broadcast, m has elements of one byte.
    assert pairs(text) == [("t", "x"), ("u", "t"), ("v", "u"), ("y", "v"), ("y", "x")]


def test_a_computed_view_of_a_constant_is_as_fixed_as_the_constant() -> None:
    text = """g (float[4] x, int64[2] s) => (float[2,2] y) <float[4] w = {1,2,3,4}>
    { v = Reshape(w, s) y = Neg(v) }"""
    proto = model(text)
    proto.graph.value_info.append(helper.make_tensor_value_info("v", TensorProto.FLOAT, [2, 2]))
    graph = read_onnx(proto)
    assert graph.root["v"] == ("w", 0)
    assert graph.tensor["v"].kind == "intermediate"
    assert [op.in_place for op in graph.ops] == [(), ()]


def test_an_input_read_twice_makes_one_pair() -> None:
    assert pairs("g (float[4] x) => (float[4] y) { y = Mul(x, x) }") == [("y", "x")]


def test_an_input_read_in_another_role_makes_no_pair() -> None:
    text = """g (int64[2] x) => (int64[2] y) <int64[1] i = {0}>
    { y = ScatterElements<axis = 0>(x, i, i2) }"""
    assert pairs(text.replace("i, i2", "x, x")) == []
    assert pairs(text.replace("i, i2", "i, i")) == [("y", "x")]


def test_of_many_operands_only_the_first_is_replaced() -> None:
    # A kernel may copy the first to the output, and then take in one operand after another.
    declared = "g (float[4] a, float[4] b, float[4] c) => (float[4] y)"
    assert pairs(f"{declared} {{ y = Sum(a, b, c) }}") == [("y", "a")]
    assert pairs(f"{declared} {{ y = Sum(a, b, a) }}") == []
    assert pairs(f"{declared} {{ y = Where(m, a, b) }}".replace("float[4] c", "bool[4] m")) == [
        ("y", "a"),
        ("y", "b"),
    ]


@pytest.mark.parametrize(
    ("opset", "attribute", "more", "affine"),
    [
        (6, "", "", False),
        (6, "<is_test = 1>", "", True),
        (9, "", "", True),
        (9, "", ", m2, v2, m3, v3", False),
        (15, "", "", True),
        (15, "<training_mode = 1>", ", m2, v2", False),
    ],
)
def test_batch_norm_is_element_wise_where_it_is_given_its_statistics(
    opset: int, attribute: str, more: str, affine: bool
) -> None:
    text = f"""g (float[2,3,4] x, float[3] s, float[3] b, float[3] m, float[3] v)
    => (float[2,3,4] y) {{ y{more} = BatchNormalization{attribute}(x, s, b, m, v) }}"""
    assert pairs(text, opset=opset) == ([("y", "x")] if affine else [])


def test_what_is_a_view_makes_no_pair() -> None:
    text = """g (float[4] x, int8[4] i) => (float[4] y, int8[4] j, float[4] z)
    { y = Dropout(x) z = Cast<to = 1>(x) j = CastLike(i, i) }"""
    graph = read_onnx(model(text))
    assert {t.name: t.view_of for t in graph.tensors if t.view_of} == {
        "y": ("x", 0),
        "z": ("x", 0),
        "j": ("i", 0),
    }
    assert [(op.in_place, op.placements) for op in graph.ops] == [((), ())] * 3


def test_empty_tensors_make_no_pair() -> None:
    assert pairs("g (float[0,4] x) => (float[0,4] y) { y = Relu(x) }") == []


def test_elements_narrower_than_a_byte_are_replaced_by_elements_as_narrow() -> None:
    graph = helper.make_graph(
        [
            helper.make_node("Cast", ["x"], ["t"], to=TensorProto.UINT4),
            helper.make_node("Cast", ["t"], ["y"], to=TensorProto.INT8),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.INT4, [1])],
        [helper.make_tensor_value_info("y", TensorProto.INT8, [1])],
    )
    first, second = read_onnx(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    ).ops
    assert first.in_place == (("t", "x"),)
    assert second.in_place == ()  # both have one byte, but an element is not as wide


BRANCHES = """g (bool c, float[4] x) => (float[4] z) {{ t = Exp(x) y = If(c) <
    then_branch = a () => (float[4] p) {{ q = Neg(t) p = {then} }},
    else_branch = b () => (float[4] r) {{ r = Identity(t) }}> z = Neg(y) }}"""


def test_an_op_with_bodies_has_none_and_the_ops_within_have_theirs() -> None:
    graph = read_onnx(model(BRANCHES.format(then="Add(q, t)")))
    op = graph.op["If_1"]
    assert (op.in_place, op.placements) == ((), ())
    then, orelse = op.bodies
    # What a branch computes for the If bears the name of the If's output.
    assert [inner.in_place for inner in then.ops] == [(("q", "t"),), (("y", "q"), ("y", "t"))]
    # Identity copies here: the If's output is not t, which is read elsewhere.
    (copy,) = orelse.ops
    assert orelse.tensor["y"].view_of is None
    assert (copy.in_place, copy.placements) == ((), (("y", "t", 0),))


def test_the_names_of_a_branch_reach_its_placements() -> None:
    text = BRANCHES.format(then="Concat<axis = 0>(i, h)")
    then, _ = read_onnx(model(text.replace("q = Neg(t)", "h, i = Split(t)"))).op["If_1"].bodies
    assert [op.placements for op in then.ops] == [
        (("h", "t", 0), ("i", "t", 8)),
        (("i", "y", 0), ("h", "y", 8)),
    ]
