"""Axes of ONNX's operators: the table of rules, and the rules that fit on a few lines.

Images are ``(batch, channels, rows, columns)``. Products of matrices and convolutions may be added
up in parts, channel by channel. Sums of integers stay the same; sums of floating-point numbers do
if a kernel continues from the sum of the piece before it. Quantized products are not added up in
parts: their sums are rounded to the bits of the output.

Axes of ONNX's normalizations: all axes except those along which elements are normalized.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

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
    NoAxes,
    Operation,
    Rule,
    alike,
    element_wise,
    same,
    shape_of,
)
from cpplan.io.axes.products import attention_axes, einsum_axes, matmul_axes, reduction_axes
from cpplan.io.onnx.older import PAIRS
from cpplan.io.onnx.operation import INTEGERS, SUMMED, axis_of
from cpplan.io.onnx.resize_axes import resized_axes
from cpplan.io.onnx.window_axes import (
    convolution_axes,
    global_pool_axes,
    pool_axes,
    transposed_convolution_axes,
)
from cpplan.model.axes import Axis

_ELEMENT_WISE = """
    Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor
    Cast Ceil Celu Clip Cos Cosh Div Elu Equal Erf Exp Expand Floor Gelu Greater GreaterOrEqual
    HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod
    Mul Neg Not Or PRelu Pow Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus
    Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Where Xor
    com.microsoft.BiasAdd com.microsoft.BiasGelu com.microsoft.FastGelu com.microsoft.Gelu
    com.microsoft.QuickGelu
""".split()  # noqa: SIM905
# Kinds whose other inputs do not have the output's shape.
_OF_FIRST = ("CastLike", "Clip", "Dropout", "Expand")
_REDUCTIONS = """
    ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd
    ReduceSum ReduceSumSquare
""".split()  # noqa: SIM905


def rules() -> dict[str, Rule]:
    """Rule of every kind that can run in pieces."""
    return {
        **dict.fromkeys(_ELEMENT_WISE, _element_wise),
        **dict.fromkeys(_OF_FIRST, partial(element_wise, only=[0])),
        **dict.fromkeys(_REDUCTIONS, _reduce),
        **dict.fromkeys(("ArgMax", "ArgMin"), _arg_reduce),
        **dict.fromkeys(("AveragePool", "LpPool", "MaxPool"), pool_axes),
        **dict.fromkeys(("Flatten", "Reshape", "Squeeze", "Unsqueeze"), reshape_axes),
        **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"), global_pool_axes),
        **dict.fromkeys(("Hardmax", "LogSoftmax", "Softmax"), softmax_axes),
        **dict.fromkeys(
            ("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"),
            layer_norm_axes,
        ),
        "Attention": _attention,
        "BatchNormalization": batch_norm_axes,
        "Concat": lambda op: concat_axes(op, axis_of(op, len(shape_of(op.output)), 1)),
        "Conv": partial(convolution_axes, vectors=(2,)),
        "ConvInteger": partial(convolution_axes, vectors=(3,)),
        "ConvTranspose": transposed_convolution_axes,
        "CumSum": _cumulative,
        "DepthToSpace": lambda op: block_axes(op, op.attributes["blocksize"], deeper=False),
        "DequantizeLinear": _quantize,
        "Einsum": _einsum,
        "Gather": lambda op: gather_axes(op, axis_of(op, len(op.shape()), 0)),
        "Gemm": _gemm,
        "GroupNormalization": outer_axes,
        "InstanceNormalization": instance_norm_axes,
        "LRN": lambda op: alike(op, but=(1,)),
        "LpNormalization": lambda op: alike(op, but=(axis_of(op, len(op.shape()), -1),)),
        "MatMul": _matmul,
        "MatMulInteger": partial(_matmul, vectors=(3,), numbers=(2,)),
        "Pad": _pad,
        "QLinearConv": partial(convolution_axes, vectors=(4, 5, 8)),
        "QLinearMatMul": partial(_matmul, right=3, vectors=(4, 5), numbers=(1, 2)),
        "QuantizeLinear": _quantize,
        "Resize": resized_axes,
        "Slice": _slice,
        "SpaceToDepth": lambda op: block_axes(op, op.attributes["blocksize"], deeper=True),
        "Split": lambda op: split_axes(op, axis_of(op, len(op.shape()), 0), op.input()),
        "Transpose": _transpose,
        "Upsample": resized_axes,
        **{f"com.microsoft.{kind}": rule for kind, rule in _contrib_rules().items()},
    }


def _contrib_rules() -> dict[str, Rule]:
    """Rule of ONNX Runtime's own kinds, but for the element-wise ones."""
    return {
        **dict.fromkeys(("QLinearAdd", "QLinearMul"), partial(element_wise, only=[0, 3])),
        **dict.fromkeys(("QLinearLeakyRelu", "QLinearSigmoid"), partial(element_wise, only=[0])),
        **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), _quantize),
        **dict.fromkeys(
            ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), _skip_norm_axes
        ),
        "FusedConv": _fused_convolution,
        "FusedMatMul": _fused_matmul,
        "MatMulIntegerToFloat": partial(_matmul, vectors=(3, 5, 6), numbers=(2, 4), terms=False),
        "QGemm": lambda op: _gemm(op, right=3, vectors=(4, 5), bias=6, terms=False),
        "QLinearAveragePool": _channels_first(pool_axes),
        "QLinearConcat": _qlinear_concat,
        "QLinearGlobalAveragePool": _channels_first(global_pool_axes),
        "QLinearSoftmax": lambda op: softmax_axes(op, single=False),
    }


