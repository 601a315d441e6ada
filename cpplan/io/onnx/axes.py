"""Axes of ONNX's operators: the table of rules, and nodes as the rules see them.

Images are ``(batch, channels, rows, columns)``. Products of matrices and convolutions may be
added up in parts, channel by channel: of integers the sums are the same, of floating-point numbers
if a kernel goes on where the piece before it ended. Quantized products are not added up in parts:
their sums are rounded to the bits of the output.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from cpplan.io.axes.moves import (
    block_axes,
    concat_axes,
    gather_axes,
    pad_axes,
    reshape_axes,
    slice_axes,
    split_axes,
    transpose_axes,
)
from cpplan.io.axes.operation import (
    Array,
    NoAxes,
    Operation,
    Rule,
    alike,
    checked_axis,
    element_wise,
    same,
    shape_of,
)
from cpplan.io.axes.products import attention_axes, einsum_axes, matmul_axes, reduction_axes
from cpplan.io.axes.resizing import between, nearest, resize_axes
from cpplan.io.axes.windows import (
    Slide,
    channel_axes,
    same_padding,
    slide_axes,
    transposed_axes,
)
from cpplan.model.axes import Axis
from cpplan.model.tensor import Tensor

if TYPE_CHECKING:
    import onnx

_ELEMENT_WISE = """
    Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor
    Cast Ceil Celu Clip Cos Cosh Div Elu Equal Erf Exp Expand Floor Gelu Greater GreaterOrEqual
    HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod
    Mul Neg Not Or PRelu Pow Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus
    Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Where Xor
    com.microsoft.BiasGelu com.microsoft.FastGelu com.microsoft.Gelu com.microsoft.QuickGelu
""".split()  # noqa: SIM905
# The other inputs are no tensors of the output's shape.
_OF_FIRST = ("CastLike", "Clip", "Dropout", "Expand")
_REDUCTIONS = """
    ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd
    ReduceSum ReduceSumSquare
