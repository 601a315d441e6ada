"""The interval that a slice takes of an axis whose extent is an expression."""

from __future__ import annotations

from cpplan.io.onnx.facts import Call, Extent, Lost
from cpplan.model.shapes import ceildiv, dim_max, dim_min

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
    return first, count if call.at_least(count, 0) else dim_max(count, 0)


def _clamp(call: Call, at: Extent, extent: Extent) -> Extent:
    """A position in an axis, counted from the end if negative, and clipped to the axis."""
    if isinstance(at, int) and at >= _FARTHEST:
        return extent
    bounds = call.bounds(at)
    if bounds.upper is not None and bounds.upper < 0:
        place = at + extent
        return place if call.at_least(place, 0) else dim_max(place, 0)
    if bounds.lower is None or bounds.lower < 0:
        raise Lost(f"the end {at} of a slice may be negative or not")
    if call.at_least(extent, at):
        return at
    return extent if call.at_least(at, extent) else dim_min(at, extent)
