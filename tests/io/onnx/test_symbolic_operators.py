"""The shapes of one operator each, symbolic: they agree with ONNX's inference at many sizes."""

from __future__ import annotations

import pytest
from support.symbolic_models import at, check_everywhere, model_of

onnx = pytest.importorskip("onnx")

from cpplan.io.onnx.symbolic import symbolic_shapes  # noqa: E402

# Graphs of N (1 to 5) and H (6 to 12), with how many of their tensors depend on them: the input,
# and what is counted in the comments.
OPERATORS = {
    "broadcast": (
        "(float[N, 1, H] x, float[4, 1] y) => (float[a, b, c] z) { z = Add(x, y) }",
        2,  # z
    ),
    "two variables": (
        "(float[N, 1] x, float[1, H] y) => (float[a, b] z) { z = Mul(x, y) }",
        3,  # z
    ),
    "matmul": (
        "(float[N, H, 4] x, float[4, H] y) => (float[a, b, c] z) { z = MatMul(x, y) }",
        3,  # z
    ),
    "gemm": (
        "(float[4, N] x, float[H, 4] y) => (float[a, b] z) { z = Gemm<transA=1, transB=1>(x, y) }",
        3,  # z
    ),
    "conv": (
        """(float[N, 3, H, H] x, float[5, 3, 3, 3] w) => (float[a, b, c, d] z) {
            s = Conv<strides = [2, 2], pads = [1, 0, 1, 1], dilations = [1, 2]>(x, w)
            z = Conv<auto_pad = "SAME_UPPER", strides = [3, 2]>(x, w)
            v = Conv<auto_pad = "VALID">(x, w)
        }""",
        4,  # s, z, v
    ),
    "transposed conv": (
        """(float[N, 3, H] x, float[3, 2, 3] w) => (float[a, b, c] z) {
            s = ConvTranspose<strides = [2], output_padding = [1], pads = [1, 0]>(x, w)
            z = ConvTranspose<auto_pad = "SAME_LOWER", strides = [3]>(x, w)
            v = ConvTranspose<output_shape = [40]>(x, w)
        }""",
        4,  # s, z, v
    ),
    "signals": (
        """(float[N, H, 1] x, float[N, H, 2] c) => (float[a, b, c, d] z)
        <int64 step = {2}, int64 n = {4}> {
            w = HannWindow(n)
            z = STFT(x, step, w)
            s = STFT<onesided = 0>(c, step, , n)
            d = DFT<onesided = 1>(x)
            e = DFT<axis = 0, inverse = 1>(c)
            f = DFT(x, n)
        }""",
        7,  # z, s, d, e, f and two inputs
    ),
    "columns": (
        """(float[N, 12, 6] x) => (float[a, b, c, d] z)
        <int64[2] image = {4, 6}, int64[2] block = {2, 2}> {
            z = Col2Im<strides = [2, 2]>(x, image, block) }""",
        2,  # z
    ),
    "pools": (
        """(float[N, 3, H, H] x) => (float[a, b, c, d] z) {
            s, i = MaxPool<kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1>(x)
            p = AveragePool<kernel_shape = [2, 2], strides = [3, 3], ceil_mode = 1,
                            pads = [1, 1, 1, 1]>(x)
            q = LpPool<kernel_shape = [2, 2]>(x)
            z = GlobalAveragePool(x)
        }""",
        6,  # s, i, p, q, z
    ),
    "norms": (
        """(float[N, H, 4] x, float[4] s) => (float[a, b, c] z) {
            y, mean, dev = LayerNormalization<axis = -1>(x, s, s)
            z = Softmax<axis = -1>(y)
            c = LRN<size = 3>(z)
        }""",
        6,  # y, mean, dev, z, c
    ),
    "concat and split": (
        """(float[N, H] x, float[2, H] y) => (float[a, b] z) {
            c = Concat<axis = 0>(x, y, x)
            p, q = Split<axis = 1, num_outputs = 2>(c)
            shape = Shape<start = 1>(x)
            two = Constant<value_ints = [2]>()
            minus = Sub(shape, two)
            rest = Concat<axis = 0>(two, minus)
            z, r = Split<axis = 1>(c, rest)
        }""",
        7,  # y, c, p, q, z, r
    ),
    "slices": (
        """(float[N, H, H] x) => (float[a, b, c] z) {
            one = Constant<value_ints = [1]>()
            axis = Constant<value_ints = [-1]>()
            last = Constant<value_ints = [-2]>()
            far = Constant<value_ints = [9223372036854775807]>()
            two = Constant<value_ints = [2]>()
            back = Constant<value_ints = [-9223372036854775807]>()
            eight = Constant<value_ints = [8]>()
            a = Slice(x, one, last, axis)
            b = Slice(x, one, far, axis, two)
            c = Slice(x, last, far, one)
            d = Slice(x, one, eight, axis)
            e = Slice(x, axis, back, axis, axis)
            size = Shape<start = 1, end = 2>(x)
            less = Sub(size, two)
            z = Slice(x, one, less, axis)
        }""",
        7,  # a, b, c, d, e, z
    ),
    "gathers": (
        """(float[N, H, 4] x, int64[2, N] i) => (float[a, b, c, d] z) {
            z = Gather<axis = 1>(x, i)
            one = Constant<value_int = -1>()
            y = Gather<axis = 0>(x, one)
            rows = Constant<value = int64[2, 1] {0, 0}>()
            n = GatherND(x, rows)
        }""",
        5,  # i, z, y, n
    ),
    "reshapes": (
        """(float[N, 4, H, H] x) => (float[a, b] z) {
            keep = Constant<value_ints = [0, 2, -1, 2]>()
            a = Reshape(x, keep)
            n = Shape<end = 1>(x)
            rest = Constant<value_ints = [-1]>()
            both = Concat<axis = 0>(n, rest)
            b = Reshape(x, both)
            size = Shape<start = 2>(x)
            area = ReduceProd<keepdims = 1>(size)
            four = Constant<value_ints = [4]>()
            rows = Mul(n, four)
            sides = Concat<axis = 0>(rows, area)
            c = Reshape(x, sides)
            f = Flatten<axis = -1>(x)
            z = Transpose(c)
        }""",
        6,  # a, b, c, f, z
    ),
    "squeezes": (
        """(float[N, 1, H] x) => (float[a, b] z) {
            one = Constant<value_ints = [1]>()
            s = Squeeze(x, one)
            ends = Constant<value_ints = [0, -1]>()
            u = Unsqueeze(s, ends)
            z = Identity(s)
        }""",
        4,  # s, u, z
    ),
    "expands": (
        """(float[N, 1] x, float[H, 3] y) => (float[a, b] z) {
            n = Shape<end = 1>(x)
            h = Shape<end = 1>(y)
            to = Concat<axis = 0>(n, h)
            z = Expand(x, to)
            one = Constant<value_ints = [2]>()
            times = Concat<axis = 0>(one, h)
            t = Tile(x, times)
            value = ConstantOfShape(to)
            e = Constant<value_ints = [0, 1]>()
            pads = Concat<axis = 0>(e, n, h)
            p = Pad(x, pads)
        }""",
        6,  # y, z, t, value, p
    ),
    "reductions": (
        """(float[N, H, 4] x) => (float[a] z) {
            one = Constant<value_ints = [-1]>()
            r = ReduceMean(x, one)
            s = ReduceSum<keepdims = 0>(x, one)
            a = ArgMax<axis = 1, keepdims = 0>(x)
            all = ReduceMax<keepdims = 0>(x)
            k = Constant<value_ints = [2]>()
            v, i = TopK<axis = 1>(x, k)
            z = ReduceL2<keepdims = 0>(s, one)
        }""",
        7,  # r, s, a, v, i, z
    ),
    "resize": (
        """(float[N, 3, H, H] x) => (float[a, b, c, d] z) {
            none = Constant<value_floats = [1.0, 1.0, 1.5, 0.25]>()
            z = Resize(x, , none)
            size = Shape(x)
            two = Constant<value_ints = [1, 1, 2, 2]>()
            twice = Mul(size, two)
            y = Resize(x, , , twice)
        }""",
        3,  # z, y
    ),
    "scale as a number": (
        """(float[N, 3, H] x) => (float[a, b, c] z) {
            first = Shape<end = 2>(x)
            h = Shape<start = 2>(x)
            f = Cast<to = 1>(h)
            half = Constant<value_floats = [0.5]>()
            g = Mul(f, half)
            down = Floor(g)
            i = Cast<to = 7>(down)
            sizes = Concat<axis = 0>(first, i)
            z = Resize(x, , , sizes)
        }""",
        2,  # z
    ),
    "expand as torch writes it": (
        """(float[N, H, 1] x) => (float[a, b, c] z) {
            n = Shape<end = 1>(x)
            ones = Constant<value_ints = [-1, 3]>()
            shape = Concat<axis = 0>(n, ones)
            rank = Constant<value_ints = [3]>()
            filled = ConstantOfShape<value = int64[1] {1}>(rank)
            less = Constant<value_ints = [-1]>()
            minus = Mul(filled, less)
            is = Equal(shape, minus)
            to = Where(is, filled, shape)
            z = Expand(x, to)
        }""",
        2,  # z
    ),
    "range": (
        """(float[N, H] x) => (int64[a] z) {
            h = Shape<start = 1>(x)
            axis = Constant<value_ints = [0]>()
            limit = Squeeze(h, axis)
            start = Constant<value_int = 1>()
            step = Constant<value_int = 2>()
            z = Range(start, limit, step)
        }""",
        2,  # z
    ),
    "recurrence": (
        """(float[N, H, 4] x, float[2, 24, 4] w, float[2, 24, 6] r) => (float[a, b, c, d] z) {
            z, h, c = LSTM<hidden_size = 6, direction = "bidirectional">(x, w, r)
        }""",
        4,  # z, h, c
    ),
    "einsum": (
        """(float[N, H, 4] x, float[N, 4, 3] y) => (float[a, b, c] z) {
            z = Einsum<equation = "...ij, ...jk -> ...ki">(x, y)
            d = Einsum<equation = "nij,njk">(x, y)
        }""",
        4,  # y, z, d
    ),
    "depth and space": (
        """(float[N, 4, H, H] x) => (float[a, b, c, d] z) {
            y = DepthToSpace<blocksize = 2>(x)
            z = SpaceToDepth<blocksize = 2>(y)
        }""",
        3,  # y, z
    ),
    "quantized": (
        """(float[N, 3, H, H] x, int8[5, 3, 3, 3] w) => (uint8[a, b, c, d] z) {
            s = Constant<value_float = 0.5>()
            zero = Constant<value = uint8[1] {0}>()
            izero = Constant<value = int8[1] {0}>()
            u, scale, point = DynamicQuantizeLinear(x)
            v = ConvInteger(u, w)
            z = Identity(u)
        }""",
        4,  # u, v, z
    ),
    "branches": (
        """(bool c, float[N, H] x) => (float[a, b] z) {
            z = If (c) <
                then_branch = one () => (float[d, e] p) { p = Relu(x) },
                else_branch = two () => (float[f, g] q) { q = Neg(x) }
            >
        }""",
        2,  # z
    ),
    "loop": (
        """(float[N, H] x) => (float[a, b] z, float[d, e] rows) {
            n = Shape<start = 1>(x)
            axis = Constant<value_ints = [0]>()
            count = Squeeze(n, axis)
            yes = Constant<value = bool {1}>()
            z, rows = Loop (count, yes, x) <
                body = turn (int64 k, bool go, float[g, h] before)
                    => (bool on, float[i, j] after, float[l] row) {
                    on = Identity(go)
                    after = Add(before, x)
                    end = Constant<value_ints = [1]>()
                    row = ReduceSum<keepdims = 0>(after, end)
                }
            >
        }""",
        3,  # z, rows
    ),
    "scan": (
        """(float[N] first, float[H, N] x) => (float[a] z, float[b, c] rows) {
            z, rows = Scan <num_scan_inputs = 1,
                body = turn (float[g] before, float[h] row) => (float[i] after, float[j] sum) {
                    after = Add(before, row)
                    sum = Identity(after)
                }
            > (first, x)
        }""",
        4,  # x, z, rows
    ),
}


