"""Symbolic shapes of ONNX models: by hand, and against ONNX's inference at many sizes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

import pytest

from cpplan.errors import InputError
from cpplan.io import load
from cpplan.shapes import Dim, Range

onnx = pytest.importorskip("onnx")
from onnx import numpy_helper, parser  # noqa: E402

from cpplan.io.onnx.model import read_onnx  # noqa: E402
from cpplan.io.onnx.symbolic import read_ranges, read_symbolic_onnx, symbolic_shapes  # noqa: E402

FOLDER = Path(__file__).resolve().parents[3] / "datasets" / "onnx"


def model_of(text: str, opset: int = 18) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]>\n{text}')


def at(extents: tuple[int | Dim, ...], sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(e.evaluate(sizes) if isinstance(e, Dim) else e for e in extents)


def texts(extents: tuple[int | Dim, ...]) -> list[str]:
    return [str(extent) for extent in extents]


def check_everywhere(model: onnx.ModelProto, dims: Mapping[str, tuple[int, int]]) -> int:
    """Compare with the model read at every size; how many shapes depend on a variable."""
    found = symbolic_shapes(model, dims)
    assert not found.lost
    spans = (range(lower, upper + 1) for lower, upper in dims.values())
    for values in itertools.product(*spans):
        sizes = dict(zip(dims, values, strict=True))
        graph = read_onnx(model, sizes)
        assert {t.name: t.shape for t in graph.tensors} == {
            name: at(shape, sizes) for name, shape in found.shapes.items()
        }
    return sum(any(isinstance(e, Dim) for e in shape) for shape in found.shapes.values())


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


@pytest.mark.parametrize("opset", [19, 22])
def test_a_window_in_the_padding_is_left_out_since_opset_22(opset: int) -> None:
    """At H = 8 rows begin at -1, 2, 5 and 8, which is padding."""
    text = """case (float[1, 1, H] x) => (float[a, b, c] y) {
        y = MaxPool<kernel_shape = [2], strides = [3], pads = [1, 1], ceil_mode = 1>(x) }"""
    model = model_of(text, opset)
    assert check_everywhere(model, {"H": (6, 12)}) == 2
    found = symbolic_shapes(model, {"H": (6, 12)}).shapes["y"]
    assert at(found, {"H": 8}) == (1, 1, 4 if opset < 22 else 3)


def dynamic(path: Path, spatial: bool) -> tuple[onnx.ModelProto, dict[str, tuple[int, int]]]:
    """An exported classifier with a symbolic batch and, if asked, height and width."""
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        stored = tensor.data_type == onnx.TensorProto.INT64 and len(tensor.dims) == 1
        if stored and tensor.dims[0] > 1:  # the shape that a Reshape asks for
            shape = numpy_helper.to_array(tensor).copy()
            if shape[0] == 1 and -1 not in shape:
                shape[0] = -1
                tensor.CopyFrom(numpy_helper.from_array(shape, tensor.name))
    del model.graph.value_info[:]
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    (image,) = (v for v in model.graph.input if len(v.type.tensor_type.shape.dim) == 4)
    extents = image.type.tensor_type.shape.dim
    dims = {"N": (1, 8)}
    extents[0].dim_param = "N"
    if spatial:
        for axis, name in ((2, "H"), (3, "W")):
            dims[name] = (extents[axis].dim_value, 2 * extents[axis].dim_value)
            extents[axis].dim_param = name
    return model, dims


# ShuffleNet's own reshapes fix the height and the width.
CLASSIFIERS = {
    "resnet50": True,
    "mobilenet_v2": True,
    "squeezenet1_1": True,
    "inception_v3": True,
    "densenet121": True,
    "shufflenet_v2_x1_0": False,
}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers_lose_nothing(name: str) -> None:
    spatial = CLASSIFIERS[name]
    model, dims = dynamic(FOLDER / f"{name}.onnx", spatial)
    found = symbolic_shapes(model, dims)
    assert not found.lost
    assert len(found.checked) >= 5
    sizes = {"N": 3, "H": 331, "W": 417} if spatial else {"N": 3}
    graph = read_onnx(model, sizes)
    assert {t.name: t.shape for t in graph.tensors} == {
        tensor: at(shape, sizes) for tensor, shape in found.shapes.items()
    }


def test_resnet_by_hand() -> None:
    """Five halvings, rounded up each: the last images have (H + 31) // 32 rows."""
    model, dims = dynamic(FOLDER / "resnet50.onnx", spatial=True)
    graph = read_symbolic_onnx(model, dims)
    assert graph.symbols is not None
    (last,) = (op.inputs[0] for op in graph.ops if op.kind in ("ReduceMean", "GlobalAveragePool"))
    assert texts(graph.symbols.shapes[last]) == ["N", "2048", "(H + 31)//32", "(W + 31)//32"]
    bound = read_onnx(model, {name: upper for name, (_, upper) in dims.items()})
    assert {t.name: t.nbytes for t in graph.tensors} == {t.name: t.nbytes for t in bound.tensors}
    assert [op.in_place for op in graph.ops] == [op.in_place for op in bound.ops]
    assert graph.symbols.dims == {"N": (1, 8), "H": (224, 448), "W": (224, 448)}