""".split()  # noqa: SIM905
# Which input holds the weights of a convolution.
CONVOLUTIONS = {"Conv": 1, "ConvInteger": 1, "QLinearConv": 3}
_FLOATS = ("float32", "float64", "float16", "bfloat16")
_INTEGERS = ("int32", "int64")
_WIDE = (*_FLOATS, *_INTEGERS)


def operation_of(
    node: onnx.NodeProto,
    tensors: Mapping[str, Tensor | None],
    value: Callable[[str], Array | None],
    opset: int,
) -> Operation:
    """A node as the rules see it; ``opset`` is among its attributes.

    Parameters
    ----------
    tensors
        The tensors that the node accesses; ``None`` for strings.
    value
        The value of a small constant, or ``None`` if it is not known.
    """
    import onnx

    given: dict[str, Any] = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    attributes = {k: v.decode() if isinstance(v, bytes) else v for k, v in given.items()}
    names = tuple(node.input)
    return Operation(
        node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}",
        tuple(tensors.get(name) if name else None for name in names),
        tuple(tensors.get(name) if name else None for name in node.output),
        {**attributes, "opset": opset},
        lambda k: value(names[k]) if k < len(names) and names[k] else None,
    )


def rules() -> dict[str, Rule]:
    """Rule of every kind that can run in pieces."""
    return {
        **dict.fromkeys(_ELEMENT_WISE, element_wise),
        **dict.fromkeys(_OF_FIRST, partial(element_wise, only=[0])),
        **dict.fromkeys(_REDUCTIONS, _reduce),
        **dict.fromkeys(("ArgMax", "ArgMin"), _arg_reduce),
        **dict.fromkeys(("AveragePool", "LpPool", "MaxPool"), _pool),
        **dict.fromkeys(("Flatten", "Reshape", "Squeeze", "Unsqueeze"), reshape_axes),
        **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"), _global_pool),
        **dict.fromkeys(("Hardmax", "LogSoftmax", "Softmax"), _softmax),
        **dict.fromkeys(("LayerNormalization", "RMSNormalization"), _layer_norm),
        **dict.fromkeys(("com.microsoft.QLinearAdd", "com.microsoft.QLinearMul"), _qlinear_pair),
        **dict.fromkeys(
            ("com.microsoft.QLinearLeakyRelu", "com.microsoft.QLinearSigmoid"),
            partial(element_wise, only=[0]),
        ),
        "Attention": _attention,
        "BatchNormalization": _batch_norm,
        "Concat": lambda op: concat_axes(op, _axis(op, len(shape_of(op.output)), 1)),
        "Conv": partial(_convolution, vectors=(2,)),
        "ConvInteger": partial(_convolution, vectors=(3,)),
        "ConvTranspose": _transposed,
        "CumSum": _cumulative,
        "DepthToSpace": lambda op: block_axes(op, op.attributes["blocksize"], deeper=False),
        "DequantizeLinear": _quantize,
        "Einsum": _einsum,
        "Gather": lambda op: gather_axes(op, _axis(op, len(op.shape()), 0)),
        "Gemm": _gemm,
        "GroupNormalization": _outer_only,
        "InstanceNormalization": _instance_norm,
        "LRN": lambda op: alike(op, but=(1,)),
        "LpNormalization": lambda op: alike(op, but=(_axis(op, len(op.shape()), -1),)),
        "MatMul": _matmul,
        "MatMulInteger": partial(_matmul, vectors=(3,), numbers=(2,)),
        "Pad": _pad,
        "QLinearConv": partial(_convolution, vectors=(4, 5, 8)),
        "QLinearMatMul": partial(_matmul, right=3, vectors=(4, 5), numbers=(1, 2)),
        "QuantizeLinear": _quantize,
        "Resize": _resize,
        "Slice": _slice,
        "SpaceToDepth": lambda op: block_axes(op, op.attributes["blocksize"], deeper=True),
        "Split": lambda op: split_axes(op, _axis(op, len(op.shape()), 0), op.input()),
        "Transpose": _transpose,
        "Upsample": _resize,
    }


def _axis(operation: Operation, rank: int, default: int) -> int:
    return checked_axis(operation.attributes.get("axis", default), rank)


def _listed(operation: Operation, name: str, number: int) -> list[int] | None:
    """Integers that are an attribute or, since later opsets, an input; ``None`` if left out.

    Raises
    ------
    NoAxes
        If the input's values are not known.
    """
    if name in operation.attributes:
        return list(operation.attributes[name])
    if not operation.has(number):
        return None
    found = operation.integers(number)
    if found is None:
        raise NoAxes
    return found


def window_slides(operation: Operation) -> list[Slide]:
    """Windows of a convolution or pool along its image's spatial axes, padded as the node says."""
    given = operation.attributes
    weights = CONVOLUTIONS.get(operation.kind)
    taps = given.get("kernel_shape") or (operation.shape(weights)[2:] if weights else ())
    rank = len(taps)
    strides = given.get("strides") or [1] * rank
    dilations = given.get("dilations") or [1] * rank
    pads = given.get("pads") or [0] * 2 * rank
    auto = given.get("auto_pad", "NOTSET")
    if not len(strides) == len(dilations) == rank or len(pads) != 2 * rank:
        raise NoAxes
    shape, places = operation.shape(), shape_of(operation.output)
    slides = []
    for k in range(rank):
        slide = Slide(taps[k], strides[k], dilations[k])
        before = 0 if auto == "VALID" else pads[k]
        if auto.startswith("SAME"):
            lower = auto == "SAME_LOWER"
            before = same_padding(shape[2 + k], places[2 + k], slide, lower=lower)
        slides.append(Slide(taps[k], strides[k], dilations[k], before))
    return slides


def _convolution(operation: Operation, vectors: Sequence[int]) -> Iterator[Axis]:
    image, kernel = operation.input(), operation.input(CONVOLUTIONS[operation.kind])
    yield from slide_axes(operation, image, window_slides(operation), 2)
    cut = [operation.input(k) if operation.has(k) else None for k in vectors]
    groups = operation.attributes.get("group", 1)
    adds = operation.output.dtype in _WIDE
    terms = 1 if adds else None
    yield from channel_axes(operation, image, (kernel, 0), cut, groups=groups, terms=terms)


