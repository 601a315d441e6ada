"""Convolutions and matrix products that add up in the same order for all shapes.

Libraries of linear algebra choose the order of a sum by the shapes of the operands, so that a piece
would round differently from the whole. Here products are formed and added by element-wise
operations, taps and channels one after another: a piece of a float result equals the same part of
the whole, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cpplan.io.onnx.bytes import Array

if TYPE_CHECKING:
    import onnx

Ordered = Callable[..., "Array | None"]
_FLOATS = ("float32", "float64")


def make_ordered(node: onnx.NodeProto) -> Ordered | None:
    """A kernel of a node that adds up in one fixed order; ``None`` for other kinds of node.

    The function takes the inputs and optionally a sum to add to instead of the bias; it changes
    neither. It returns ``None`` for elements that are not floating point of 32 or 64 bits, and if
    padding is not given in numbers.
    """
    import onnx

    rule = None if node.domain else _RULES.get(node.op_type)
    if rule is None:
        return None
    given = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}

    def run(inputs: Sequence[Array | None], start: Array | None = None) -> Array | None:
        if any(a is not None and a.dtype not in _FLOATS for a in inputs):
            return None
        return rule(given, inputs, start)

    return run


def _product(left: Array, right: Array, start: Array | None) -> Array:
    """The product of matrices, or of stacks of them, added to a start."""
    stacks = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    result = np.zeros((*stacks, left.shape[-2], right.shape[-1]), left.dtype)
    result += 0 if start is None else start
    for k in range(left.shape[-1]):
        result += left[..., :, k : k + 1] * right[..., k : k + 1, :]
    return result


def _matmul(
    given: Mapping[str, Any], inputs: Sequence[Array | None], start: Array | None
) -> Array | None:
    left, right = inputs
    assert left is not None
    assert right is not None
    return _product(left, right, start) if min(left.ndim, right.ndim) > 1 else None


def _gemm(
    given: Mapping[str, Any], inputs: Sequence[Array | None], start: Array | None
) -> Array | None:
    left, right, *rest = inputs
    assert left is not None
    assert right is not None
    left = left.T if given.get("transA") else left
    right = right.T if given.get("transB") else right
    if start is None and rest and rest[0] is not None:
        start = left.dtype.type(given.get("beta", 1.0)) * rest[0]
    return _product(left.dtype.type(given.get("alpha", 1.0)) * left, right, start)


def _geometry(given: Mapping[str, Any], rank: int) -> tuple[list[int], list[int], list[int]] | None:
    if given.get("auto_pad", b"NOTSET") != b"NOTSET":
        return None
    strides = list(given.get("strides") or [1] * rank)
    dilations = list(given.get("dilations") or [1] * rank)
    return strides, dilations, list(given.get("pads") or [0] * 2 * rank)


def _convolution(
    given: Mapping[str, Any], inputs: Sequence[Array | None], start: Array | None
) -> Array | None:
    image, weights, *rest = inputs
    assert image is not None
    assert weights is not None
    rank = image.ndim - 2
    geometry = _geometry(given, rank)
    if geometry is None:
        return None
    strides, dilations, pads = geometry
    groups = given.get("group", 1)
    around = [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)]
    image = np.pad(image, around)
    image = image.reshape(image.shape[0], groups, image.shape[1] // groups, *image.shape[2:])
    taps = weights.shape[2:]
    weights = weights.reshape(groups, weights.shape[0] // groups, *weights.shape[1:])
    places = [
        (extent - (count - 1) * dilation - 1) // stride + 1
        for extent, count, dilation, stride in zip(
            image.shape[3:], taps, dilations, strides, strict=True
        )
    ]
    shape = (image.shape[0], *weights.shape[:2], *places)
    result = np.zeros(shape, image.dtype)
    flat = (1,) * rank
    if start is not None:
        result += start.reshape(shape)
    elif rest and rest[0] is not None:
        result += rest[0].reshape(1, *shape[1:3], *flat)
    corners = list(np.ndindex(*taps))
    under = []
    for corner in corners:
        seen = image
        for axis in range(rank):
            first = corner[axis] * dilations[axis]
            steps = slice(first, first + strides[axis] * places[axis], strides[axis])
            seen = seen[(slice(None),) * (3 + axis) + (steps,)]
        under.append(seen)
    for channel in range(image.shape[2]):
        for corner, seen in zip(corners, under, strict=True):
            place = (slice(None), slice(None), channel, *corner)
            tap = weights[place]
            result += tap.reshape(1, *tap.shape, *flat) * seen[:, :, channel, None]
    return result.reshape(shape[0], -1, *places)


_RULES: Mapping[str, Callable[..., Array | None]] = {
    "Conv": _convolution,
    "Gemm": _gemm,
    "MatMul": _matmul,
}
