"""Axes of TFLite's operators: the table of rules, and operators as the rules see them.

A piece of a quantized operator computes the same bytes as the whole one: each element of an output
is computed from the same elements, in the same order. No operator adds up in parts: it would round
its partial sums to the eight bits of its output. Images are ``(batch, rows, columns, channels)``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import numpy as np

from cpplan.io.axes.moves import (
    block_axes,
    concat_axes,
    gather_axes,
    pad_axes,
    reshape_axes,
    slice_axes,
    split_axes,
    stack_axes,
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
from cpplan.io.axes.products import matmul_axes, reduction_axes
from cpplan.io.axes.resizing import between, nearest, resize_axes
from cpplan.io.axes.windows import (
    Slide,
    channel_axes,
    same_padding,
    slide_axes,
    transposed_axes,
)
from cpplan.io.tflite.model import FileOperator, FileTensor, TfliteModel
from cpplan.model.axes import Axis
from cpplan.model.tensor import Tensor

# Number and format of the fields of operators' options, as in the schema.
_OPTIONS: dict[str, dict[str, tuple[int, str]]] = {
    "AVERAGE_POOL_2D": {
        "padding": (0, "<b"),
        "stride_w": (1, "<i"),
        "stride_h": (2, "<i"),
        "filter_width": (3, "<i"),
        "filter_height": (4, "<i"),
        "activation": (5, "<b"),
    },
    "BATCH_MATMUL": {"adj_x": (0, "<B"), "adj_y": (1, "<B")},
    "CONCATENATION": {"axis": (0, "<i"), "activation": (1, "<b")},
    "CONV_2D": {
        "padding": (0, "<b"),
        "stride_w": (1, "<i"),
        "stride_h": (2, "<i"),
        "activation": (3, "<b"),
        "dilation_w": (4, "<i"),
        "dilation_h": (5, "<i"),
    },
    "DEPTHWISE_CONV_2D": {
        "padding": (0, "<b"),
        "stride_w": (1, "<i"),
        "stride_h": (2, "<i"),
        "activation": (4, "<b"),
        "dilation_w": (5, "<i"),
        "dilation_h": (6, "<i"),
    },
    "DEPTH_TO_SPACE": {"block_size": (0, "<i")},
    "FULLY_CONNECTED": {"activation": (0, "<b"), "weights_format": (1, "<b")},
    "GATHER": {"axis": (0, "<i"), "batch_dims": (1, "<i")},
    "MEAN": {"keep_dims": (0, "<B")},
    "PACK": {"axis": (1, "<i")},
    "RESIZE_BILINEAR": {"align_corners": (2, "<B"), "half_pixel_centers": (3, "<B")},
    "RESIZE_NEAREST_NEIGHBOR": {"align_corners": (0, "<B"), "half_pixel_centers": (1, "<B")},
    "STRIDED_SLICE": {
        "begin_mask": (0, "<i"),
        "end_mask": (1, "<i"),
        "ellipsis_mask": (2, "<i"),
        "new_axis_mask": (3, "<i"),
        "shrink_axis_mask": (4, "<i"),
    },
    "TRANSPOSE_CONV": {"padding": (0, "<b"), "stride_w": (1, "<i"), "stride_h": (2, "<i")},
    "UNPACK": {"axis": (1, "<i")},
}
for _kind, _like in {
    "L2_POOL_2D": "AVERAGE_POOL_2D",
    "MAX_POOL_2D": "AVERAGE_POOL_2D",
    "REDUCE_ALL": "MEAN",
    "REDUCE_ANY": "MEAN",
    "REDUCE_MAX": "MEAN",
    "REDUCE_MIN": "MEAN",
    "REDUCE_PROD": "MEAN",
    "SPACE_TO_DEPTH": "DEPTH_TO_SPACE",
    "SUM": "MEAN",
}.items():
    _OPTIONS[_kind] = _OPTIONS[_like]

SAME = 0
# Kinds whose operands are broadcast to the result.
ELEMENT_WISE = """
    ABS ADD ADD_N CAST CEIL COS DEQUANTIZE DIV ELU EQUAL EXP FLOOR FLOOR_DIV FLOOR_MOD GELU GREATER
    GREATER_EQUAL HARD_SWISH LEAKY_RELU LESS LESS_EQUAL LOG LOGICAL_AND LOGICAL_NOT LOGICAL_OR
    LOGISTIC MAXIMUM MINIMUM MUL NEG NOT_EQUAL POW PRELU QUANTIZE RELU RELU6 RELU_0_TO_1
    RELU_N1_TO_1 ROUND RSQRT SELECT_V2 SIGN SIN SQRT SQUARE SQUARED_DIFFERENCE SUB TANH ZEROS_LIKE