def test_what_has_no_rule_is_lost_with_its_op() -> None:
    text = """case (float[N, 6, 2] x) => (float[a, b, c] z) {
        y = DFT(x)
        z = Relu(y)
        f = Constant<value_floats = [1.0, 0.3, 1.0]>()
        s = Resize(x, , f)
        third = Transpose<perm = [1, 0, 2]>(x)
        w = Resize(third, , f)
    }"""
    found = symbolic_shapes(model_of(text), {"N": (2, 9)})
    assert found.lost == {
        "y": "op 'DFT_0' (DFT): there is no rule for this operator's shapes",
        "z": "op 'Relu_1' (Relu): the shape of its input 'y' is lost",
        "w": "op 'Resize_5' (Resize): the scale 0.30000001192092896 of an extent that varies is "
        "not exact",
    }
    assert found.shapes["s"][1:] == (1, 2)  # 6 times 0.3, rounded down


def test_branches_of_different_shape_are_lost() -> None:
    text = """case (bool c, float[N, 4] x) => (float[a, b] z) {
        z = If (c) <
            then_branch = one () => (float[d, e] p) { p = Relu(x) },
            else_branch = two () => (float[f, g] q) { q = Concat<axis = 0>(x, x) }
        >
    }"""
    found = symbolic_shapes(model_of(text), {"N": (1, 4)})
    assert found.lost == {"z": "op 'If_0' (If): its branches differ in shape"}


def test_what_depends_on_no_variable_is_as_inference_has_it() -> None:
    text = """case (float[N] x, float[1, 4, 2] s) => (float[a] z, float[b, c, d] t) {
        z = Relu(x)
        t = DFT(s)
    }"""
    found = symbolic_shapes(model_of(text), {"N": (1, 4)})
    assert not found.lost
    assert found.shapes["t"] == (1, 4, 2)


def test_fixed_variables_are_integers() -> None:
    text = "case (float[N, H, W] x) => (float[a, b, c] y) { y = Relu(x) }"
    found = symbolic_shapes(model_of(text), {"N": 3, "H": (5, 5), "W": Range(2, 4)})
    assert found.shapes["y"][:2] == (3, 5)
    assert texts(found.shapes["y"]) == ["3", "5", "W"]


def test_unbounded_variables_are_read_at_the_lower_bound() -> None:
    text = "case (float[N, 4] x) => (float[a, b] y) { y = Relu(x) }"
    graph = load(model_of(text), dims={"N": (2, None)})
    assert graph.symbols is not None  # type: ignore[union-attr]
    assert texts(graph.symbols.shapes["y"]) == ["N", "4"]  # type: ignore[union-attr]
    assert symbolic_shapes(model_of(text), {"N": (0, None)}).checked[0] == {"N": 1}


def test_pairs_of_sizes_that_may_differ_are_dropped() -> None:
    """At N = M = 4 the sum could be written over either; at N = 1, M = 4 not over x."""
    text = """case (float[N, 2] x, float[M, 2] y) => (float[a, b] w) {
        z = Add(x, y)
        w = Neg(z)
    }"""
    model = model_of(text)
    (add, neg) = read_onnx(model, {"N": 4, "M": 4}).ops
    assert add.in_place == (("z", "x"), ("z", "y"))
    (add, neg) = read_symbolic_onnx(model, {"N": (1, 4), "M": (1, 4)}).ops
    assert add.in_place == ()
    assert neg.in_place == (("w", "z"),)