def _transposed(operation: Operation) -> Iterator[Axis]:
    image, kernel = operation.input(), operation.input(1)
    yield from transposed_axes(operation, image, transposed_slides(operation), 2)
    bias = operation.input(2) if operation.has(2) else None
    if operation.attributes.get("group", 1) == 1:
        yield from channel_axes(operation, image, (kernel, 1), [bias], groups=1)


def transposed_slides(operation: Operation) -> list[Slide]:
    """Windows of a transposed convolution, with what is cut off in front of its output."""
    given, shape = operation.attributes, operation.shape(1)
    rank = len(shape) - 2
    places, extents = shape_of(operation.output), operation.shape()
    taps = given.get("kernel_shape", shape[2:])
    strides = given.get("strides") or [1] * rank
    dilations = given.get("dilations") or [1] * rank
    pads = given.get("pads") or [0] * 2 * rank
    auto, fixed = given.get("auto_pad", "NOTSET"), "output_shape" in given
    added = given.get("output_padding") or [0] * rank
    slides = []
    for k in range(rank):
        slide, before = Slide(taps[k], strides[k], dilations[k]), pads[k]
        if fixed or auto != "NOTSET":
            whole = strides[k] * (extents[2 + k] - 1) + added[k] + slide.reach
            total = max(0, whole - places[2 + k])
            before = total // 2 if auto == "SAME_UPPER" else total - total // 2
            before = 0 if auto == "VALID" else before
        slides.append(Slide(taps[k], strides[k], dilations[k], before))
    return slides


def _pool(operation: Operation) -> Iterator[Axis]:
    image, given = operation.input(), operation.attributes
    slides = window_slides(operation)
    output = operation.output
    yield same("channels", operation.shape()[1], [(image, 1), (output, 1)])
    found = list(slide_axes(operation, image, slides, 2))
    if operation.kind == "AveragePool" and given.get("count_include_pad"):
        # A window may end behind the padding, where it does not count: no padding says so.
        pads = given.get("pads") or [0] * 2 * len(slides)
        for k, slide in enumerate(slides):
            past = (shape_of(output)[2 + k] - 1) * slide.stride - slide.before + slide.reach
            if past > operation.shape()[2 + k] + pads[len(slides) + k]:
                return
    yield from found


def _global_pool(operation: Operation) -> Iterator[Axis]:
    shape = operation.shape()
    return reduction_axes(operation, range(2, len(shape)), keeps=True)


def _batch_norm(operation: Operation) -> Iterator[Axis]:
    image, shape = operation.input(), operation.shape()
    given = operation.attributes
    if given.get("training_mode") or (given["opset"] < 7 and not given.get("is_test")):
        raise NoAxes
    for axis, (name, extent) in enumerate(zip(operation.names(len(shape)), shape, strict=True)):
        places = [(image, axis), (operation.output, axis)]
        if axis == 1 or (len(shape) == 1 and axis == 0):
            places += [(operation.input(k), 0) for k in range(1, 5)]
        yield same(name, extent, places)


def _instance_norm(operation: Operation) -> Iterator[Axis]:
    image, shape, output = operation.input(), operation.shape(), operation.output
    yield same("batch", shape[0], [(image, 0), (output, 0)])
    yield same(
        "channels", shape[1], [(image, 1), (output, 1), *((operation.input(k), 0) for k in (1, 2))]
    )


def _outer_only(operation: Operation) -> list[Axis]:
    return alike(operation, but=range(1, len(operation.shape())))


def _softmax(operation: Operation) -> list[Axis]:
    """All axes but the one that is normalised; before opset 13, those in front of it."""
    rank = len(operation.shape())
    if operation.attributes["opset"] >= 13:
        return alike(operation, but=(_axis(operation, rank, -1),))
    return alike(operation, but=range(_axis(operation, rank, 1), rank))


def _layer_norm(operation: Operation) -> Iterator[Axis]:
    image, shape, output = operation.input(), operation.shape(), operation.output
    first = _axis(operation, len(shape), -1)
    names = operation.names(len(shape))
    for axis in range(first):
        places = [(image, axis), (output, axis)]
        for k in (1, 2):
            if operation.has(k):
                own = axis - len(shape) + len(operation.shape(k))
                if own >= 0 and operation.shape(k)[own] == shape[axis]:
                    places.append((operation.input(k), own))
        yield same(names[axis], shape[axis], places)