""".split()  # noqa: SIM905


def operation_of(
    operator: FileOperator,
    inputs: Sequence[Tensor | None],
    outputs: Sequence[Tensor | None],
    value: Callable[[int], Array | None],
) -> Operation:
    """An operator in the form that the rules read; options are named like the schema's fields."""
    table = operator.options
    fields = {} if operator.custom else _OPTIONS.get(operator.kind, {})
    attributes = {
        name: 0 if table is None else table.number(field, form)
        for name, (field, form) in fields.items()
    }
    for name in ("dilation_w", "dilation_h"):
        if name in attributes:
            attributes[name] = attributes[name] or 1
    layout = "channels last"
    return Operation(operator.kind, tuple(inputs), tuple(outputs), attributes, value, layout)


def constant_value(model: TfliteModel, tensor: FileTensor) -> Array | None:
    """Values of a constant of integers; ``None`` for other tensors, or if not in the file."""
    if tensor.dtype not in ("int32", "int64") or not tensor.data_bytes:
        return None
    start, count = model.buffer_span(tensor.buffer)
    dtype = np.dtype(tensor.dtype).newbyteorder("<")
    return np.frombuffer(model.data[start : start + count], dtype)


def rules() -> dict[str, Rule]:
    """Rule of every kind that can run in pieces: TFLite has operators that compute them."""
    return {
        **dict.fromkeys(ELEMENT_WISE, element_wise),
        **dict.fromkeys(("SOFTMAX", "LOG_SOFTMAX", "L2_NORMALIZATION"), partial(alike, but=(-1,))),
        **dict.fromkeys(("AVERAGE_POOL_2D", "L2_POOL_2D", "MAX_POOL_2D"), _pool),
        **dict.fromkeys(("RESHAPE", "SQUEEZE", "EXPAND_DIMS"), reshape_axes),
        **dict.fromkeys(
            ("MEAN", "REDUCE_ALL", "REDUCE_ANY", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "SUM"),
            _reduce,
        ),
        "BATCH_MATMUL": _exact(_batch_matmul, 0, rows=True),
        "CONCATENATION": lambda op: concat_axes(op, _axis(op, len(shape_of(op.output)))),
        "CONV_2D": _exact(_convolution, 0),
        "DEPTHWISE_CONV_2D": _exact(_depthwise, 0),
        "DEPTH_TO_SPACE": lambda op: block_axes(op, op.attributes["block_size"], deeper=False),
        "FULLY_CONNECTED": _exact(_fully_connected, 0, rows=True),
        "GATHER": _gather,
        "MIRROR_PAD": partial(_pad, constant=False),
        "PACK": lambda op: stack_axes(op, _axis(op, len(shape_of(op.output)))),
        "PAD": _pad,
        "PADV2": _pad,
        "RESIZE_BILINEAR": _resize,
        "RESIZE_NEAREST_NEIGHBOR": _resize,
        "SLICE": _slice,
        "SPLIT": lambda op: _split(op, op.input(1), known_integers(op, 0)),
        "SPLIT_V": lambda op: _split(op, op.input(), known_integers(op, 2)),
        "SPACE_TO_DEPTH": lambda op: block_axes(op, op.attributes["block_size"], deeper=True),
        "STRIDED_SLICE": _slice,
        "UNPACK": lambda op: stack_axes(op, _axis(op, len(op.shape()))),
        "TRANSPOSE": lambda op: transpose_axes(op, known_integers(op, 1)),
        "TRANSPOSE_CONV": _exact(_transposed, 2),
    }


def known_integers(operation: Operation, number: int) -> list[int]:
    """Integers that a constant input holds."""
    found = operation.integers(number)
    if found is None:
        raise NoAxes
    return found


def _axis(operation: Operation, rank: int) -> int:
    return checked_axis(operation.attributes["axis"], rank)