def test_offsets_of_copies_are_expressions() -> None:
    """float32[N, 2] has 8 N bytes, float32[M, 2] has 8 M."""
    text = """case (float[N, 2] x, float[M, 2] y) => (float[a, b] z) {
        z = Concat<axis = 0>(x, y, x)
        one = Constant<value_ints = [1]>()
        last = Constant<value_ints = [-1]>()
        zero = Constant<value_ints = [0]>()
        s = Slice(x, one, last, zero)
        row = Gather<axis = 0>(y, last)
        side = Concat<axis = 1>(x, x)
    }"""
    model = model_of(text)
    graph = read_symbolic_onnx(model, {"N": (3, 8), "M": (1, 4)})
    assert graph.symbols is not None
    placed = {key[1:]: str(at) for key, at in graph.symbols.placements.items()}
    ops = {op.outputs[0]: op for op in graph.ops}
    assert placed == {("x", "z"): "8*M + 8*N", ("y", "z"): "8*N", ("row", "y"): "8*M - 8"}
    assert ("x", "z", 0) in ops["z"].placements
    assert ops["s"].placements == (("s", "x", 8),)
    assert ops["side"].placements == ()


@pytest.mark.parametrize("name", ["squeezenet1_1", "inception_v3"])
def test_offsets_of_copies_are_those_of_the_model_read_at_each_size(name: str) -> None:
    model, dims = dynamic(FOLDER / f"{name}.onnx", spatial=True)
    graph = read_symbolic_onnx(model, {**dims, "N": 1})
    assert graph.symbols is not None
    offsets = graph.symbols.placements
    assert len(offsets) > 5
    for height, width in ((300, 300), (301, 447), (448, 333)):
        sizes = {"N": 1, "H": height, "W": width}
        expected = {
            (op.name, *placement)
            for op in read_onnx(model, sizes).ops
            for placement in op.placements
        }
        found = {
            (op.name, part, whole, *at((offsets.get((op.name, part, whole), offset),), sizes))
            for op in graph.ops
            for part, whole, offset in op.placements
        }
        assert found == expected


def test_attention_as_it_is_exported() -> None:
    """Heads of 8 channels; the mask is made from the length of the sequence."""
    text = """case (float[B, T, 24] x, float[24, 72] w) => (float[a, b, c] y) {
        shape = Shape(x)
        axis = Constant<value_ints = [0]>()
        first = Constant<value_int = 0>()
        second = Constant<value_int = 1>()
        batch = Gather<axis = 0>(shape, first)
        length = Gather<axis = 0>(shape, second)
        b = Unsqueeze(batch, axis)
        t = Unsqueeze(length, axis)
        heads = Constant<value_ints = [3]>()
        width = Constant<value_ints = [8]>()
        split = Concat<axis = 0>(b, t, heads, width)
        all = MatMul(x, w)
        q, k, v = Split<axis = 2, num_outputs = 3>(all)
        q4 = Reshape(q, split)
        k4 = Reshape(k, split)
        v4 = Reshape(v, split)
        qt = Transpose<perm = [0, 2, 1, 3]>(q4)
        kt = Transpose<perm = [0, 2, 3, 1]>(k4)
        vt = Transpose<perm = [0, 2, 1, 3]>(v4)
        scores = MatMul(qt, kt)
        steps = Range(first, length, second)
        one = Constant<value_ints = [1]>()
        column = Unsqueeze(steps, one)
        later = Less(column, steps)
        low = Constant<value_float = -1e9>()
        masked = Where(later, low, scores)
        weights = Softmax<axis = -1>(masked)
        heard = MatMul(weights, vt)
        back = Transpose<perm = [0, 2, 1, 3]>(heard)
        rest = Constant<value_ints = [-1]>()
        joined = Concat<axis = 0>(b, t, rest)
        y = Reshape(back, joined)
    }"""
    model = model_of(text)
    check_everywhere(model, {"B": (1, 3), "T": (2, 6)})
    graph = read_symbolic_onnx(model, {"B": (1, 3), "T": (2, 6)})
    assert graph.symbols is not None
    shapes = graph.symbols.shapes
    assert texts(shapes["scores"]) == ["B", "3", "T", "T"]
    assert texts(shapes["later"]) == ["T", "T"]
    assert texts(shapes["y"]) == ["B", "T", "24"]
    assert graph.tensor["later"].kind == "constant"
    assert graph.tensor["y"].view_of == ("back", 0)