def _quantize(operation: Operation) -> Iterator[Axis]:
    """Scales and zero points of one axis are cut with it."""
    image, shape, output = operation.input(), operation.shape(), operation.output
    if operation.attributes.get("block_size"):
        raise NoAxes
    along = _axis(operation, len(shape), 1) if len(shape) > 1 else 0
    for axis, (name, extent) in enumerate(zip(operation.names(len(shape)), shape, strict=True)):
        places = [(image, axis), (output, axis)]
        if axis == along:
            scales = [operation.input(k) for k in (1, 2) if operation.has(k)]
            places += [(scale, 0) for scale in scales if shape_of(scale) == (extent,)]
        yield same(name, extent, places)


def _qlinear_pair(operation: Operation) -> list[Axis]:
    return element_wise(operation, only=[0, 3])


def _matmul(
    operation: Operation, right: int = 1, vectors: Sequence[int] = (), numbers: Sequence[int] = ()
) -> Iterable[Axis]:
    """Axes of a product of matrices.

    Parameters
    ----------
    vectors
        Scales and zero points of the right operand: one, or one for each column.
    numbers
        Those of the left operand, which must be one.
    """
    if any(operation.has(k) and math.prod(operation.shape(k)) > 1 for k in numbers):
        raise NoAxes
    cut = [operation.input(k) for k in vectors if operation.has(k)]
    if any(math.prod(shape_of(vector)) > 1 and len(shape_of(vector)) > 1 for vector in cut):
        raise NoAxes
    adds = operation.output.dtype in _WIDE
    left, other = operation.input(), operation.input(right)
    return matmul_axes(operation, left, other, vectors=cut, terms=adds)


def _gemm(operation: Operation) -> Iterable[Axis]:
    given = operation.attributes
    transposed = bool(given.get("transA", 0)), bool(given.get("transB", 0))
    added = [operation.input(2)] if operation.has(2) else []
    return matmul_axes(
        operation, operation.input(), operation.input(1), transposed=transposed, added=added,
        terms=operation.output.dtype in _WIDE,
    )  # fmt: skip


def _attention(operation: Operation) -> list[Axis]:
    given = operation.attributes
    if given.get("is_causal") or any(operation.has(k) for k in (4, 5, 6)):
        raise NoAxes
    return attention_axes(operation, (0, 1, 2), 3)


def _reduce(operation: Operation) -> Iterable[Axis]:
    rank = len(operation.shape())
    axes = _listed(operation, "axes", 1)
    if not axes:
        if operation.attributes.get("noop_with_empty_axes"):
            return element_wise(operation, only=[0])
        axes = list(range(rank))
    keeps = bool(operation.attributes.get("keepdims", 1))
    adds = operation.kind in ("ReduceSum", "ReduceSumSquare", "ReduceL1")
    adds = adds and operation.output.dtype in _INTEGERS
    return reduction_axes(operation, axes, keeps=keeps, adds=adds)


def _arg_reduce(operation: Operation) -> Iterable[Axis]:
    axis = _axis(operation, len(operation.shape()), 0)
    return reduction_axes(operation, [axis], keeps=bool(operation.attributes.get("keepdims", 1)))


def _cumulative(operation: Operation) -> list[Axis]:
    axis = operation.integers(1)
    if axis is None:
        raise NoAxes
    return alike(operation, but=axis)


def _einsum(operation: Operation) -> Iterable[Axis]:
    adds = operation.output.dtype in _INTEGERS
    return einsum_axes(operation, operation.attributes["equation"], adds=adds)


def _pad(operation: Operation) -> Iterable[Axis]:
    rank = len(operation.shape())
    pads = _listed(operation, "pads" if "pads" in operation.attributes else "paddings", 1)
    if pads is None:
        raise NoAxes
    axes = operation.integers(3) if operation.has(3) else list(range(rank))
    if axes is None or len(pads) != 2 * len(axes):
        raise NoAxes
    before = [0] * rank
    for axis, count in zip(axes, pads, strict=False):
        before[axis] = count
    constant = operation.attributes.get("mode", "constant") == "constant"
    return pad_axes(operation, before, constant=constant)