def slides_of(operation: Operation) -> list[Slide]:
    """Windows of a convolution or pool along rows and columns, with the operator's padding."""
    given = operation.attributes
    if "filter_height" in given:
        taps: Sequence[int] = (given["filter_height"], given["filter_width"])
    else:
        taps = operation.shape(1)[1:3]
    places, extents = shape_of(operation.output), operation.shape()
    slides = []
    for axis, (letter, count) in enumerate(zip("hw", taps, strict=True), 1):
        slide = Slide(count, given[f"stride_{letter}"], given.get(f"dilation_{letter}", 1))
        if given["padding"] == SAME:
            before = same_padding(extents[axis], places[axis], slide)
            slide = Slide(count, slide.stride, slide.dilation, before)
        slides.append(slide)
    return slides


def _exact(rule: Rule, image: int, *, rows: bool = False) -> Rule:
    """The rule's axes along which pieces compute the same, for input ``image``.

    Kernels of floats with weights of integers ("hybrid") quantize each sample of the image, or each
    of its ``rows``, by its own greatest element, which a part may lack. Weights of one channel have
    one scale, as those of one scale for all, for which there are other kernels.
    """

    def exact(operation: Operation) -> Iterator[Axis]:
        read, weights = operation.input(image), operation.input(1)
        hybrid = "float" in (read.dtype or "") and "float" not in (weights.dtype or "float")
        for axis in rule(operation):
            window = axis.window.get(read.name)
            whole = window is None or window.axis == 0 or rows
            if not hybrid or (whole and weights.name not in axis.window):
                yield axis

    return exact


def _convolution(operation: Operation) -> Iterator[Axis]:
    image, weights = operation.input(), operation.input(1)
    shape = shape_of(weights)
    yield from slide_axes(operation, image, slides_of(operation), 1)
    bias = operation.input(2) if operation.has(2) else None
    groups = shape_of(image)[3] // shape[3]
    yield from channel_axes(operation, image, (weights, 0), [bias], groups=groups)


def _depthwise(operation: Operation) -> Iterator[Axis]:
    image, weights = operation.input(), operation.input(1)
    yield from slide_axes(operation, image, slides_of(operation), 1)
    bias = operation.input(2) if operation.has(2) else None
    channels = shape_of(image)[3]
    if channels > 1:
        yield from channel_axes(operation, image, (weights, 3), [bias], groups=channels)


def transposed_slides(operation: Operation) -> list[Slide]:
    """Windows of a transposed convolution along rows and columns."""
    given, shape = operation.attributes, shape_of(operation.input(1))
    extents, slides = shape_of(operation.input(2)), []
    for axis, letter in enumerate("hw", 1):
        stride, taps = given[f"stride_{letter}"], shape[axis]
        total = max(0, (extents[axis] - 1) * stride + taps - shape_of(operation.output)[axis])
        before = total // 2 if given["padding"] == SAME else 0
        slides.append(Slide(taps, stride, 1, before))
    return slides


def _transposed(operation: Operation) -> Iterator[Axis]:
    weights, image = operation.input(1), operation.input(2)
    slides, places = transposed_slides(operation), shape_of(operation.output)[1:]
    reach = (
        (extent - 1) * slide.stride + slide.taps - slide.before
        for extent, slide in zip(shape_of(image)[1:], slides, strict=False)
    )
    if all(place <= end for place, end in zip(places, reach, strict=False)):
        yield from transposed_axes(operation, image, slides, 1)
    bias = operation.input(3) if operation.has(3) else None
    yield from channel_axes(operation, image, (weights, 0), [bias], groups=1)


def _pool(operation: Operation) -> Iterator[Axis]:
    """Axes of a pool; an average counts no padding, which operators of its pieces cannot say."""
    image, slides = operation.input(), slides_of(operation)
    padded = {
        name
        for name, slide, places, extent in zip(
            ("rows", "columns"),
            slides,
            shape_of(operation.output)[1:3],
            operation.shape()[1:3],
            strict=True,
        )
        if slide.before or (places - 1) * slide.stride + slide.reach > extent
    }
    for axis in slide_axes(operation, image, slides, 1):
        if operation.kind == "MAX_POOL_2D" or axis.name not in padded:
            yield axis
    yield same("channels", operation.shape()[3], [(image, 3), (operation.output, 3)])


def _fully_connected(operation: Operation) -> Iterator[Axis]:
    image, weights, output = operation.input(), operation.input(1), operation.output
    if operation.attributes["weights_format"] or len(shape_of(weights)) != 2:
        raise NoAxes
    shape, read = shape_of(output), shape_of(image)
    *outer, last = operation.names(len(shape))
    if read[-1:] == shape_of(weights)[1:] and len(read) == len(shape):
        for axis, name in enumerate(outer):
            yield same(name, shape[axis], [(image, axis), (output, axis)])
    channels = [(weights, 0), (output, len(shape) - 1)]
    if operation.has(2):
        channels.append((operation.input(2), 0))
    yield same(last, shape[-1], channels)


