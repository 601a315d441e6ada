"""The ONNX reader: boundary, names, types, and live bytes of real models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.onnx_texts import kinds, model, read, refusal

import cpplan
from cpplan.model.errors import InputError
from cpplan.program.anf import to_anf
from cpplan.program.liveness import to_problem

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from cpplan.io.onnx.model import read_onnx  # noqa: E402
from cpplan.io.onnx.names import unique_names  # noqa: E402

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


def test_an_input_handed_back_is_an_output_without_producer() -> None:
    graph = read("g (float[4] x) => (float[4] x, float[4] y) { y = Exp(x) }")
    assert kinds(graph) == {"x": "output", "y": "output"}


def test_a_constant_handed_back_stays_a_constant() -> None:
    graph = read(
        "g (float[2] x) => (float[2] y, float[2] w) <float[2] w = {1,2}> { y = Add(x, w) }"
    )
    assert kinds(graph)["w"] == "constant"


def test_optional_inputs_and_unnamed_outputs_are_left_out() -> None:
    nodes = [
        helper.make_node("Clip", ["x", "", "high"], ["c"]),
        helper.make_node("Split", ["c"], ["", "b"], axis=0),
    ]
    values = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [values("x", TensorProto.FLOAT, [4])],
        [values("b", TensorProto.FLOAT, [2])],
        [numpy_helper.from_array(np.float32(6), "high")],
    )
    read_back = read_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]))
    assert [(op.inputs, op.outputs) for op in read_back.ops] == [
        (("x", "high"), ("c",)),
        (("c",), ("b",)),
    ]


def test_all_outputs_of_an_op_are_kept() -> None:
    graph = read(
        "g (float[4] x) => (float[2] a) { a, b = Split<axis=0>(x) }",
        opset=13,
    )
    assert graph.op["Split_0"].outputs == ("a", "b")
    assert (kinds(graph)["a"], kinds(graph)["b"]) == ("output", "intermediate")


def test_names_of_ops_are_unique_and_deterministic() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Exp", ["a"], ["b"], name="Relu_0"),
        helper.make_node("Exp", ["b"], ["c"], name="n"),
        helper.make_node("Exp", ["c"], ["d"], name="n"),
        helper.make_node("Exp", ["d"], ["e"], name="n_1"),
        helper.make_node("Exp", ["e"], ["f"], name="n"),
        helper.make_node("Neg", ["f"], ["y"]),
    ]
    names = ["Relu_0_1", "Relu_0", "n", "n_2", "n_1", "n_3", "Neg_6"]
    assert unique_names(nodes) == names


def test_a_tensor_read_before_it_is_written_is_named() -> None:
    message = refusal("g (float[4] x) => (float[4] y) { y = Relu(t) t = Exp(y) }")
    assert "tensor 't': op 'Relu_0' reads it before anything defines it" in message


def test_nodes_listed_too_early_come_as_soon_as_they_can_run() -> None:
    graph = read(
        "g (float[4] x, bool c) => (float[4] y) {"
        " y = Add(b, d) b = Relu(a)"
        " d = If(c) <then_branch = t () => (float[4] p) { p = Neg(q) q = Sin(a) },"
        " else_branch = e () => (float[4] r) { r = Cos(x) }> a = Exp(x) }"
    )
    assert [op.kind for op in graph.ops] == ["Exp", "Relu", "If", "Add"]
    assert [op.kind for op in graph.ops[2].bodies[0].ops] == ["Sin", "Neg"]


def test_a_tensor_written_twice_is_named() -> None:
    loaded = model("g (float[4] x) => (float[4] y) { y = Relu(x) z = Exp(x) }")
    loaded.graph.node[1].output[0] = "y"
    with pytest.raises(InputError, match="'y'"):
        read_onnx(loaded)


@pytest.mark.parametrize(
    ("element", "nbytes"),
    [
        (TensorProto.FLOAT, 20),
        (TensorProto.DOUBLE, 40),
        (TensorProto.FLOAT16, 10),
        (TensorProto.BFLOAT16, 10),
        (TensorProto.FLOAT8E4M3FN, 5),
        (TensorProto.FLOAT8E5M2FNUZ, 5),
        (TensorProto.INT4, 3),
        (TensorProto.UINT4, 3),
        (TensorProto.FLOAT4E2M1, 3),
        (TensorProto.BOOL, 5),
        (TensorProto.INT64, 40),
        (TensorProto.COMPLEX64, 40),
    ],
)
def test_five_elements_of_each_type(element: int, nbytes: int) -> None:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "g",
        [value("x", element, [5])],
        [value("y", element, [5])],
    )
    opset = [helper.make_opsetid("", 23)]
    assert read_onnx(helper.make_model(graph, opset_imports=opset)).tensor["x"].nbytes == nbytes


def test_strings_are_refused_unless_constant() -> None:
    assert "tensor 'x' holds strings" in refusal(
        "g (string[2] x) => (string[2] y) { y = Identity(x) }"
    )
    graph = read(
        """g (float[2] x) => (float[2] y)
        { s = Constant<value = string[1] {"note"}>() y = my.Tagged(x, s) }""".replace(
            "my.Tagged(x, s)", "Exp(x)"
        )
    )
    assert set(graph.tensor) == {"x", "y"}


@pytest.mark.parametrize(
    ("declaration", "word"), [("seq(float[2])", "sequence"), ("optional(float[2])", "optional")]
)
def test_sequences_and_optionals_are_refused(declaration: str, word: str) -> None:
    message = refusal(f"g ({declaration} x) => ({declaration} y) {{ y = Identity(x) }}")
    assert f"tensor 'x' holds a {word}" in message


def test_an_empty_sequence_is_refused_as_one() -> None:
    # The kernel's empty list must not be folded into an empty constant.
    message = refusal(
        """g (float[2] x) => (float[2] y) { s = SequenceEmpty() t = SequenceInsert(s, x)
        y = ConcatFromSequence<axis = 0>(t) }"""
    )
    assert "tensor 's' written by op 'SequenceEmpty_0' holds a sequence" in message


def test_an_unknown_operator_is_named_with_its_tensor() -> None:
    message = refusal("g (float[2] x) => (float[2] y) { t = my.Odd(x) y = Exp(t) }")
    assert "tensor 't' written by op 'Odd_0'" in message


def test_an_unknown_operator_is_fine_where_the_model_declares_its_shapes() -> None:
    graph = read("g (float[2] x) => (float[2] y) <float[2] t> { t = my.Odd(x) y = Exp(t) }")
    assert [op.kind for op in graph.ops] == ["Odd", "Exp"]


@pytest.mark.parametrize(
    ("name", "ops", "peak"),
    [
        # AlexNet's first convolution: its output and the Relu's, 96 x 54 x 54 floats each.
        ("light_bvlc_alexnet", 24, 2 * 96 * 54 * 54 * 4),
        ("light_vgg19", 46, 2 * 64 * 224 * 224 * 4),
        # The residual add after the first stage: two operands and the sum, 256 x 56 x 56 floats.
        ("light_resnet50", 176, 3 * 256 * 56 * 56 * 4),
    ],
)
def test_live_bytes_of_light_models(name: str, ops: int, peak: int) -> None:
    graph = read_onnx(LIGHT / f"{name}.onnx")
    assert len(graph.ops) == ops
    assert to_problem(to_anf(graph)).live_bytes().max() == peak


@pytest.mark.parametrize("imported", ["", "ai.onnx"])
@pytest.mark.parametrize("domain", ["", "ai.onnx"])
def test_both_names_of_onnx_s_own_domain_are_known(domain, imported, tmp_path):
    node = helper.make_node
    nodes = [
        node("Relu", ["x"], ["a"], domain=domain),
        node("Conv", ["a", "w"], ["c"], domain=domain),
        node("Concat", ["c", "c"], ["y"], axis=1, domain=domain),
    ]
    floats = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", floats, [1, 2, 8, 8])],
        [helper.make_tensor_value_info("y", floats, [1, 4, 8, 8])],
        [helper.make_tensor("w", floats, [2, 2, 1, 1], [1, 2, 3, 4])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(imported, 17)])
    read = cpplan.load(model)
    assert [op.kind for op in read.ops] == ["Relu", "Conv", "Concat"]
    assert read.ops[0].in_place
    plan = cpplan.solve(read, split=True, in_place=True, time_limit=2)
    cpplan.execute(model, plan)
    onnx.save(model, tmp_path / "model.onnx")
    plan.export(tmp_path / "planned.onnx", tmp_path / "model.onnx")
    assert len(cpplan.load(tmp_path / "planned.onnx").ops) >= 3


def test_a_spectrum_has_one_side_unless_the_node_says_otherwise() -> None:
    """ONNX's own inference takes the default of ``onesided`` for 0."""
    text = "g (float[1,64] x, float[16] w) => (float[1,F,B,2] y) <int64 step = {8}> { y = STFT"
    for attributes, bins in (("", 9), ("<onesided = 1>", 9), ("<onesided = 0>", 16)):
        loaded = model(f"{text}{attributes}(x, step, w) }}")
        assert read_onnx(loaded).tensor["y"].shape == (1, 7, bins, 2)