def _listed(operation: Operation, name: str, number: int) -> list[int] | None:
    """Integers from an attribute or, since later opsets, from an input; ``None`` if left out."""
    if name in operation.attributes:
        return list(operation.attributes[name])
    if not operation.has(number):
        return None
    found = operation.integers(number)
    if found is None:
        raise NoAxes
    return found


def _element_wise(operation: Operation) -> list[Axis]:
    """Axes of an op of operands that are broadcast; before opset 7, from any axis on."""
    given = operation.attributes
    if given["opset"] < 7 and operation.kind in PAIRS:
        shape, other = operation.shape(), operation.shape(1)
        first = given.get("axis", len(shape) - len(other))
        if operation.kind == "PRelu" and shape[1:2] == other:
            first = 1
        if first % len(shape) + len(other) != len(shape):
            raise NoAxes
    return element_wise(operation)


def _quantize(operation: Operation) -> Iterator[Axis]:
    """Axes of a quantization; scales and zero points by axis are cut with that axis."""
    image, shape, output = operation.input(), operation.shape(), operation.output
    if operation.attributes.get("block_size"):
        raise NoAxes
    along = axis_of(operation, len(shape), 1) if len(shape) > 1 else 0
    for axis, (name, extent) in enumerate(zip(operation.names(len(shape)), shape, strict=True)):
        places = [(image, axis), (output, axis)]
        if axis == along:
            scales = [operation.input(k) for k in (1, 2) if operation.has(k)]
            places += [(scale, 0) for scale in scales if shape_of(scale) == (extent,)]
        yield same(name, extent, places)


def _qlinear_concat(operation: Operation) -> Iterator[Axis]:
    """Axes of a concatenation of tensors, each followed by its scale and its zero point."""
    axis = axis_of(operation, len(shape_of(operation.output)), 1)
    return concat_axes(replace(operation, inputs=operation.inputs[2::3]), axis)


def _matmul(
    operation: Operation,
    right: int = 1,
    vectors: Sequence[int] = (),
    numbers: Sequence[int] = (),
    *,
    terms: bool = True,
) -> Iterable[Axis]:
    """Axes of a product of matrices."""
    if any(operation.has(k) and math.prod(operation.shape(k)) > 1 for k in numbers):
        raise NoAxes
    cut = [operation.input(k) for k in vectors if operation.has(k)]
    if any(math.prod(shape_of(vector)) > 1 and len(shape_of(vector)) > 1 for vector in cut):
        raise NoAxes
    adds = terms and operation.output.dtype in SUMMED
    left, other = operation.input(), operation.input(right)
    return matmul_axes(operation, left, other, vectors=cut, terms=adds)


def _gemm(
    operation: Operation,
    right: int = 1,
    vectors: Sequence[int] = (),
    bias: int = 2,
    *,
    terms: bool = True,
) -> Iterable[Axis]:
    given = operation.attributes
    transposed = bool(given.get("transA", 0)), bool(given.get("transB", 0))
    added = [operation.input(bias)] if operation.has(bias) else []
    cut = [operation.input(k) for k in vectors if operation.has(k)]
    return matmul_axes(
        operation, operation.input(), operation.input(right), transposed=transposed, added=added,
        vectors=cut, terms=terms and operation.output.dtype in SUMMED,
    )  # fmt: skip


def _fused_matmul(operation: Operation) -> Iterable[Axis]:
    if any(operation.attributes.get(f"transBatch{side}") for side in "AB"):
        raise NoAxes
    return _gemm(replace(operation, inputs=operation.inputs[:2]), terms=False)


def _fused_convolution(operation: Operation) -> Iterator[Axis]:
    """Axes of a convolution with an activation; what is added before it is cut like the output."""
    added = [operation.input(3)] if operation.has(3) else []
    for axis in convolution_axes(operation, vectors=(2,)):
        if not axis.accumulates:
            made = axis.window[operation.output.name]
            windows = (replace(made, tensor=tensor.name) for tensor in added)
            yield replace(axis, windows=(*axis.windows, *windows))


def _channels_first(rule: Rule) -> Rule:
    """The rule for images whose channels are their second axis; others are not cut."""

    def checked(operation: Operation) -> Iterable[Axis]:
        if operation.attributes.get("channels_last"):
            raise NoAxes
        return rule(operation)

    return checked


def _attention(operation: Operation) -> list[Axis]:
    given = operation.attributes
    if given.get("is_causal") or any(operation.has(k) for k in (4, 5, 6)):
        raise NoAxes
    return attention_axes(operation)