def _batch_matmul(operation: Operation) -> Iterable[Axis]:
    given = operation.attributes
    transposed = bool(given["adj_x"]), bool(given["adj_y"])
    return matmul_axes(operation, operation.input(0), operation.input(1), transposed=transposed)


def _reduce(operation: Operation) -> Iterable[Axis]:
    keeps = bool(operation.attributes["keep_dims"])
    return reduction_axes(operation, known_integers(operation, 1), keeps=keeps)


def _pad(operation: Operation, *, constant: bool = True) -> Iterable[Axis]:
    return pad_axes(operation, known_integers(operation, 1)[::2], constant=constant)


def _slice(operation: Operation) -> Iterable[Axis]:
    return slice_axes(operation, *slice_steps(operation))


def _split(operation: Operation, image: Tensor, axes: Sequence[int]) -> Iterator[Axis]:
    """All axes but the one along which the operator takes its image apart."""
    axis = checked_axis(axes[0], len(shape_of(image)))
    for found in split_axes(operation, axis, image):
        if found.window[image.name].axis != axis:
            yield found


def slice_steps(operation: Operation) -> tuple[list[int], list[int]]:
    """First positions and steps of a slice, along each axis of its input."""
    if operation.kind == "SLICE":
        starts = known_integers(operation, 1)
        return starts, [1] * len(starts)
    given, shape = operation.attributes, operation.shape()
    starts, steps = known_integers(operation, 1), known_integers(operation, 3)
    masked = ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    if any(given[name] for name in masked) or not len(starts) == len(steps) == len(shape):
        raise NoAxes
    firsts = []
    for axis, (start, step, extent) in enumerate(zip(starts, steps, shape, strict=True)):
        last = extent if step > 0 else extent - 1
        if given["begin_mask"] >> axis & 1:
            firsts.append(0 if step > 0 else last)
        else:
            firsts.append(min(max(start + extent if start < 0 else start, 0), last))
    return firsts, steps


def _gather(operation: Operation) -> list[Axis]:
    if operation.attributes["batch_dims"]:
        raise NoAxes
    return gather_axes(operation, _axis(operation, len(operation.shape())))


def _resize(operation: Operation) -> Iterable[Axis]:
    shape, extents = shape_of(operation.output), operation.shape()
    tables = {axis: _resized(operation, extents[axis], shape[axis]) for axis in (1, 2)}
    return resize_axes(
        operation,
        {
            axis: table if _repeats(operation, extents[axis], shape[axis]) else None
            for axis, table in tables.items()
        },
    )


def _repeats(operation: Operation, extent: int, places: int) -> bool:
    """True if every position of the image is resized alike: its part is, as an image of its own.

    Between positions, kernels compute with fractions that are exact for powers of two only.
    """
    times, rest = divmod(places, extent)
    if rest or (operation.attributes["align_corners"] and times > 1):
        return False
    return operation.kind == "RESIZE_NEAREST_NEIGHBOR" or times & (times - 1) == 0


def _resized(operation: Operation, extent: int, places: int) -> list[tuple[int, int]]:
    """Image positions that each output place reads, by the kernels' own arithmetic."""
    corners = operation.attributes["align_corners"] and places > 1
    half = bool(operation.attributes["half_pixel_centers"])
    span, steps = (extent - 1, places - 1) if corners else (extent, places)
    if operation.kind == "RESIZE_NEAREST_NEIGHBOR":
        scale = _single(span / steps)
        shifted = (_single(_single(k + 0.5 * half) * scale) for k in range(places))
        return nearest([int(at + 0.5) if corners else int(at) for at in shifted], extent)
    if operation.input().dtype in ("int8", "int16"):
        scale_10 = ((1 << 10) * span + steps // 2) // steps
        shift = scale_10 // 2 - (1 << 9) if half else 0
        return between([(k * scale_10 + shift) >> 10 for k in range(places)], extent)
    scale = _single(span / steps)
    shifted = (_single(_single(k + 0.5 * half) * scale) - 0.5 * half for k in range(places))
    return between([int(at // 1) for at in shifted], extent)


def _single(value: float) -> float:
    """The number in single precision."""
    return float(struct.unpack("<f", struct.pack("<f", value))[0])