@pytest.mark.parametrize("case", OPERATORS)
def test_operators_agree_with_inference_at_every_size(case: str) -> None:
    body, varying = OPERATORS[case]
    model = model_of(f"case {body}")
    used = {d.dim_param for v in model.graph.input for d in v.type.tensor_type.shape.dim}
    dims = {name: span for name, span in {"N": (1, 5), "H": (6, 12)}.items() if name in used}
    assert check_everywhere(model, dims) == varying


def test_signals_and_grids_of_opset_20() -> None:
    text = """case (float[N, H, 1] x, float[N, 2, 3] t) => (float[a, b, c] z)
        <int64 axis = {0}, int64[3] rest = {3, 5, 7}> {
        z = DFT<onesided = 1>(x)
        y = DFT(x, , axis)
        batch = Shape<end = 1>(t)
        size = Concat<axis = 0>(batch, rest)
        grid = AffineGrid(t, size)
    }"""
    assert check_everywhere(model_of(text, 20), {"N": (1, 5), "H": (6, 12)}) == 5


@pytest.mark.parametrize("opset", [19, 22])
def test_a_window_in_the_padding_is_left_out_since_opset_22(opset: int) -> None:
    """At H = 8 rows begin at -1, 2, 5 and 8, which is padding."""
    text = """case (float[1, 1, H] x) => (float[a, b, c] y) {
        y = MaxPool<kernel_shape = [2], strides = [3], pads = [1, 1], ceil_mode = 1>(x) }"""
    model = model_of(text, opset)
    assert check_everywhere(model, {"H": (6, 12)}) == 2
    found = symbolic_shapes(model, {"H": (6, 12)}).shapes["y"]
    assert at(found, {"H": 8}) == (1, 1, 4 if opset < 22 else 3)
