"""Types of what ONNX Runtime's own operators write: by hand, and as ONNX Runtime has them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.split_plans import plan_in_pieces, random_pieces

import cpplan
from cpplan.model.errors import InputError, MissingExtraError

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, parser  # noqa: E402

from cpplan.io.onnx import runtime_kernels, shapes  # noqa: E402
from cpplan.io.onnx.model import read_onnx  # noqa: E402

# What the operator reads (``dtype shape``, ``-`` for nothing), its attributes, what it writes.
U8, I8, F, I32 = "uint8", "int8", "float32", "int32"
SCALE, REALS, WEIGHTS = [f"{F} []", f"{U8} []"], [f"{F} []"] * 2, [f"{F} [1]", f"{I8} [1]"]
CASES: dict[str, tuple[str, list[str], dict[str, Any], list[str]]] = {
    "sum of quantized tensors": (
        "QLinearAdd",
        [f"{U8} [2,1,8]", *SCALE, f"{U8} [3,8]", *SCALE, *SCALE],
        {},
        [f"{U8} [2,3,8]"],
    ),
    "product of quantized tensors": (
        "QLinearMul",
        [f"{U8} [4,8]", *SCALE, f"{U8} [8]", *SCALE, *SCALE],
        {},
        [f"{U8} [4,8]"],
    ),
    "quantized sigmoid": (
        "QLinearSigmoid",
        [f"{U8} [2,5]", *SCALE, *SCALE],
        {},
        [f"{U8} [2,5]"],
    ),
    "quantized leaky relu": (
        "QLinearLeakyRelu",
        [f"{U8} [2,5]", *SCALE, *SCALE],
        {"alpha": 0.1},
        [f"{U8} [2,5]"],
    ),
    "quantized softmax": (
        "QLinearSoftmax",
        [f"{U8} [2,5]", *SCALE, *SCALE],
        {"opset": 13},
        [f"{U8} [2,5]"],
    ),
    "quantized concatenation": (
        "QLinearConcat",
        [*SCALE, f"{U8} [2,3]", *SCALE, f"{U8} [2,5]", *SCALE],
        {"axis": 1},
        [f"{U8} [2,8]"],
    ),
    "quantized average pooling": (
        "QLinearAveragePool",
        [f"{U8} [1,3,8,8]", *SCALE, *SCALE],
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
        [f"{U8} [1,3,4,4]"],
    ),
    "quantized average pooling of channels last": (
        "QLinearAveragePool",
        [f"{U8} [1,8,9,3]", *SCALE, *SCALE],
        {"kernel_shape": [2, 2], "strides": [2, 2], "channels_last": 1},
        [f"{U8} [1,4,4,3]"],
    ),
    "quantized global pooling": (
        "QLinearGlobalAveragePool",
        [f"{U8} [2,3,8,8]", *SCALE, *SCALE],
        {},
        [f"{U8} [2,3,1,1]"],
    ),
    "quantized global pooling of channels last": (
        "QLinearGlobalAveragePool",
        [f"{U8} [2,8,8,3]", *SCALE, *SCALE],
        {"channels_last": 1},
        [f"{U8} [2,1,1,3]"],
    ),
    "quantized matrices to reals": (
        "QGemm",
        [f"{U8} [4,6]", *SCALE, f"{U8} [5,6]", *SCALE, f"{I32} [5]"],
        {"transB": 1},
        [f"{F} [4,5]"],
    ),
    "quantized matrices": (
        "QGemm",
        [f"{U8} [4,6]", *SCALE, f"{U8} [6,5]", *SCALE, "-", *SCALE],
        {},
        [f"{U8} [4,5]"],
    ),
    "matrices quantized on the way": (
        "DynamicQuantizeMatMul",
        [f"{F} [2,4,6]", f"{U8} [6,5]", *SCALE],
        {},
        [f"{F} [2,4,5]"],
    ),
    "integer matrices to reals": (
        "MatMulIntegerToFloat",
        [f"{U8} [4,6]", f"{U8} [6,5]", f"{F} []", f"{F} []"],
        {},
        [f"{F} [4,5]"],
    ),
    "quantized": ("QuantizeLinear", [f"{F} [3,4]", *SCALE], {}, [f"{U8} [3,4]"]),
    "dequantized": ("DequantizeLinear", [f"{U8} [3,4]", *SCALE], {}, [f"{F} [3,4]"]),
    "transposed matrices": (
        "FusedMatMul",
        [f"{F} [2,6,4]", f"{F} [2,5,6]"],
        {"transA": 1, "transB": 1},
        [f"{F} [2,4,5]"],
    ),
    "matrices with an activation": (
        "FusedGemm",
        [f"{F} [4,6]", f"{F} [6,5]"],
        {"activation": "Relu"},
        [f"{F} [4,5]"],
    ),
    "convolution with an activation": (
        "FusedConv",
        [f"{F} [1,3,9,9]", f"{F} [4,3,3,3]"],
        {"activation": "Relu", "strides": [2, 2]},
        [f"{F} [1,4,4,4]"],
    ),
    "quick activation": ("QuickGelu", [f"{F} [2,5]"], {}, [f"{F} [2,5]"]),
    "activation with a bias": ("BiasGelu", [f"{F} [2,5]", f"{F} [5]"], {}, [f"{F} [2,5]"]),
    "fast activation": ("FastGelu", [f"{F} [2,5]", f"{F} [5]"], {}, [f"{F} [2,5]"]),
    "normalized sum": (
        "SkipLayerNormalization",
        [f"{F} [2,3,8]", f"{F} [2,3,8]", f"{F} [8]", f"{F} [8]", f"{F} [8]"],
        {},
        [f"{F} [2,3,8]", "-", "-", f"{F} [2,3,8]"],
    ),
    "attention": (
        "Attention",
        [f"{F} [2,3,8]", f"{F} [8,24]", f"{F} [24]"],
        {"num_heads": 2},
        [f"{F} [2,3,8]"],
    ),
    "attention that remembers": (
        "Attention",
        [f"{F} [2,3,8]", f"{F} [8,24]", f"{F} [24]", "-", f"{F} [2,2,2,5,4]"],
        {"num_heads": 2, "unidirectional": 1},
        [f"{F} [2,3,8]", f"{F} [2,2,2,8,4]"],
    ),
    "quantized attention": (
        "QAttention",
        [f"{U8} [2,3,8]", f"{U8} [8,24]", f"{F} [24]", *REALS, "-", f"{U8} []", f"{U8} []"],
        {"num_heads": 2},
        [f"{F} [2,3,8]"],
    ),
    "attention of three inputs": (
        "MultiHeadAttention",
        [f"{F} [2,3,8]", f"{F} [2,7,8]", f"{F} [2,7,6]"],
        {"num_heads": 2},
        [f"{F} [2,3,6]"],
    ),
    "attention whose heads share keys": (
        "GroupQueryAttention",
        [
            f"{F} [2,1,64]",
            f"{F} [2,1,32]",
            f"{F} [2,1,32]",
            f"{F} [2,2,5,16]",
            f"{F} [2,2,5,16]",
            f"{I32} [2]",
            f"{I32} [1]",
        ],
        {"num_heads": 4, "kv_num_heads": 2},
        [f"{F} [2,1,64]"],
    ),
    "embedding": (
        "EmbedLayerNormalization",
        [f"{I32} [2,3]", "-", f"{F} [9,8]", f"{F} [9,8]", "-", f"{F} [8]", f"{F} [8]"],
        {},
        [f"{F} [2,3,8]", f"{I32} [2]"],
    ),
    "recurrence quantized on the way": (
        "DynamicQuantizeLSTM",
        [f"{F} [5,2,4]", f"{I8} [1,4,12]", f"{I8} [1,3,12]", *"-----", *WEIGHTS, *WEIGHTS],
        {"hidden_size": 3},
        [f"{F} [5,1,2,3]", f"{F} [1,2,3]", f"{F} [1,2,3]"],
    ),
}


def parts(text: str) -> tuple[str, tuple[int, ...]]:
    dtype, shape = text.split()
    return dtype, tuple(int(extent) for extent in shape.strip("[]").split(",") if extent)


def model_of(name: str) -> onnx.ModelProto:
    kind, reads, attributes, writes = CASES[name]
    inputs, outputs = [], []
    for k, text in enumerate(reads):
        if text != "-":
            dtype, shape = parts(text)
            element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
            inputs.append(helper.make_tensor_value_info(f"i{k}", element, shape))
    for k, text in enumerate(writes):
        if text != "-":
            element = helper.np_dtype_to_tensor_dtype(np.dtype(parts(text)[0]))
            outputs.append(helper.make_tensor_value_info(f"o{k}", element, None))
    node = helper.make_node(
        kind,
        ["" if text == "-" else f"i{k}" for k, text in enumerate(reads)],
        ["" if text == "-" else f"o{k}" for k, text in enumerate(writes)],
        "node",
        domain="com.microsoft",
        **attributes,
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "g", inputs, outputs)
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.mark.parametrize("name", CASES)
def test_an_operator_of_onnx_runtime_has_a_type(name: str) -> None:
    graph = read_onnx(model_of(name))
    for k, text in enumerate(CASES[name][3]):
        if text != "-":
            tensor = graph.tensor[f"o{k}"]
            assert (tensor.dtype, tensor.shape) == parts(text)


@pytest.mark.parametrize("name", CASES)
def test_onnx_runtime_has_the_same_type(name: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    model = model_of(name)
    options = onnxruntime.SessionOptions()
    # Only some inputs may be no constants; a third of the heads need the same.
    inputs = {}
    for k, text in enumerate(CASES[name][1]):
        if text != "-":
            dtype, shape = parts(text)
            value = np.ones(shape, dtype) if dtype != "float32" else np.full(shape, 0.5, dtype)
            inputs[f"i{k}"] = value
    free = [value for value in model.graph.input if value.name == "i0" or not is_constant(name)]
    for value in model.graph.input:
        if value not in free:
            array = inputs.pop(value.name)
            model.graph.initializer.append(onnx.numpy_helper.from_array(array, value.name))
    del model.graph.input[:]
    model.graph.input.extend(free)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [value.name for value in session.get_outputs()]
    for output, array in zip(names, session.run(names, inputs), strict=True):
        assert (str(array.dtype), array.shape) == parts(CASES[name][3][int(output[1:])])


# More cases, for pieces; and of all, those that can be cut, with their axes.
CASES |= {
    "convolution with a sum and an activation": (
        "FusedConv",
        [f"{F} [2,4,9,8]", f"{F} [6,2,3,3]", f"{F} [6]", f"{F} [2,6,5,4]"],
        {"activation": "Relu", "strides": [2, 2], "pads": [1, 1, 1, 1], "group": 2},
        [f"{F} [2,6,5,4]"],
    ),
    "quantized concatenation of what one reads twice": (
        "QLinearConcat",
        [*SCALE, f"{U8} [3,4]", *SCALE, f"{U8} [2,4]", *SCALE, f"{U8} [3,4]", *SCALE],
        {"axis": 0},
        [f"{U8} [8,4]"],
    ),
    "scales of columns": (
        "QGemm",
        [f"{U8} [4,6]", *SCALE, f"{U8} [6,5]", f"{F} [5]", f"{U8} [5]", f"{I32} [5]", *SCALE],
        {"alpha": 1.0},
        [f"{U8} [4,5]"],
    ),
    "dequantized by channels": (
        "DequantizeLinear",
        [f"{U8} [2,3,4]", f"{F} [3]", f"{U8} [3]"],
        {"axis": 1},
        [f"{F} [2,3,4]"],
    ),
    "a sum that repeats": (
        "SkipLayerNormalization",
        [f"{F} [2,3,8]", f"{F} [3,8]", f"{F} [8]", f"{F} [8]"],
        {},
        [f"{F} [2,3,8]"],
    ),
}
AXES = {
    "quantized softmax": ["rows"],
    "quantized concatenation": ["rows", "columns"],
    "quantized concatenation of what one reads twice": ["columns"],
    "quantized average pooling": ["channels", "rows", "columns"],
    "quantized average pooling of channels last": [],
    "quantized global pooling": ["batch", "channels"],
    "quantized matrices to reals": ["rows", "columns"],
    "quantized matrices": ["rows", "columns"],
    "scales of columns": ["rows", "columns"],
    "integer matrices to reals": ["rows", "columns"],
    "quantized": ["rows", "columns"],
    "dequantized": ["rows", "columns"],
    "dequantized by channels": ["batch", "rows", "columns"],
    "transposed matrices": ["batch", "rows", "columns"],
    "convolution with an activation": ["rows", "columns", "channels"],
    "convolution with a sum and an activation": ["batch", "rows", "columns", "channels"],
    "normalized sum": ["batch", "rows"],
    "a sum that repeats": ["batch", "rows"],
}


@pytest.mark.parametrize("name", AXES)
def test_operators_of_onnx_runtime_run_in_pieces(name: str, tmp_path: Path) -> None:
    model = model_of(name)
    if name == "quantized concatenation of what one reads twice":
        model.graph.node[0].input[8] = "i2"
    graph = read_onnx(model)
    assert [axis.name for axis in graph.ops[0].axes] == AXES[name]
    onnxruntime = pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(0)
    inputs = {}
    for value in list(model.graph.input):
        dtype, shape = parts(CASES[name][1][int(value.name[1:])])
        array = rng.integers(1, 9, shape).astype(dtype)
        if is_constant(name) and value.name != "i0":
            model.graph.initializer.append(onnx.numpy_helper.from_array(array, value.name))
            model.graph.input.remove(value)
        else:
            inputs[value.name] = array

    def run(model: onnx.ModelProto) -> Any:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, inputs)

    expected, graph = run(model), read_onnx(model)
    for seed in range(6 if graph.ops[0].axes else 0):
        plan = plan_in_pieces(graph, random_pieces(random.Random(seed), graph))
        plan.export(tmp_path / "pieces.onnx", model)
        for found, whole in zip(run(onnx.load(tmp_path / "pieces.onnx")), expected, strict=True):
            np.testing.assert_allclose(found, whole, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "cost"),
    [
        ("convolution with an activation", 2 * 64 * 27),
        ("matrices with an activation", 2 * 20 * 6),
        ("transposed matrices", 2 * 40 * 6),
        ("quantized matrices", 2 * 20 * 6),
        ("integer matrices to reals", 2 * 20 * 6),
        ("quantized average pooling", 9 * 48),
        ("quantized softmax", 5 * 10),
        ("normalized sum", 7 * 48),
        ("quick activation", 10),
        # Of 2 samples and 2 heads: 3 queries, 7 keys of 4 and values of 3 elements.
        ("attention of three inputs", 2 * 2 * 3 * 7 * (2 * 4 + 5 + 2 * 3)),
    ],
)
def test_operators_of_onnx_runtime_cost_what_those_of_onnx_do(name: str, cost: int) -> None:
    assert read_onnx(model_of(name)).ops[0].cost == cost


def is_constant(name: str) -> bool:
    """True if the operator's kernel accepts weights and scales only as constants."""
    return CASES[name][0] in ("DynamicQuantizeLSTM", "QAttention", "QGemm", "QLinearSoftmax")


