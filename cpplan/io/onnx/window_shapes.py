"""Symbolic shapes of ONNX's convolutions, poolings and resizings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from cpplan.io.onnx.facts import Call, Extent, Lost, Shape, checked_axis
from cpplan.model.shapes import ceildiv

# Largest denominator of a scale: its product with an extent below 2**24 is exact in single
# precision.
_EXACT = 2**8
_INPUTS = {"QLinearConv": 3}


def convolution(call: Call) -> list[Shape]:
    """Conv and its quantized forms: images of shape ``(n, channels, *extents)``."""
    weight = call.shape(_INPUTS.get(call.node.op_type, 1))
    kernel = call.attributes.get("kernel_shape", weight[2:])
    return [(call.shape()[0], weight[0], *_windows(call, kernel))]


def pooling(call: Call) -> list[Shape]:
    """MaxPool, AveragePool and LpPool: indices have the shape of the maxima."""
    kernel = call.attributes.get("kernel_shape")
    if kernel is None:
        raise Lost("it has no kernel_shape")
    shape = (*call.shape()[:2], *_windows(call, kernel))
    return [shape] * len(call.node.output)


def global_pooling(call: Call) -> list[Shape]:
    """Global poolings: one element for each channel."""
    image = call.shape()
    return [(*image[:2], *(1 for _ in image[2:]))]


def transposed_convolution(call: Call) -> list[Shape]:
    """ConvTranspose: by the formula of its specification."""
    image, weight = call.shape(), call.shape(1)
    rank = len(image) - 2
    channels = weight[1] * call.attributes.get("group", 1)
    fixed = call.attributes.get("output_shape")
    if fixed is not None:
        if len(fixed) != rank:
            raise Lost("its output_shape does not have one extent for each axis of the image")
        return [(image[0], channels, *fixed)]
    kernel = call.attributes.get("kernel_shape", weight[2:])
    strides, dilations, pads = _geometry(call, rank)
    added = call.attributes.get("output_padding", [0] * rank)
    auto = call.attributes.get("auto_pad", "NOTSET")
    extents: list[Extent] = []
    for k in range(rank):
        if auto.startswith("SAME"):
            extents.append(image[2 + k] * strides[k])
            continue
        width = (kernel[k] - 1) * dilations[k] + 1
        cut = pads[k] + pads[rank + k] if auto == "NOTSET" else 0
        extents.append(strides[k] * (image[2 + k] - 1) + added[k] + width - cut)
    return [(image[0], channels, *extents)]


def _windows(call: Call, kernel: Sequence[Extent]) -> list[Extent]:
    """Number of places for the window along each axis of the image."""
    image = call.shape()
    rank = len(image) - 2
    if len(kernel) != rank:
        raise Lost(f"a window of {len(kernel)} axes for an image of {rank}")
    strides, dilations, pads = _geometry(call, rank)
    auto = call.attributes.get("auto_pad", "NOTSET")
    round_up = call.attributes.get("ceil_mode", 0)
    places: list[Extent] = []
    for k in range(rank):
        extent, width = image[2 + k], (kernel[k] - 1) * dilations[k] + 1
        if auto.startswith("SAME"):
            places.append(ceildiv(extent, strides[k]))
            continue
        before, after = (pads[k], pads[rank + k]) if auto == "NOTSET" else (0, 0)
        if round_up:
            reach = after + strides[k] - width
            if call.opset >= 22 and not call.at_least(0, reach):
                reach = 0  # a window that begins in the padding after the image is left out
            places.append(ceildiv(extent + before + reach, strides[k]))
        else:
            places.append((extent + (before + after) - width) // strides[k] + 1)
    return places


def _geometry(call: Call, rank: int) -> tuple[list[int], list[int], list[int]]:
    strides = call.attributes.get("strides", [1] * rank)
    dilations = call.attributes.get("dilations", [1] * rank)
    pads = call.attributes.get("pads", [0] * 2 * rank)
    if not len(strides) == len(dilations) == rank or len(pads) != 2 * rank or 0 in strides:
        raise Lost("its strides, dilations and pads do not fit the image")
    return strides, dilations, pads


def resize(call: Call) -> list[Shape]:
    """Resize and Upsample: the given sizes, or each extent times its scale, rounded down."""
    image, opset = call.shape(), call.opset
    if opset >= 11 and call.has(3):
        if call.attributes.get("keep_aspect_ratio_policy", "stretch") != "stretch":
            raise Lost("its extents depend on the aspect ratio")
        asked: Sequence[Extent | Fraction] = call.numbers(3)
    else:
        asked = _scales(call)
    axes = [checked_axis(a, len(image)) for a in call.attributes.get("axes", range(len(image)))]
    if len(axes) != len(asked):
        raise Lost("it has not as many scales or sizes as axes")
    result = list(image)
    for axis, given in zip(axes, asked, strict=True):
        extent = image[axis]
        if not isinstance(given, Fraction):
            result[axis] = given
        elif isinstance(extent, int):
            result[axis] = math.floor(extent * given)
        elif given.denominator <= _EXACT and given.numerator < 2**16:
            result[axis] = extent * given.numerator // given.denominator
        else:
            raise Lost(f"the scale {float(given)} of an extent that varies is not exact")
    return [tuple(result)]


def _scales(call: Call) -> list[Fraction]:
    listed = call.attributes.get("scales")
    if listed is None:
        k = 2 if call.node.op_type == "Resize" and call.opset >= 11 else 1
        data = call.fact(k).data
        if data is None or data.dtype.kind != "f":
            raise Lost("its scales are not known")
        listed = data.reshape(-1).tolist()
    if not all(math.isfinite(scale) and scale > 0 for scale in listed):
        raise Lost("its scales are not positive numbers")
    return [Fraction(scale) for scale in listed]


def unpooling(call: Call) -> list[Shape]:
    """MaxUnpool: the given extents, or the extents that the window was moved over."""
    image = call.shape()
    if call.has(2):
        return [tuple(call.numbers(2))]
    rank = len(image) - 2
    strides, _, pads = _geometry(call, rank)
    kernel = call.attributes["kernel_shape"]
    extents = (
        (image[2 + k] - 1) * strides[k] + kernel[k] - pads[k] - pads[rank + k] for k in range(rank)
    )
    return [(*image[:2], *extents)]


def regions(call: Call) -> list[Shape]:
    """MaxRoiPool and RoiAlign: one output image for each region."""
    if call.node.op_type == "MaxRoiPool":
        height, width = call.attributes["pooled_shape"]
    else:
        height, width = (call.attributes.get(f"output_{side}", 1) for side in ("height", "width"))
    return [(call.shape(1)[0], call.shape()[1], height, width)]


def sampled_grid(call: Call) -> list[Shape]:
    """GridSample: the grid's extents."""
    return [(*call.shape()[:2], *call.shape(1)[1:-1])]


