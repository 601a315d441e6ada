"""Symbolic shapes of ONNX models: by hand, and against ONNX's inference at many sizes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from support.symbolic_models import at, check_everywhere, model_of, texts

import cpplan
from cpplan.io import load
from cpplan.model.errors import InputError
from cpplan.model.shapes import Range

onnx = pytest.importorskip("onnx")
from onnx import numpy_helper  # noqa: E402

from cpplan.io.onnx.model import read_onnx  # noqa: E402
from cpplan.io.onnx.symbolic import read_ranges, read_symbolic_onnx, symbolic_shapes  # noqa: E402

FOLDER = Path(__file__).resolve().parents[3] / "datasets" / "onnx"


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


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow)
        if name in ("densenet121", "inception_v3")
        else name
        for name in CLASSIFIERS
    ],
)
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


def test_symbolic_resnet_has_the_shapes_derived_by_hand() -> None:
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
        y = ai.onnx.ml.Binarizer(x)
        z = Relu(y)
        f = Constant<value_floats = [1.0, 0.3, 1.0]>()
        s = Resize(x, , f)
        third = Transpose<perm = [1, 0, 2]>(x)
        w = Resize(third, , f)
    }"""
    found = symbolic_shapes(model_of(text), {"N": (2, 9)})
    assert found.lost == {
        "y": "op 'Binarizer_0' (Binarizer): there is no rule for this operator's shapes",
        "z": "op 'Relu_1' (Relu): the shape of its input 'y' is not known",
        "w": "op 'Resize_5' (Resize): the scale 0.30000001192092896 of an extent that varies is "
        "not exact",
    }
    assert found.shapes["s"][1:] == (1, 2)  # 6 times 0.3, rounded down


def test_what_is_lost_needs_bounds_and_is_largest_there() -> None:
    model = model_of(
        "case (float[N, 6, 2] x) => (float[a, b, c] y) { y = ai.onnx.ml.Binarizer(x) }"
    )
    graph = read_symbolic_onnx(model, {"N": (1, 8)})
    assert graph.tensor["y"].nbytes == 8 * 6 * 2 * 4
    message = (
        r"tensor 'y': its bytes are not known without a bound of dimension 'N' \(op 'Binarizer_0'"
    )
    with pytest.raises(InputError, match=message):
        read_symbolic_onnx(model, {"N": (1, None)})
    shrinking = """case (float[N] n, float[8, 6, 2] x) => (float[a, b, c] y)
        <int64[1] end = {8}, int64[1] axis = {0}> {
        first = Shape(n) rest = Slice(x, first, end, axis) y = ai.onnx.ml.Binarizer(rest)
    }"""
    message = "tensor 'y' takes 336 B at N=1, but 48 B at the upper bounds: expected no more"
    with pytest.raises(InputError, match=message):
        read_symbolic_onnx(model_of(shrinking), {"N": (1, 7)})


def test_a_lost_view_of_a_tensor_that_varies_is_a_tensor_of_its_own() -> None:
    """H rows are M columns at the bounds, but no expression says that M is H elsewhere."""
    text = """case (float[H, 4] x, float[M] m) => (float[a, b] z) {
        t = Neg(x)
        count = Shape(m)
        four = Constant<value_ints = [-1]>()
        shape = Concat<axis = 0>(four, count)
        r = Reshape(t, shape)
        z = Exp(r)
    }"""
    graph = read_symbolic_onnx(model_of(text), {"H": (4, 8), "M": 4})
    assert graph.tensor["r"].view_of == ("t", 0)
    graph = read_symbolic_onnx(model_of(text), {"H": (4, 8), "M": (4, 8)})
    assert graph.symbols is not None
    assert "are not provably those of 't'" in graph.symbols.lost["r"]
    plan = cpplan.solve(graph)
    for rows, columns in ((4, 4), (8, 4), (8, 8)):
        cpplan.verify(graph, plan, dims={"H": rows, "M": columns})


def test_sequences_filled_up_to_chunks_and_cut_again_are_as_long_as_before() -> None:
    """As chunked attention and state-space layers do, with sizes computed from sizes."""
    text = """case (float[N, S, 6] x) => (float[a, b, c] y)
        <int64[1] chunk = {4}, int64[1] less = {3}, int64[1] one = {1}, int64[1] first = {0},
         int64[2] none = {0, 0}, int64[1] six = {6}, int64[1] rest = {-1}> {
        batch = Shape<end = 1>(x)
        length = Shape<start = 1, end = 2>(x)
        more = Add(length, less) chunks = Div(more, chunk) filled = Mul(chunks, chunk)
        missing = Sub(filled, length)
        before = Concat<axis = 0>(none, first) after = Concat<axis = 0>(first, missing, first)
        pads = Concat<axis = 0>(before, after)
        p = Pad(x, pads)
        end = Min(length, filled)
        c = Slice(p, first, end, one)
        elements = Mul(end, six) wide = Div(elements, length)
        shape = Concat<axis = 0>(batch, wide, rest)
        y = Reshape(c, shape)
    }"""
    found = symbolic_shapes(model_of(text), {"N": (1, 3), "S": (1, 10)})
    assert not found.lost
    assert texts(found.shapes["c"]) == ["N", "S", "6"]
    assert texts(found.shapes["y"]) == ["N", "6", "S"]
    check_everywhere(model_of(text), {"N": (1, 3), "S": (1, 10)})


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
        t = ai.onnx.ml.Binarizer(s)
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


@pytest.mark.parametrize(
    "name", ["squeezenet1_1", pytest.param("inception_v3", marks=pytest.mark.slow)]
)
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
    """A captured tensor has the same size in the branch as outside, with or without bounds."""
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
