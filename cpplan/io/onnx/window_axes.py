"""Axes of ONNX's convolutions and pools, which compute outputs from windows of the input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cpplan.io.axes.operation import NoAxes, Operation, same, shape_of
from cpplan.io.axes.products import reduction_axes
from cpplan.io.axes.windows import (
    Slide,
    channel_axes,
    same_padding,
    slide_axes,
    transposed_axes,
)
from cpplan.io.onnx.operation import SUMMED
from cpplan.model.axes import Axis

# The input that holds a convolution's weights, by its kind.
CONVOLUTIONS = {"Conv": 1, "ConvInteger": 1, "QLinearConv": 3, "com.microsoft.FusedConv": 1}


def window_slides(operation: Operation) -> list[Slide]:
    """Windows of a convolution or pool along spatial axes, with the padding of the node."""
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


def convolution_axes(operation: Operation, vectors: Sequence[int]) -> Iterator[Axis]:
    """Axes of a convolution; ``vectors`` are inputs with one value for each output channel."""
    image, kernel = operation.input(), operation.input(CONVOLUTIONS[operation.kind])
    yield from slide_axes(operation, image, window_slides(operation), 2)
    cut = [operation.input(k) if operation.has(k) else None for k in vectors]
    groups = operation.attributes.get("group", 1)
    adds = operation.output.dtype in SUMMED
    terms = 1 if adds else None
    yield from channel_axes(operation, image, (kernel, 0), cut, groups=groups, terms=terms)


def transposed_convolution_axes(operation: Operation) -> Iterator[Axis]:
    """Axes of a transposed convolution; with groups, it is not cut along its channels."""
    image, kernel = operation.input(), operation.input(1)
    yield from transposed_axes(operation, image, transposed_slides(operation), 2)
    bias = operation.input(2) if operation.has(2) else None
    if operation.attributes.get("group", 1) == 1:
        yield from channel_axes(operation, image, (kernel, 1), [bias], groups=1)


def transposed_slides(operation: Operation) -> list[Slide]:
    """Windows of a transposed convolution, with the positions cut off in front of its output."""
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


def pool_axes(operation: Operation) -> Iterator[Axis]:
    """Axes of a pool: its channels, and its spatial axes by windows."""
    image, given = operation.input(), operation.attributes
    slides = window_slides(operation)
    output = operation.output
    yield same("channels", operation.shape()[1], [(image, 1), (output, 1)])
    found = list(slide_axes(operation, image, slides, 2))
    if operation.kind.endswith("AveragePool") and given.get("count_include_pad"):
        # A window may reach beyond the padding, where elements do not count: no padding expresses
        # that.
        pads = given.get("pads") or [0] * 2 * len(slides)
        for k, slide in enumerate(slides):
            past = (shape_of(output)[2 + k] - 1) * slide.stride - slide.before + slide.reach
            if past > operation.shape()[2 + k] + pads[len(slides) + k]:
                return
    yield from found


def global_pool_axes(operation: Operation) -> Iterator[Axis]:
    """Axes of a pool over whole images: batch and channels."""
    shape = operation.shape()
    return reduction_axes(operation, range(2, len(shape)), keeps=True)