def test_a_copy_that_is_in_one_piece_at_one_size_only_is_no_placement() -> None:
    """Read at N = 1, as there is no upper bound; at N = 2 the columns are in two pieces."""
    text = "case (float[N, 2] x) => (float[a, b] z) { z = Concat<axis = 1>(x, x) }"
    model = model_of(text)
    assert read_onnx(model, {"N": 1}).ops[0].placements == (("x", "z", 0), ("x", "z", 8))
    assert read_symbolic_onnx(model, {"N": (1, None)}).ops[0].placements == ()


def test_a_transpose_that_moves_no_bytes_at_one_size_only_is_no_view() -> None:
    text = "case (float[N, 2] x) => (float[a, b] z) { z = Transpose(x) }"
    model = model_of(text)
    assert read_onnx(model, {"N": 1}).tensor["z"].view_of == ("x", 0)
    assert read_symbolic_onnx(model, {"N": (1, None)}).tensor["z"].view_of is None


def test_bodies_have_expressions_too() -> None:
    """What a branch captures has the size that it has outside, bounds or none."""
    text = """case (bool c, float[N, 4] x) => (float[a, b] z) {
        y = Neg(x)
        z = If (c) <
            then_branch = one () => (float[d, e] p) { t = Relu(y)
                p = Abs(t) },
            else_branch = two () => (float[f, g] q) { q = Concat<axis = 0>(x) }
        >
    }"""
    graph = read_symbolic_onnx(model_of(text), {"N": (1, None)})
    (body, _) = graph.ops[-1].bodies
    assert body.symbols is not None
    assert {name: texts(shape) for name, shape in body.symbols.shapes.items()} == {
        name: ["N", "4"] for name in ("y", "t", "z")
    }
    assert body.ops[0].in_place == (("t", "y"),)


def test_a_body_that_grows_as_the_size_shrinks_has_a_decreasing_expression() -> None:
    text = """case (bool c, float[N] x) => (float[a] z) {
        most = Constant<value_ints = [8]>()
        size = Shape(x)
        rest = Sub(most, size)
        z = If (c) <
            then_branch = one () => (float[d] p) {
                s = ReduceSum<keepdims = 1>(x)
                e = Expand(s, rest)
                p = Relu(x)
            },
            else_branch = two () => (float[f] q) { q = Relu(x) }
        >
    }"""
    graph = read_symbolic_onnx(model_of(text), {"N": (1, 7)})
    body = graph.ops[-1].bodies[0]
    assert body.symbols is not None
    assert texts(body.symbols.shapes["e"]) == ["8 - N"]
    assert body.tensor["e"].nbytes == 7 * 4


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({"N": (8, 1)}, "dimension 'N': lower bound 8 is above upper bound 1"),
        ({"N": (-1, 4)}, "dimension 'N' must not be negative"),
        ({"N": (None, -1)}, "dimension 'N'"),
        ({"N": (1.5, 4)}, "dimension 'N': a bound must be an integer, not 1.5"),
        ({"N": (1, 2, 3)}, "dimension 'N' must be an integer"),
        ({"N": (True, 3)}, "a bound must be an integer"),
        ({"N": (1, 2**62)}, "dimension 'N' must be less than"),
        ({"M": (1, 4)}, "no symbolic dimension 'M': it has N"),
        ({}, r"dimension 'N' is unbound.*--dim N=1\.\.128"),
    ],
)
def test_bad_bounds_are_named(dims: Mapping[str, object], message: str) -> None:
    model = model_of("case (float[N, 4] x) => (float[a, b] y) { y = Relu(x) }")
    with pytest.raises(InputError, match=message):
        read_symbolic_onnx(model, dims)


def test_lower_bounds_at_which_the_model_is_not_valid_are_named() -> None:
    """Reshape to rows of 8: 4 elements do not do."""
    text = """case (float[N, 4] x) => (float[a, b] y) {
        to = Constant<value_ints = [2, 4]>()
        y = Reshape(x, to)
    }"""
    with pytest.raises(InputError, match="at N=1: "):
        read_symbolic_onnx(model_of(text), {"N": (1, 2)})


def test_ranges_of_extents() -> None:
    assert read_ranges({"n": (None, 8), "m": 4}) == {"n": Range(0, 8), "m": Range(4, 4)}
