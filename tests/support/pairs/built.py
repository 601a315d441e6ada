"""ONNX models of many kinds: decoders, caches, quantized and recurrent networks, with bodies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper, parser

DECODER = """
decoder (float[1,4,8] x) => (float[1,4,8] y)
<float[8] g = {1,1,1,1,1,1,1,1}, float eps = {0.001}, int64[1] last = {-1}> {
    s = Mul(x, x)  m = ReduceMean(s, last)  e = Add(m, eps)  r = Sqrt(e)  n = Div(x, r)
    h = Mul(n, g)
    q = MatMul(h, wq)  k = MatMul(h, wk)  v = MatMul(h, wv)
    kt = Transpose<perm = [0, 2, 1]>(k)  a = MatMul(q, kt)  p = Softmax<axis = -1>(a)
    o = MatMul(p, v)  z = Add(x, o)
    s2 = Mul(z, z)  m2 = ReduceMean(s2, last)  e2 = Add(m2, eps)  r2 = Sqrt(e2)  n2 = Div(z, r2)
    gate = MatMul(n2, wg)  up = MatMul(n2, wu)  sg = Sigmoid(gate)  act = Mul(gate, sg)
    prod = Mul(act, up)  down = MatMul(prod, wd)  y = Add(z, down)
}"""
CACHE = """
cache (float[1,2,8] x, float[1,6,8] pk, float[1,6,8] pv) =>
      (float[1,2,8] y, float[1,8,8] nk, float[1,8,8] nv) {
    q = MatMul(x, wq)  k = MatMul(x, wk)  v = MatMul(x, wv)
    nk = Concat<axis = 1>(pk, k)  nv = Concat<axis = 1>(pv, v)
    kt = Transpose<perm = [0, 2, 1]>(nk)  a = MatMul(q, kt)  p = Softmax<axis = -1>(a)
    y = MatMul(p, nv)
}"""
POOL_INDICES = """
indices (float[1,2,8,8] x) => (float[1,2,4,4] y, int64[1,2,4,4] i) {
    c = Relu(x)
    y, i = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(c)
}"""
UNUSED_INDICES = """
unused (float[1,2,8,8] x) => (float[1,2,4,4] y) {
    c = Tanh(x)
    p, i = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(c)
    y = Sigmoid(p)
}"""
BRANCH = """
branch (float[2,3] x, bool c) => (float[2,3] y) {
    a = Exp(x)
    t = If(c) <
        then_branch = one () => (float[2,3] p) { m = Tanh(a)  p = Add(m, x) },
        else_branch = two () => (float[2,3] q) { n = Neg(a)  o = Mul(n, n)  q = Sub(o, x) }>
    y = Relu(t)
}"""
LOOP = """
loop (float[2,3] x) => (float[2,3] y)
<int64 count = {3}, bool go = {1}> {
    y = Loop(count, go, x) <
        body = step (int64 k, bool on, float[2,3] s) => (bool more, float[2,3] n) {
            more = Identity(on)  t = Tanh(s)  n = Add(t, s)
        }>
}"""
SHUFFLE = """
shuffle (float[1,4,6,6] x) => (float[1,4,6,6] y)
<int64[5] apart = {1, 2, 2, 6, 6}, int64[4] together = {1, 4, 6, 6}> {
    a, b = Split<axis = 1, num_outputs = 2>(x)
    c = Relu(b)  j = Concat<axis = 1>(a, c)
    r = Reshape(j, apart)  t = Transpose<perm = [0, 2, 1, 3, 4]>(r)  y = Reshape(t, together)
}"""
EMBEDDING = """
embedding (int64[1,5] i) => (float[1,5,4] y) {
    e = Gather(table, i)  g = Gelu(e)  y = LayerNormalization<axis = -1>(g, ls, lb)
}"""
DILATED = """
dilated (float[1,4,12,12] x) => (float[1,4,8,8] y) {
    d = Conv<group = 4, dilations = [2, 2]>(x, taps)  y = Clip(d)
}"""
TRANSPOSED = """
transposed (float[1,3,5,5] x) => (float[1,2,10,10] y) {
    c = Relu(x)  y = ConvTranspose<strides = [2, 2]>(c, tw)
}"""
RECURRENT = """
recurrent (float[5,1,4] x) => (float[5,1,1,3] y, float[1,1,3] h) {
    y, h, c = LSTM<hidden_size = 3>(x, lw, lr)
}"""
GATED = """
gated (float[5,1,4] x) => (float[1,1,3] h) {
    y, h = GRU<hidden_size = 3>(x, gw, gr)
}"""
PICKED = """
picked (float[1,16] x) => (float[1,3] v, int64[1,3] i) <int64[1] three = {3}> {
    t = Exp(x)  v, i = TopK(t, three)
}"""
SCALED = """
scaled (float[1,2,4,4] x) => (float[1,2,8,8] y) <float[4] twice = {1, 1, 2, 2}> {
    c = Relu(x)  r = Resize<mode = "nearest", nearest_mode = "floor">(c, , twice)  y = Neg(r)
}"""
QUANTIZED = """
quantized (float[1,2,6,6] x) => (float[1,3,6,6] y)
<float scale = {0.05}, int8 zero = {3}, float few = {0.02}, int8 none = {0}> {
    q = QuantizeLinear(x, scale, zero)  d = DequantizeLinear(q, scale, zero)
    fw = DequantizeLinear(qw, few, none)
    c = Conv<pads = [1, 1, 1, 1]>(d, fw)  r = Relu(c)
    o = QuantizeLinear(r, scale, zero)  y = DequantizeLinear(o, scale, zero)
}"""
WEIGHTS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("wq", "wk", "wv"), (8, 8)), "wg": (8, 12), "wu": (8, 12), "wd": (12, 8),
    "table": (9, 4), "ls": (4,), "lb": (4,), "taps": (4, 1, 3, 3), "tw": (3, 2, 2, 2),
    "lw": (1, 12, 4), "lr": (1, 12, 3), "gw": (1, 9, 4), "gr": (1, 9, 3), "qw": (3, 2, 3, 3),
}  # fmt: skip

# Name -> text, opset.
TEXTS: dict[str, tuple[str, int]] = {
    "rms_norm_swiglu_decoder": (DECODER, 20),
    "kv_cache": (CACHE, 20),
    "max_pool_with_indices": (POOL_INDICES, 20),
    "max_pool_with_unused_indices": (UNUSED_INDICES, 20),
    "if": (BRANCH, 20),
    "loop": (LOOP, 20),
    "channel_shuffle": (SHUFFLE, 20),
    "embedding": (EMBEDDING, 20),
    "dilated_depthwise": (DILATED, 20),
    "transposed_convolution": (TRANSPOSED, 20),
    "lstm_with_unused_state": (RECURRENT, 20),
    "gru": (GATED, 20),
    "top_k": (PICKED, 20),
    "resize": (SCALED, 20),
    **{f"qdq_opset_{opset}": (QUANTIZED, opset) for opset in (10, 13, 17, 21)},
}


def onnx_model(name: str) -> onnx.ModelProto:
    """The model of a name, with random weights for those that its text leaves open."""
    text, opset = TEXTS[name]
    version = {10: 5, 13: 7, 17: 8}.get(opset, 10)
    model = parser.parse_model(f'<ir_version: {version}, opset_import: ["" : {opset}]> {text}')
    rng = np.random.default_rng(0)
    read = {name for node in model.graph.node for name in node.input}
    for weight, shape in WEIGHTS.items():
        if weight in read:
            value = rng.standard_normal(shape).astype(np.float32)
            if weight.startswith("qw"):
                value = rng.integers(-100, 100, shape).astype(np.int8)
            model.graph.initializer.append(numpy_helper.from_array(value, weight))
    onnx.checker.check_model(model)
    return onnx.shape_inference.infer_shapes(model)


def write_model(name: str, folder: Path) -> Path:
    """A file with the model of a name."""
    path = folder / f"{name}.onnx"
    onnx.save(onnx_model(name), path)
    return path
