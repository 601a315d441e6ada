"""Pooling kernels that compute all windows at once.

The reference kernels take one window at a time, and in image classifiers most of their time goes
into pooling. Execution compares two runs of one kernel, so any correct kernel will do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cpplan.io.onnx.bytes import Array

if TYPE_CHECKING:
    import onnx

Pooling = Callable[[Array], "Array | None"]

_FLOATS = ("float32", "float64")


def make_pooling(node: onnx.NodeProto) -> Pooling | None:
    """A kernel for ``GlobalMaxPool``, plain ``MaxPool`` and ``AveragePool``; else ``None``.

    The reference kernel of ``GlobalMaxPool`` is wrong unless images have two axes.

    A pool is plain if it has one output, explicit paddings smaller than the window and no dilation;
    of pools that round their number of windows up, ``MaxPool`` alone is. The kernel takes images of
    shape ``(n, channels, *extents)``. It returns ``None`` for images that the reference kernel must
    handle: not floating point of 32 or 64 bits, or smaller than the window. Averages may differ
    from the reference kernel's in the last bits, since elements are added in another order.

    Examples
    --------
    >>> from onnx.helper import make_node
    >>> pool = make_pooling(make_node("MaxPool", ["x"], ["y"], kernel_shape=[2], pads=[1, 0]))
    >>> pool(np.array([[[3.0, 1.0, 2.0]]])).tolist()
    [[[3.0, 3.0, 2.0]]]
    """
    import onnx

    if node.domain not in ("", "ai.onnx"):
        return None
    if node.op_type == "GlobalMaxPool":
        return _pool_all
    if node.op_type not in ("MaxPool", "AveragePool"):
        return None
    given: dict[str, Any] = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    window: list[int] = given.get("kernel_shape", [])
    strides: list[int] = given.get("strides", [1] * len(window))
    pads: list[int] = given.get("pads", [0] * 2 * len(window))
    up = bool(given.get("ceil_mode", 0))
    as_given = given.get("auto_pad", b"NOTSET") == b"NOTSET"
    as_given &= not up or node.op_type == "MaxPool"
    dilated = any(step != 1 for step in given.get("dilations", []))
    if not as_given or dilated or sum(map(bool, node.output)) != 1:
        return None
    if len(strides) != len(window) or len(pads) != 2 * len(window):
        return None
    if not all(0 <= pad < extent for pad, extent in zip(pads, window * 2, strict=True)):
        return None
    margins = ((0, 0), (0, 0), *zip(pads[: len(window)], pads[len(window) :], strict=True))

    def pool(images: Array) -> Array | None:
        if images.dtype.name not in _FLOATS or images.ndim != len(window) + 2:
            return None
        if node.op_type == "MaxPool":
            padded = np.pad(images, margins, constant_values=-np.inf)
            if up and all(map(int.__ge__, padded.shape[2:], window)):
                ends = (images.shape[2 + k] + margins[2 + k][0] for k in range(len(window)))
                more = map(_missing, padded.shape[2:], ends, window, strides)
                rest = ((0, 0), (0, 0), *((0, width) for width in more))
                padded = np.pad(padded, rest, constant_values=-np.inf)
            return _combine(np.maximum, padded, window, strides)
        total = _combine(np.add, np.pad(images, margins), window, strides)
        counted = np.ones((1, 1, *images.shape[2:]), images.dtype)
        weight = np.pad(counted, margins, constant_values=given.get("count_include_pad", 0))
        count = _combine(np.add, weight, window, strides)
        return None if total is None or count is None else total / count

    return pool


def _missing(extent: int, end: int, width: int, stride: int) -> int:
    """Elements that a last window lacks at an axis; it must start before the padding at ``end``.

    Examples
    --------
    >>> _missing(6, 6, 3, 2), _missing(7, 7, 3, 2), _missing(5, 4, 2, 4)
    (1, 0, 0)
    """
    start = -(-(extent - width) // stride) * stride
    return max(0, start + width - extent) if start < end else 0


def _pool_all(images: Array) -> Array:
    """The greatest of each channel, shape ``(n, channels, 1, …)``."""
    greatest: Array = images.max(axis=tuple(range(2, images.ndim)), keepdims=True)
    return greatest


def _combine(
    function: np.ufunc, images: Array, window: Sequence[int], strides: Sequence[int]
) -> Array | None:
    """Elements under each place of the window, combined, shape ``(n, channels, *places)``."""
    places = [
        (extent - width) // stride + 1
        for extent, width, stride in zip(images.shape[2:], window, strides, strict=True)
    ]
    if min(places) < 1:
        return None
    found: Array | None = None
    for corner in np.ndindex(*window):
        under = images
        for axis, (first, stride, count) in enumerate(zip(corner, strides, places, strict=True)):
            steps = slice(first, first + stride * count, stride)
            under = under[(slice(None),) * (2 + axis) + (steps,)]
        found = under.copy() if found is None else function(found, under, out=found)
    return found