def _reduce(operation: Operation) -> Iterable[Axis]:
    rank = len(operation.shape())
    axes = _listed(operation, "axes", 1)
    if not axes:
        if operation.attributes.get("noop_with_empty_axes"):
            return element_wise(operation, only=[0])
        axes = list(range(rank))
    keeps = bool(operation.attributes.get("keepdims", 1))
    adds = operation.kind in ("ReduceSum", "ReduceSumSquare", "ReduceL1")
    adds = adds and operation.output.dtype in INTEGERS
    return reduction_axes(operation, axes, keeps=keeps, adds=adds)


def _arg_reduce(operation: Operation) -> Iterable[Axis]:
    axis = axis_of(operation, len(operation.shape()), 0)
    return reduction_axes(operation, [axis], keeps=bool(operation.attributes.get("keepdims", 1)))


def _cumulative(operation: Operation) -> list[Axis]:
    axis = operation.integers(1)
    if axis is None:
        raise NoAxes
    return alike(operation, but=axis)


def _einsum(operation: Operation) -> Iterable[Axis]:
    adds = operation.output.dtype in INTEGERS
    return einsum_axes(operation, operation.attributes["equation"], adds=adds)


def _pad(operation: Operation) -> Iterable[Axis]:
    constant = operation.attributes.get("mode", "constant") == "constant"
    return pad_axes(operation, pads_before(operation), constant=constant)


def pads_before(operation: Operation) -> list[int]:
    """Positions added in front of each axis of a padding's input, negative to cut."""
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
    return before


def _slice(operation: Operation) -> Iterable[Axis]:
    return slice_axes(operation, *slice_steps(operation))


def slice_steps(operation: Operation) -> tuple[list[int], list[int]]:
    """First positions and steps of a slice, along each axis of its input."""
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
        firsts[axis], widths[axis] = min(max(first, 0), extent - (step < 0)), step
    return firsts, widths


def _transpose(operation: Operation) -> Iterable[Axis]:
    rank = len(operation.shape())
    order = operation.attributes.get("perm") or list(range(rank))[::-1]
    return transpose_axes(operation, list(order))


def batch_norm_axes(operation: Operation) -> Iterator[Axis]:
    """All axes, if mean and variance are inputs; these are cut with the channels."""
    image, shape = operation.input(), operation.shape()
    given = operation.attributes
    if given.get("training_mode") or (given["opset"] < 7 and not given.get("is_test")):
        raise NoAxes
    if len(operation.shape(1)) != 1:  # statistics of each position
        raise NoAxes
    for axis, (name, extent) in enumerate(zip(operation.names(len(shape)), shape, strict=True)):
        places = [(image, axis), (operation.output, axis)]
        if axis == 1 or (len(shape) == 1 and axis == 0):
            places += [(operation.input(k), 0) for k in range(1, 5)]
        yield same(name, extent, places)


def instance_norm_axes(operation: Operation) -> Iterator[Axis]:
    """Batch and channels; the weights are cut with the channels."""
    image, shape, output = operation.input(), operation.shape(), operation.output
    yield same("batch", shape[0], [(image, 0), (output, 0)])
    yield same(
        "channels", shape[1], [(image, 1), (output, 1), *((operation.input(k), 0) for k in (1, 2))]
    )


def outer_axes(operation: Operation) -> list[Axis]:
    """The batch alone."""
    return alike(operation, but=range(1, len(operation.shape())))


def softmax_axes(operation: Operation, *, single: bool = True) -> list[Axis]:
    """All axes except the normalized one; before opset 13, only the axes in front of it.

    With ``single=False``, only these are taken in any case.
    """
    rank = len(operation.shape())
    if operation.attributes["opset"] >= 13 and single:
        return alike(operation, but=(axis_of(operation, rank, -1),))
    return alike(operation, but=range(axis_of(operation, rank, 1), rank))


def layer_norm_axes(operation: Operation) -> Iterator[Axis]:
    """Axes in front of the normalized ones; weights are cut with an axis that they have."""
    image, shape, output = operation.input(), operation.shape(), operation.output
    first = axis_of(operation, len(shape), -1)
    names = operation.names(len(shape))
    for axis in range(first):
        places = [(image, axis), (output, axis)]
        for k in (1, 2):
            if operation.has(k):
                own = axis - len(shape) + len(operation.shape(k))
                if own >= 0 and operation.shape(k)[own] == shape[axis]:
                    places.append((operation.input(k), own))
        yield same(names[axis], shape[axis], places)


def _skip_norm_axes(operation: Operation) -> Iterator[Axis]:
    """All axes but the last of a normalized sum; the second tensor may be broadcast."""
    image, skip = operation.input(), operation.input(1)
    shape, added = shape_of(image), shape_of(skip)
    outputs = [tensor for tensor in operation.outputs if tensor is not None]
    names = operation.names(len(shape))
    for axis in range(len(shape) - 1):
        places = [(tensor, axis) for tensor in (image, *outputs)]
        own = axis - len(shape) + len(added)
        if own >= 0 and added[own] == shape[axis]:
            places.append((skip, own))
        yield same(names[axis], shape[axis], places)