def _slice(operation: Operation) -> Iterable[Axis]:
    shape = operation.shape()
    starts = _listed(operation, "starts", 1)
    if starts is None:
        raise NoAxes
    axes = _listed(operation, "axes", 3) or list(range(len(starts)))
    steps = _listed(operation, "steps", 4) or [1] * len(starts)
    firsts, widths = [0] * len(shape), [1] * len(shape)
    for axis, start, step in zip(axes, starts, steps, strict=True):
        extent = shape[axis]
        first = start + extent if start < 0 else start
        firsts[axis], widths[axis] = min(max(first, 0), extent), step
    return slice_axes(operation, firsts, widths)


def _transpose(operation: Operation) -> Iterable[Axis]:
    rank = len(operation.shape())
    order = operation.attributes.get("perm") or list(range(rank))[::-1]
    return transpose_axes(operation, list(order))


def _resize(operation: Operation) -> Iterable[Axis]:
    shape, places = operation.shape(), shape_of(operation.output)
    given = operation.attributes
    scales = _scales(operation, len(shape))
    tables: dict[int, list[tuple[int, int]] | None] = {}
    for axis, (extent, count) in enumerate(zip(shape, places, strict=True)):
        scale = scales[axis] if scales else count / extent
        if extent != count or scale != 1:
            tables[axis] = _resized(given, operation.kind, extent, count, scale)
    return resize_axes(operation, tables)


def _scales(operation: Operation, rank: int) -> list[float] | None:
    """Scale of each axis; ``None`` if extents are given instead."""
    given = operation.attributes
    if given.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise NoAxes
    if "scales" in given:
        return list(given["scales"])
    number = 2 if operation.kind == "Resize" and given["opset"] >= 11 else 1
    if number == 2 and operation.has(3):
        return None
    value = operation.value(number)
    if value is None:
        raise NoAxes
    listed = np.asarray(value, np.float64).reshape(-1).tolist()
    scales = [1.0] * rank
    for axis, scale in zip(given.get("axes", range(rank)), listed, strict=True):
        scales[axis] = scale
    return scales


def _resized(
    given: Mapping[str, Any], kind: str, extent: int, places: int, scale: float
) -> list[tuple[int, int]] | None:
    """Positions that each place is made from; ``None`` for forms that are not known here.

    A coordinate that is nearly whole may be rounded either way: both are counted in.
    """
    mode = given.get("mode", "nearest")
    newer = kind == "Resize" and given["opset"] >= 11
    form = given.get("coordinate_transformation_mode", "half_pixel") if newer else "asymmetric"
    if mode not in ("nearest", "linear", "bilinear") or given.get("antialias"):
        return None
    if form == "half_pixel" or (form == "pytorch_half_pixel" and places > 1):
        found = [(k + 0.5) / scale - 0.5 for k in range(places)]
    elif form == "asymmetric":
        found = [k / scale for k in range(places)]
    elif form == "align_corners" and places > 1 and places == extent * scale:
        found = [k * (extent - 1) / (places - 1) for k in range(places)]
    else:
        return None
    if mode != "nearest":
        lower = [math.floor(at - 1e-6) for at in found]
        upper = [math.floor(at + 1e-6) for at in found]
        low, high = between(lower, extent), between(upper, extent)
        return [(a[0], b[1]) for a, b in zip(low, high, strict=True)]
    rounding = given.get("nearest_mode", "round_prefer_floor") if newer else "floor"
    how = {
        "round_prefer_floor": lambda at: math.ceil(at - 0.5),
        "round_prefer_ceil": lambda at: math.floor(at + 0.5),
        "floor": math.floor,
        "ceil": math.ceil,
    }.get(rounding)
    if how is None:
        return None
    low, high = (nearest([how(at + off) for at in found], extent) for off in (-1e-6, 1e-6))
    return [(a[0], b[1]) for a, b in zip(low, high, strict=True)]
