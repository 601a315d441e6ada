"""ONNX models that contradict themselves: stale shapes are found again, false ones are refused."""

from __future__ import annotations

import numpy as np
import pytest

import cpplan
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper, parser  # noqa: E402

from cpplan.io.onnx.model import read_onnx  # noqa: E402


def model(text: str) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17, "my" : 1]> {text}')


def read(text: str, **dims: int) -> Graph:
    return read_onnx(model(text), dims)


def refusal(loaded: onnx.ModelProto | str, **dims: int) -> str:
    with pytest.raises(InputError) as caught:
        read_onnx(model(loaded) if isinstance(loaded, str) else loaded, dims)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("ONNX model 'g': ")
    return message


def record(graph: onnx.GraphProto, name: str, shape: list[int | str]) -> None:
    graph.value_info.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))


# --- stale shapes --------------------------------------------------------------------------------


def test_recorded_shapes_are_caches_of_another_run() -> None:
    loaded = model("g (float[N,3] x) => (float[N,3] y) { h = Relu(x) k = Relu(h) y = Neg(k) }")
    record(loaded.graph, "h", [1, 3])
    record(loaded.graph, "k", [1, 3])
    plan = cpplan.solve(read_onnx(loaded, {"N": 8}))
    assert plan.peak == 2 * 8 * 3 * 4  # an input and an output of one op


def test_recorded_shapes_inside_a_loop_are_caches_too() -> None:
    loaded = model(
        """g (float[N,4] x) => (float[A,4] y) <int64 n = {3}, bool go = {1}> {
        y = Loop(n, go, x) <body = b (int64 i, bool c, float[1,4] v) => (bool c, float[B,4] w) {
            m = Exp(v) w = Neg(m) }> }"""
    )
    record(loaded.graph.node[0].attribute[0].g, "m", [1, 4])
    graph = read_onnx(loaded, {"N": 8})
    assert graph.tensor["y"].shape == (8, 4)
    (body,) = graph.op["Loop_0"].bodies
    assert {body.tensor[name].shape for name in ("v", "m", "w")} == {(8, 4)}


def test_a_foreign_operator_has_the_shape_it_declares_for_these_extents() -> None:
    loaded = model("g (float[N,3] x) => (float[N,3] y) { t = my.Odd(x) h = Relu(t) y = Neg(h) }")
    record(loaded.graph, "t", ["N", 3])
    record(loaded.graph, "h", [1, 3])
    graph = read_onnx(loaded, {"N": 8})
    assert {tensor.shape for tensor in graph.tensors} == {(8, 3)}


def test_a_shape_that_depends_on_values_is_the_declared_one() -> None:
    loaded = model("g (float[4] x) => (int64[1,2] y) { t = NonZero(x) y = Abs(t) }")
    loaded.graph.value_info.append(helper.make_tensor_value_info("t", TensorProto.INT64, [1, 2]))
    assert read_onnx(loaded).tensor["t"].shape == (1, 2)