def test_a_quantized_model_is_planned_at_other_extents_than_it_records() -> None:
    """The file records the shape of ``t`` for a batch of 1; the plan is for a batch of 4."""
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
        g (uint8[N,3,8,8] x) => (uint8[N,3,1,1] y) <float s = {0.5}, uint8 z = {0}> {
            t = com.microsoft.QLinearAdd(x, s, z, x, s, z, s, z)
            p = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(t)
            y = com.microsoft.QLinearGlobalAveragePool(p, s, z, s, z)
        }"""
    )
    model.graph.value_info.append(
        helper.make_tensor_value_info("t", TensorProto.UINT8, [1, 3, 8, 8])
    )
    graph = read_onnx(model, {"N": 4})
    assert [graph.tensor[name].shape[0] for name in "tpy"] == [4, 4, 4]
    assert cpplan.solve(graph).peak == 2 * 4 * 3 * 64  # the sum beside the input


def test_the_model_is_not_inferred_anew_for_each_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    count, infer = 0, shapes._infer

    def counted(*given: Any, **options: bool) -> onnx.ModelProto:
        nonlocal count
        count += 1
        return infer(*given, **options)

    monkeypatch.setattr(shapes, "_infer", counted)
    lines = [
        f"a{k} = com.microsoft.QuickGelu(y{k}) b{k} = Reshape(a{k}, s) y{k + 1} = Transpose(b{k})"
        for k in range(30)
    ]
    graph = read_onnx(
        parser.parse_model(
            f"""<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
            g (float[2,6] y0) => (float[A,B] y30) <int64[2] s = {{3, 4}}> {{ {" ".join(lines)} }}"""
        )
    )
    assert graph.tensor["y30"].shape == (4, 3)
    assert count <= 4


def test_an_operator_of_onnx_runtime_in_a_branch_has_a_type() -> None:
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
        g (bool c, float[4] x) => (float[A] y) {
            y = If (c) <
                then_branch = t () => (float[B] p) { p = com.microsoft.QuickGelu(x) },
                else_branch = e () => (float[C] q) { q = Relu(x) }
            >
        }"""
    )
    assert read_onnx(model).tensor["y"].nbytes == 16


