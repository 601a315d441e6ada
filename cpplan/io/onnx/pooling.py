"""Pooling kernels that compute all windows at once, and those that ``onnx`` does not have.

The reference kernels take one window at a time, and in image classifiers most of their time goes
into pooling. Execution compares two runs of one kernel, so any correct kernel will do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cpplan.io.onnx.bytes import Array

if TYPE_CHECKING:
    import onnx

Pooling = Callable[[Sequence["Array | None"]], "list[Array] | None"]

_FLOATS = ("float32", "float64")


def make_pooling(node: onnx.NodeProto) -> Pooling | None:
    """A kernel for ``MaxPool``, ``AveragePool`` and some other pools; else ``None``.

    The others are ``GlobalMaxPool``, of which the reference kernel is wrong unless images have two
    axes, and ``GlobalLpPool`` and ``MaxRoiPool``, of which there are no reference kernels. Those of
    ``MaxPool`` are wrong for integers, and for indices in more than one channel.

    The kernel takes a list of inputs: images of shape ``(n, channels, *extents)``, and boxes for
    ``MaxRoiPool``. It returns ``None`` for what the reference kernel must handle: averages whose
    number of windows is rounded up, or of elements that are not floating point of 32 or 64 bits;
    paddings not smaller than the window; and images smaller than the window. Averages may differ
    from the reference kernel's in the last bits, since elements are added in another order.
    """
    import onnx

    if node.domain:
        return None
    given: dict[str, Any] = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    if node.op_type == "GlobalMaxPool":
        return lambda inputs: _of_image(np.max, inputs)
    if node.op_type == "GlobalLpPool":
        p = given.get("p", 2)
        return lambda inputs: _of_image(lambda x, **of: (abs(x) ** p).sum(**of) ** (1 / p), inputs)
    if node.op_type == "MaxRoiPool":
        return lambda inputs: _pool_boxes(given, inputs)
    if node.op_type not in ("MaxPool", "AveragePool"):
        return None
    places = len(node.output) > 1 and bool(node.output[1])

    def pool(inputs: Sequence[Array | None]) -> list[Array] | None:
        (images,) = inputs
        assert images is not None
        windows = _Windows.of(given, images.shape[2:])
        if windows is None:
            return None
        if node.op_type == "AveragePool":
            return None if given.get("ceil_mode") else _averages(given, windows, images)
        return _greatest(windows, images, by_column=given.get("storage_order", 0), places=places)

    return pool


class _Windows:
    """Places of a window on images."""

    def __init__(
        self,
        window: Sequence[int],
        strides: Sequence[int],
        dilations: Sequence[int],
        pads: Sequence[tuple[int, int]],
    ):
        self.window, self.strides, self.dilations = window, strides, dilations
        self.margins = ((0, 0), (0, 0), *pads)

    @classmethod
    def of(cls, given: dict[str, Any], extents: Sequence[int]) -> _Windows | None:
        """Windows of a node; ``None`` if they do not fit images of these extents."""
        window, rank = given.get("kernel_shape", []), len(extents)
        strides = given.get("strides", [1] * rank)
        dilations = given.get("dilations", [1] * rank)
        if not rank == len(window) == len(strides) == len(dilations):
            return None
        reach = [(width - 1) * step + 1 for width, step in zip(window, dilations, strict=True)]
        pads = _padding(given, extents, strides, reach)
        if len(pads) != rank:
            return None
        made = []
        for (before, after), extent, width, stride in zip(
            pads, extents, reach, strides, strict=True
        ):
            padded = before + extent + after
            if not 0 <= before < width or not 0 <= after < width or padded < width:
                return None
            if given.get("ceil_mode"):
                after += _missing(padded, before + extent, width, stride)
            made.append((before, after))
        return cls(window, strides, dilations, made)

    def under(self, padded: Array) -> Iterator[Array]:
        """For each element of the window, the elements of padded images under it, at all places."""
        for corner in np.ndindex(*self.window):
            found = padded
            for axis, first in enumerate(corner):
                step, stride = self.dilations[axis], self.strides[axis]
                reach = (self.window[axis] - 1) * step
                found = found[
                    (slice(None),) * (2 + axis)
                    + (slice(first * step, padded.shape[2 + axis] - reach + first * step, stride),)
                ]
            yield found


def _padding(
    given: dict[str, Any], extents: Sequence[int], strides: Sequence[int], reach: Sequence[int]
) -> list[tuple[int, int]]:
    """Elements before and after each axis of the images."""
    rank, auto = len(extents), given.get("auto_pad", b"NOTSET")
    if auto in (b"NOTSET", b""):
        pads = given.get("pads", [0] * 2 * rank)
        return list(zip(pads[: len(pads) // 2], pads[len(pads) // 2 :], strict=True))
    if auto == b"VALID":
        return [(0, 0)] * rank
    found = []
    for extent, stride, width in zip(extents, strides, reach, strict=True):
        total = max(0, (-(-extent // stride) - 1) * stride + width - extent)
        less, more = total // 2, total - total // 2
        found.append((less, more) if auto == b"SAME_UPPER" else (more, less))
    return found


def _missing(extent: int, end: int, width: int, stride: int) -> int:
    """Elements that a last window lacks at an axis; it must start before the padding at ``end``."""
    start = -(-(extent - width) // stride) * stride
    return max(0, start + width - extent) if start < end else 0


def _averages(given: dict[str, Any], windows: _Windows, images: Array) -> list[Array] | None:
    if images.dtype.name not in _FLOATS:
        return None
    counted = np.ones((1, 1, *images.shape[2:]), images.dtype)
    weight = np.pad(counted, windows.margins, constant_values=given.get("count_include_pad", 0))
    total = _combined(np.add, windows.under(np.pad(images, windows.margins)))
    return [total / _combined(np.add, windows.under(weight))]


def _combined(function: np.ufunc, parts: Iterator[Array]) -> Array:
    found: Array = next(parts).copy()
    for part in parts:
        function(found, part, out=found)
    return found


def _greatest(windows: _Windows, images: Array, *, by_column: bool, places: bool) -> list[Array]:
    """The greatest under each place and, if asked for, its first place in the images."""
    low = np.iinfo(images.dtype).min if images.dtype.kind in "iu" else -np.inf
    padded = np.pad(images, windows.margins, constant_values=low)
    if not places:
        return [_combined(np.maximum, windows.under(padded))]
    order = (0, 1, *range(images.ndim - 1, 1, -1)) if by_column else range(images.ndim)
    numbers = np.arange(images.size).reshape([images.shape[k] for k in order]).transpose(order)
    apart = np.pad(numbers, windows.margins, constant_values=-1)
    best, where = None, None
    for under, number in zip(windows.under(padded), windows.under(apart), strict=True):
        if best is None or where is None:
            best, where = under.copy(), number.copy()
            continue
        better = (number >= 0) & ((where < 0) | (under > best))
        best[better], where[better] = under[better], number[better]
    assert best is not None
    assert where is not None
    return [best, where]


def _of_image(function: Callable[..., Array], inputs: Sequence[Array | None]) -> list[Array]:
    """A number for each channel, shape ``(n, channels, 1, …)``."""
    (images,) = inputs
    assert images is not None
    found = function(images, axis=tuple(range(2, images.ndim)), keepdims=True)
    return [found.astype(images.dtype)]


def _pool_boxes(given: dict[str, Any], inputs: Sequence[Array | None]) -> list[Array]:
    """The greatest of each part of each box, shape ``(boxes, channels, rows, columns)``.

    Boxes are rounded to whole elements, both ends included, and divided into parts that may share
    elements (R. Girshick, Fast R-CNN, 2015).
    """
    images, boxes = inputs
    assert images is not None
    assert boxes is not None
    parts, scale = given["pooled_shape"], given.get("spatial_scale", 1.0)
    found = np.zeros((len(boxes), images.shape[1], *parts), images.dtype)
    for number, (image, left, top, right, bottom) in enumerate(boxes):
        spans = []
        for low, high, count, extent in (
            (top, bottom, parts[0], images.shape[2]),
            (left, right, parts[1], images.shape[3]),
        ):
            begin, end = (math.floor(each * scale + 0.5) for each in (low, high))
            width = max(end - begin + 1, 1) / count
            ends = [
                (math.floor(k * width) + begin, math.ceil((k + 1) * width) + begin)
                for k in range(count)
            ]
            spans.append([slice(*(min(max(e, 0), extent) for e in pair)) for pair in ends])
        for row, rows in enumerate(spans[0]):
            for column, columns in enumerate(spans[1]):
                under = images[int(image), :, rows, columns]
                if under.size:
                    found[number, :, row, column] = under.max(axis=(1, 2))
    return [found]