# --- false outputs -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "declared", "derived"),
    [
        ("g (float[4] x) => (float[2] y) { y = Relu(x) }", "float32[2]", "float32[4] by op"),
        ("g (float[4] x) => (float[4,1] y) { y = Relu(x) }", "float32[4, 1]", "float32[4]"),
        ("g (float[N] x) => (float[M,2] y) { y = Relu(x) }", "float32[M, 2]", "float32[4]"),
    ],
)
def test_an_output_of_another_shape_than_declared_is_planned_as_it_is(
    text: str, declared: str, derived: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Files in use declare wrong ranks; ONNX Runtime warns as well, and runs them."""
    graph = read(text, **({"N": 4} if "[N]" in text else {}))
    assert graph.tensor["y"].shape == (4,)
    (warning,) = caplog.messages
    assert f"output 'y' is declared as {declared}, but it is {derived}" in warning
    assert "'Relu_0'" in warning


def test_an_output_of_other_elements_than_declared() -> None:
    message = refusal("g (float[4] x) => (float16[4] y) { y = Relu(x) }")
    assert "output 'y' is declared as float16[4], but it is float32[4] by op 'Relu_0'" in message


@pytest.mark.parametrize("equation", ["..." * 50, "ij->ij->ij", "i1->i", "i,.j", ".ij."])
def test_an_equation_that_is_none_is_refused_before_inference(equation: str) -> None:
    message = refusal(
        f"""g (float[2,3] x) => (float[N] y) {{ y = Einsum<equation="{equation}">(x) }}"""
    )
    assert "op 'Einsum_0' (Einsum): '" in message
    assert "is no term of letters with at most one ellipsis" in message


def test_a_split_into_other_parts_than_its_outputs_is_refused_before_inference() -> None:
    split = helper.make_node("Split", ["x"], ["y", "z"], "s", axis=0, num_outputs=1 << 40)
    x, y, z = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [4]) for n in "xyz")
    loaded = helper.make_model(
        helper.make_graph([split], "g", [x], [y, z]), opset_imports=[helper.make_opsetid("", 18)]
    )
    message = refusal(loaded)
    assert "op 's' (Split): num_outputs is 1099511627776, but there are 2" in message


IF = """g (float[4] x, bool c) => (float[{declared}] y) {{
    y = If(c) <then_branch = a () => (float[{then}] p) {{ p = Neg(x) }},
               else_branch = b () => (float[8] q) {{ q = Concat<axis=0>(x, x) }}> }}"""


def test_an_output_of_a_body_is_held_to_its_word() -> None:
    message = refusal(IF.format(declared="K", then="2"))
    assert "output 'p' of the body 'a' is declared as float32[2], but it is float32[4]" in message


def test_no_declaration_decides_which_branch_runs() -> None:
    message = refusal(IF.format(declared="4", then="4"))
    assert "'y' is declared as float32[4], but the branch 'b' of op 'If_0' gives it" in message
    assert read(IF.format(declared="K", then="4")).tensor["y"].nbytes == 32


# --- malformed nodes -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "op", "reason"),
    [
        ("y = Add(x, z)", "Add_0", "Incompatible dimensions"),
        ("y = Add(x)", "Add_0", "input size 1 not in range"),
        ("y = Relu(x, x)", "Relu_0", "input size 2 not in range"),
        ("y = Cast(x)", "Cast_0", "Required attribute 'to' is missing"),
        ("y = Reshape(x, s)", "Reshape_0", "expected the 16 B of 'x'"),
        ("y = Frob(x)", "Frob_0", "No Op registered for Frob"),
        ("y = Gelu(x)", "Gelu_0", "No Op registered for Gelu"),  # of opset 20
        ("y = If(c) <then_branch = a () => (float[4] p) { p = Neg(x) }>", "If_0", "'else_branch'"),
        ("y = Loop(n, c, x)", "Loop_0", "'body' is missing"),
        ("y = my.Odd(x)", "Odd_0", "has an unknown shape"),
    ],
)
def test_a_malformed_node_is_named_with_the_reason(text: str, op: str, reason: str) -> None:
    result = "float[K]" if "Odd" in text or "Reshape" in text else "float[4]"
    message = refusal(
        f"""g (float[4] x, float[3] z, bool c, int64 n) => ({result} y) <int64[1] s = {{3}}>
        {{ {text} }}"""
    )
    assert op in message
    assert reason in message


def test_the_long_name_of_the_standard_domain_means_the_same() -> None:
    text = '<ir_version: 8, opset_import: ["ai.onnx" : 17]> g (float[4] x) => (float[4] y) '
    assert read_onnx(parser.parse_model(text + "{ y = ai.onnx.Relu(x) }")).op["Relu_0"]
    message = refusal(parser.parse_model(text + "{ y = ai.onnx.Relu(x, x) }"))
    assert "input size 2 not in range" in message


def test_a_malformed_node_of_a_body_is_named() -> None:
    text = IF.format(declared="4", then="4").replace("Neg(x)", "Neg(x, x)")
    assert "op 'Neg_0' (Neg)" in refusal(text)


# --- constants -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extent", "field", "reason"),
    [
        (4, "raw_data", "[4] elements of float32 take 16 bytes, but its data has 12"),
        (2, "raw_data", "[2] elements of float32 take 8 bytes, but its data has 12"),
        (4, "float_data", "[4] elements of float32 take 4 entries, but its data has 3"),
        (3, None, "[3] elements of float32 take 12 bytes, but its data has 0"),
        (-3, "raw_data", "has a negative extent"),
        (99999, "raw_data", "take 399996 bytes, but its data has 12"),
    ],
)
def test_a_constant_holds_what_its_shape_says(extent: int, field: str | None, reason: str) -> None:
    loaded = model("g (float[4] x) => (float[K] y) { y = Add(x, w) }")
    weight = numpy_helper.from_array(np.ones(3, np.float32), "w")
    if field == "float_data":
        weight = helper.make_tensor("w", TensorProto.FLOAT, [3], [1, 2, 3])
    if field is None:
        weight.ClearField("raw_data")
    weight.dims[0] = extent
    loaded.graph.initializer.append(weight)
    message = refusal(loaded)
    assert "constant 'w'" in message
    assert reason in message


@pytest.mark.parametrize(
    ("element", "values"),
    [
        (TensorProto.INT4, [1, 2, 3]),
        (TensorProto.FLOAT16, [1, 2, 3]),
        (TensorProto.BOOL, [1, 0, 1]),
        (TensorProto.COMPLEX64, [1, 2j, 3]),
        (TensorProto.UINT64, [1, 2, 3]),
        (TensorProto.STRING, [b"a", b"b", b"c"]),
    ],
)
def test_constants_of_every_field_are_read(element: int, values: list[object]) -> None:
    loaded = parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> g (float[4] x) => (float[4] y) { y = Neg(x) }'
    )
    loaded.graph.initializer.append(helper.make_tensor("w", element, [3], values))
    assert len(read_onnx(loaded).ops) == 1


# --- sizes, functions, paths ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extent", "reason"),
    [(2**61, "input 'x': float32[2305843009213693952, 3] takes"), (2**63, "dimension 'N' must be")],
)
def test_an_extent_beyond_any_memory_is_refused(extent: int, reason: str) -> None:
    text = "g (float[N,3] x) => (float[N,3] y) { y = Relu(x) }"
    assert reason in refusal(text, N=extent)


def test_a_tensor_beyond_any_memory_is_refused() -> None:
    huge = 2**62
    text = f"g (float[{huge},{huge}] x) => (float[{huge},{huge}] y) {{ y = Relu(x) }}"
    assert "input 'x'" in refusal(text)
    text = f"""g (float[1] x) => (float[A,B] y) <int64[2] s = {{{huge},{huge}}}>
        {{ y = Expand(x, s) }}"""
    assert "tensor 'y'" in refusal(text)


@pytest.mark.parametrize(
    ("functions", "circle"),
    [
        (("f", "f"), "my.f calls my.f"),
        (("f", "h", "h", "f"), "recursive: my."),
    ],
)
def test_recursive_functions_are_refused(functions: tuple[str, ...], circle: str) -> None:
    text = '<ir_version: 8, opset_import: ["" : 17, "my" : 1]> g (float[4] x) => (float[4] y) '
    text += "{ y = my.f(x) }"
    for name, called in zip(functions[::2], functions[1::2], strict=True):
        text += f'<domain: "my", opset_import: ["" : 17, "my" : 1]> {name} (a) => (b) '
        text += f"{{ b = my.{called}(a) }}"
    assert circle in refusal(parser.parse_model(text))


def test_a_path_with_a_nul_is_refused() -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_onnx("a\0b.onnx")
