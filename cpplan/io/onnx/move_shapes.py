"""Symbolic shapes of ONNX's operators that cut, join, transpose, repeat and view tensors.

The interval that a slice takes of an axis whose extent is an expression.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cpplan.io.onnx.facts import Call, Extent, Lost, Shape, broadcast, checked_axis
from cpplan.model.shapes import ceildiv, divide_exactly


def concat(call: Call) -> list[Shape]:
    """Concat: extents along the axis add up."""
    shapes = [call.shape(k) for k in range(len(call.inputs))]
    rank = len(shapes[0])
    axis = call.axis(1, rank)
    if any(len(shape) != rank for shape in shapes):
        raise Lost("its inputs have not as many axes as each other")
    result = [
        next((shape[k] for shape in shapes if isinstance(shape[k], int)), shapes[0][k])
        for k in range(rank)
    ]
    total: Extent = 0
    for shape in shapes:
        total = total + shape[axis]
    result[axis] = total
    return [tuple(result)]


def split(call: Call) -> list[Shape]:
    """Split: parts as listed, or of equal extent; the last one is smaller if there is a rest."""
    shape, parts = call.shape(), len(call.node.output)
    axis = call.axis(0, len(shape))
    if "split" in call.attributes:
        extents: Sequence[Extent] = call.attributes["split"]
    elif call.has(1):
        extents = call.numbers(1)
    elif "num_outputs" in call.attributes:
        each = ceildiv(shape[axis], parts)
        extents = [each] * (parts - 1) + [shape[axis] - each * (parts - 1)]
    else:
        extents = [shape[axis] // parts] * parts
    return [(*shape[:axis], extent, *shape[axis + 1 :]) for extent in extents]


def slice_(call: Call) -> list[Shape]:
    """Slice: starts, ends, axes and steps are attributes or, since opset 10, inputs."""
    extents = list(call.shape())
    for axis, (_, count) in slice_intervals(call).items():
        extents[axis] = count
    return [tuple(extents)]


def slice_intervals(call: Call) -> dict[int, tuple[Extent, Extent]]:
    """Axis -> the first element that a Slice takes along it, and the number of elements."""
    shape, given = call.shape(), call.attributes
    starts = given["starts"] if "starts" in given else call.numbers(1)
    ends = given["ends"] if "ends" in given else call.numbers(2)
    axes = call.integers("axes", 3, range(len(starts)))
    steps = call.integers("steps", 4, [1] * len(starts))
    assert axes is not None
    assert steps is not None
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise Lost("it has not as many starts as ends, axes and steps")
    taken = {}
    for axis, begin, end, step in zip(axes, starts, ends, steps, strict=True):
        k = checked_axis(axis, len(shape))
        taken[k] = slice_interval(call, shape[k], begin, end, step)
    return taken


def gather(call: Call) -> list[Shape]:
    """Gather: the axis is replaced by the axes of the indices."""
    shape = call.shape()
    axis = call.axis(0, len(shape))
    return [(*shape[:axis], *call.shape(1), *shape[axis + 1 :])]


def like_second(call: Call) -> list[Shape]:
    """GatherElements and similar: one element for each index of the second input."""
    return [call.shape(1)]


def gather_nd(call: Call) -> list[Shape]:
    """GatherND: each row of indices picks an element or a box."""
    indices = call.shape(1)
    depth, batch = indices[-1], call.attributes.get("batch_dims", 0)
    if not isinstance(depth, int):
        raise Lost("how many axes it indexes depends on a variable")
    return [(*indices[:-1], *call.shape()[batch + depth :])]


def transpose(call: Call) -> list[Shape]:
    """Transpose: axes in the order of ``perm``, or reversed if that is left out."""
    shape = call.shape()
    order = call.attributes.get("perm", range(len(shape) - 1, -1, -1))
    return [tuple(shape[checked_axis(axis, len(shape))] for axis in order)]


def reshape(call: Call) -> list[Shape]:
    """Reshape: 0 keeps an extent, -1 takes the remaining elements."""
    shape = call.shape()
    target: Sequence[Extent]
    target = call.attributes["shape"] if "shape" in call.attributes else call.numbers(1)
    result: list[Extent] = []
    free = None
    for k, extent in enumerate(target):
        if extent == 0 and not call.attributes.get("allowzero"):
            if k >= len(shape):
                raise Lost("it keeps an axis that its input does not have")
            extent = shape[k]
        elif extent == -1:
            free, extent = k, 1
        elif not call.at_least(extent, 0):
            raise Lost(f"the extent {extent} may be negative")
        result.append(extent)
    if free is not None:
        result[free] = _quotient(call, shape, result)
    return [tuple(result)]


def _quotient(call: Call, dividend: Sequence[Extent], divisor: Sequence[Extent]) -> Extent:
    """Quotient of two products of extents, the first a multiple of the second."""
    above, below = list(dividend), []
    for factor in divisor:
        if factor in above:
            above.remove(factor)
        else:
            below.append(factor)
    top, bottom = math.prod(above), math.prod(below)
    quotient = None if bottom == 0 else divide_exactly(top, bottom)
    if quotient is not None:
        return quotient
    if not call.at_least(bottom, 1):
        raise Lost(f"it divides by {bottom}, which may be zero")
    return top // bottom


def flatten(call: Call) -> list[Shape]:
    """Flatten: a matrix of the axes before one axis, and the others."""
    shape = call.shape()
    axis = call.attributes.get("axis", 1)
    axis = axis + len(shape) if axis < 0 else axis
    return [(math.prod(shape[:axis]), math.prod(shape[axis:]))]


def squeeze(call: Call) -> list[Shape]:
    """Squeeze: without the axes named, or without all axes of extent 1."""
    shape = call.shape()
    axes = call.integers("axes", 1)
    if axes is None:
        if any(not isinstance(e, int) and not call.at_least(e, 2) for e in shape):
            raise Lost("which axes it leaves out depends on a variable")
        return [tuple(extent for extent in shape if extent != 1)]
    gone = {checked_axis(axis, len(shape)) for axis in axes}
    return [tuple(extent for axis, extent in enumerate(shape) if axis not in gone)]


def unsqueeze(call: Call) -> list[Shape]:
    """Unsqueeze: axes of extent 1 inserted, numbered as in the output."""
    axes = call.integers("axes", 1, ())
    assert axes is not None
    shape = iter(call.shape())
    rank = len(call.shape()) + len(axes)
    added = {checked_axis(axis, rank) for axis in axes}
    return [tuple(1 if axis in added else next(shape) for axis in range(rank))]


def expand(call: Call) -> list[Shape]:
    """Expand: the input and a given shape broadcast to one another."""
    return [broadcast(call, [call.shape(), tuple(call.numbers(1))])]


def tile(call: Call) -> list[Shape]:
    """Tile: each extent times its number of repetitions."""
    shape = call.shape()
    if call.opset < 6:
        raise Lost("before opset 6 it repeats along one axis, named by an input")
    return [tuple(e * times for e, times in zip(shape, call.numbers(1), strict=True))]


def pad(call: Call) -> list[Shape]:
    """Pad: elements added or removed before and after each axis."""
    result = list(call.shape())
    listed = call.attributes.get("pads", call.attributes.get("paddings"))
    pads: Sequence[Extent] = call.numbers(1) if listed is None else listed
    axes = call.integers("axes", 3, range(len(result)))
    assert axes is not None
    if len(pads) != 2 * len(axes):
        raise Lost("it has not two paddings for each axis")
    for k, axis in enumerate(axes):
        k_axis = checked_axis(axis, len(result))
        result[k_axis] = result[k_axis] + pads[k] + pads[len(axes) + k]
    return [tuple(result)]


def centred(call: Call) -> list[Shape]:
    """CenterCropPad: the extents that the node asks for."""
    result = list(call.shape())
    axes = call.attributes.get("axes", range(len(result)))
    for axis, extent in zip(axes, call.numbers(1), strict=True):
        result[checked_axis(axis, len(result))] = extent
    return [tuple(result)]


def range_(call: Call) -> list[Shape]:
    """Range: the number of steps before the limit."""
    (start,), (limit,), (step,) = (call.numbers(k) for k in range(3))
    if not isinstance(step, int) or step == 0:
        raise Lost("its step is not a number other than zero")
    count = ceildiv(limit - start, step) if step > 0 else ceildiv(start - limit, -step)
    return [(call.larger(count, 0),)]


def filled(call: Call) -> list[Shape]:
    """ConstantOfShape: the given shape."""
    return [tuple(call.numbers(0))]


def one_hot(call: Call) -> list[Shape]:
    """OneHot: one more axis, with one element for each class."""
    indices = list(call.shape())
    axis = call.axis(-1, len(indices) + 1)
    indices.insert(axis, call.numbers(1)[0])
    return [tuple(indices)]


def asked_shape(call: Call) -> list[Shape]:
    """Shape: one number for each axis, or for each of the axes asked for."""
    given = call.attributes
    return [(len(call.shape()[given.get("start") : given.get("end")]),)]


def single(call: Call) -> list[Shape]:
    """Size: one number."""
    return [()]


_FARTHEST = 2**31 - 1  # exporters write this, or more, for "to the end"


def slice_interval(
    call: Call, extent: Extent, begin: Extent, end: Extent, step: int
) -> tuple[Extent, Extent]:
    """The first element taken along an axis of ``extent``, and the number of elements taken."""
    if step == 0:
        raise Lost("its step is zero")
    if isinstance(extent, int) and isinstance(begin, int) and isinstance(end, int):
        taken = range(*slice(begin, end, step).indices(extent))
        return (taken[0] if taken else 0), len(taken)
    if step < 0:
        whole = begin in (-1, extent - 1) or (isinstance(begin, int) and begin >= _FARTHEST)
        if whole and isinstance(end, int) and end <= -_FARTHEST:
            return extent - 1, ceildiv(extent, -step)
        raise Lost("it takes part of an axis that varies, backwards")
    first, last = _clamp(call, begin, extent), _clamp(call, end, extent)
    count = ceildiv(last - first, step)
    return first, call.larger(count, 0)


def _clamp(call: Call, at: Extent, extent: Extent) -> Extent:
    """A position in an axis, counted from the end if negative, and clipped to the axis."""
    if isinstance(at, int) and at >= _FARTHEST:
        return extent
    bounds = call.bounds(at)
    if bounds.upper is not None and bounds.upper < 0:
        return call.larger(at + extent, 0)
    if bounds.lower is None or bounds.lower < 0:
        raise Lost(f"the end {at} of a slice may be negative or not")
    return call.smaller(at, extent)