def test_an_operator_that_nobody_knows_is_named() -> None:
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
        g (float[4] x) => (float[A] y) { t = com.microsoft.NoSuchThing(x) y = Relu(t) }"""
    )
    with pytest.raises(InputError, match="tensor 't' written by op 'NoSuchThing_0'"):
        read_onnx(model)


# A decoder's layer as ONNX Runtime's tools write it: kinds of its own, also in ONNX's domain.
DECODER = """<ir_version: 8, opset_import: ["" : 14, "com.microsoft" : 1]>
decoder (float[N,S,64] x, int64[N,T] mask, float[N,2,P,16] past_k, float[N,2,P,16] past_v)
    => (float[N,S,64] y, float[N,2,A,16] k, float[N,2,B,16] v) <int64[1] one = {1}> {
    n = SimplifiedLayerNormalization <axis = -1> (x, scale)
    q0 = MatMul (n, wide) k0 = MatMul (n, narrow)
    v0 = com.microsoft.FusedMatMul <alpha = 2.0> (n, narrow)
    ones = ReduceSum (mask, one) last64 = Sub (ones, one) last = Cast <to = 6> (last64)
    whole = Shape (mask) total64 = Gather (whole, one) total = Cast <to = 6> (total64)
    a, k, v = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2>
        (q0, k0, v0, past_k, past_v, last, total)
    m, , , r = com.microsoft.SkipSimplifiedLayerNormalization (x, a, scale)
    h = com.microsoft.FusedMatMul <transB = 1> (m, wide)
    g = com.microsoft.BiasGelu (h, scale)
    s = com.microsoft.QuickGelu (g)
    f = com.microsoft.SkipLayerNormalization (r, s, scale, scale)
    y = LayerNormalization (f, scale, scale)
}"""
BOUNDS = {"N": (1, 2), "S": (1, 4), "P": (1, 8), "T": (2, 12)}


def decoder() -> onnx.ModelProto:
    made, random = parser.parse_model(DECODER), np.random.default_rng(0)
    for name, shape in (("scale", (64,)), ("wide", (64, 64)), ("narrow", (64, 32))):
        values = random.standard_normal(shape, np.float32) / 8
        made.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    return made


def test_operators_of_onnx_runtime_have_symbolic_shapes() -> None:
    graph = cpplan.load(decoder(), dims=BOUNDS)
    assert graph.symbols is not None
    assert not graph.symbols.lost
    for sizes in ({"N": 1, "S": 4, "P": 5, "T": 9}, {"N": 2, "S": 1, "P": 8, "T": 9}):
        concrete = read_onnx(decoder(), sizes)
        assert {t.name: t.shape for t in graph.at(sizes).tensors} == {
            t.name: t.shape for t in concrete.tensors
        }
    assert str(graph.symbols.shapes["k"][2]) == "max(P, T)"


def test_packed_heads_that_share_keys() -> None:
    """Four heads of queries, two of keys and two of values, of 16 elements each."""
    text = """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
        g (float[1,3,128] x, int32[1] last) => (float[1,3,64] y, float[A,B,C,D] k, float[A,B,C,D] v)
        <int32[1] total = {3}> {
        y, k, v = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2>
            (x, , , , , last, total) }"""
    graph = read_onnx(parser.parse_model(text))
    assert graph.tensor["y"].shape == (1, 3, 64)
    assert graph.tensor["k"].shape == graph.tensor["v"].shape == (1, 2, 3, 16)


@pytest.mark.parametrize("options", [{}, {"order": "search", "in_place": True}])
def test_onnx_runtime_runs_its_own_operators_in_the_arena(options: dict[str, Any]) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    model = decoder()
    session = onnxruntime.InferenceSession(model.SerializeToString())
    plan = cpplan.solve(cpplan.load(model, dims=BOUNDS), **options)
    random = np.random.default_rng(1)
    for sizes in ({"N": 1, "S": 4, "P": 5, "T": 9}, {"N": 2, "S": 1, "P": 8, "T": 9}):
        past = (sizes["N"], 2, sizes["P"], 16)
        inputs = {
            "x": random.standard_normal((sizes["N"], sizes["S"], 64), np.float32),
            "mask": np.ones((sizes["N"], sizes["T"]), np.int64),
            "past_k": random.standard_normal(past, np.float32),
            "past_v": random.standard_normal(past, np.float32),
        }
        done = cpplan.execute(model, plan, dims=sizes, inputs=inputs)
        for name, value in zip(("y", "k", "v"), session.run(None, inputs), strict=True):
            np.testing.assert_allclose(done.outputs[name], value, rtol=1e-3, atol=1e-4)


def test_kernels_of_onnx_runtime_need_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of("quick activation")
    plan = cpplan.solve(read_onnx(model))
    monkeypatch.setattr(runtime_kernels, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"op 'node' .*: pip install '\.\[onnxruntime\]'"):
        cpplan.execute(model, plan)


def test_kernels_of_onnx_runtime_that_fail_name_their_op() -> None:
    pytest.importorskip("onnxruntime")
    model = model_of("attention whose heads share keys")
    plan = cpplan.solve(read_onnx(model))
    with pytest.raises(InputError, match="op 'node': ONNX Runtime's kernel of com"):
        cpplan.execute(model, plan, inputs={"i5": np.full(2, -7, np.int32)})