def blocks(call: Call) -> list[Shape]:
    """DepthToSpace and SpaceToDepth: channels traded for rows and columns."""
    count, channels, height, width = call.shape()
    side = call.attributes["blocksize"]
    if call.node.op_type == "DepthToSpace":
        return [(count, channels // side**2, height * side, width * side)]
    return [(count, channels * side**2, height // side, width // side)]


def columns_to_image(call: Call) -> list[Shape]:
    """Col2Im: the given image, with as many channels as there are blocks in a column."""
    count, channels, _ = call.shape()
    block = math.prod(call.numbers(2))
    if not call.at_least(block, 1):
        raise Lost(f"its block has {block} elements")
    return [(count, channels // block, *call.numbers(1))]


def fourier(call: Call) -> list[Shape]:
    """DFT: the given length or the axis's, halved if one side is asked for; pairs of numbers."""
    if call.attributes.get("inverse") and call.attributes.get("onesided"):
        raise Lost("it inverts one side")
    result = list(call.shape())
    axis = call.axis(1, len(result))
    if call.opset >= 20:
        axis = checked_axis((call.integers("axis", 2) or (-2,))[0], len(result))
    result[axis] = _bins(call, call.numbers(1)[0] if call.has(1) else result[axis], 0)
    return [(*result[:-1], 2)]


def short_fourier(call: Call) -> list[Shape]:
    """STFT: one transform for each position of the window, of pairs of numbers."""
    length = call.numbers(3)[0] if call.has(3) else call.shape(2)[0]
    (step,) = call.numbers(1)
    if not call.at_least(step, 1):
        raise Lost(f"its step {step} may be zero")
    frames = (call.shape()[1] - length) // step + 1
    return [(call.shape()[0], frames, _bins(call, length, 1), 2)]


def _bins(call: Call, length: Extent, default: int) -> Extent:
    return length // 2 + 1 if call.attributes.get("onesided", default) else length


def affine_grid(call: Call) -> list[Shape]:
    """AffineGrid: a point for each position of the given image."""
    size = call.numbers(1)
    return [(*size[:1], *size[2:], len(size) - 2)]


def window_function(call: Call) -> list[Shape]:
    """BlackmanWindow, HammingWindow and HannWindow: the given length."""
    return [tuple(call.numbers(0))]
