"""Lower bounds on the arenas of layouts with the same offsets at all sizes, without search."""

from __future__ import annotations

import numpy as np

from cpplan.model.levels import ArenaLevel
from cpplan.model.problem import Ints, Problem
from cpplan.packing.bounds import largest_live, lower_bound
from cpplan.packing.sizes.size_set import SizeSet
from cpplan.packing.tuning import active

TOPMOST = "topmost buffer"
_LARGEST_TERM = 2**60


def arena_bounds(sizes: SizeSet) -> Ints:
    """Lower bound on the arena at every size, for offsets valid at all sizes; shape ``(sizes,)``.

    Each buffer live at a step needs room for its largest size, except the topmost one, which needs
    only its bytes at the given size. So the bound is the sum of the largest sizes live at a step,
    less the largest difference between a buffer's largest size and its bytes at the given size. It
    is at least the live bytes at that size. If only buffers of one alignment count, their largest
    sizes are rounded up to it.

    O(n log n) for each size and alignment.
    """
    spans, merged = sizes.merged.spans, sizes.merged
    bounds = np.array([lower_bound(sizes.at(k)).value for k in range(len(sizes))], np.int64)
    for row, offset in merged.fixed.items():
        bounds = np.maximum(bounds, offset + sizes.bytes[:, row])
    for unit in np.unique(np.append(merged.alignment, 1)).tolist():
        # Every span counts from the start of its buffer.
        counted = (merged.alignment[spans.buffer] % unit == 0) & (spans.end > 0)
        buffer, lower, upper = spans.buffer[counted], spans.lower[counted], spans.upper[counted]
        held = -(-spans.end[counted] // unit) * unit
        times = np.unique(np.concatenate([lower, upper]))
        first, last = np.searchsorted(times, lower), np.searchsorted(times, upper)
        change = np.zeros(len(times), np.int64)
        np.add.at(change, first, held)
        np.add.at(change, last, -held)
        live = np.cumsum(change)
        for k in range(len(sizes)):
            less = largest_live(held - sizes.bytes[k, buffer], first, last, len(times))
            bounds[k] = max(int(bounds[k]), int((live - less).max(initial=0)))
    return bounds


def topmost_bound(problem: Problem, bytes: Ints, level: ArenaLevel, limits: Ints | None) -> int:
    """Lower bound on a level for layouts whose arenas keep within limits.

    As in ``arena_bounds``, each buffer live at a step needs room for its largest size, except the
    topmost one. The topmost buffer is the same at all sizes, even if another would be best for some
    of them. A buffer cannot be topmost if an arena would then exceed its limit.

    The problem is reduced; ``bytes`` has shape ``(sizes, rows)``; some layout keeps within the
    limits, shape ``(sizes,)``.

    Returns 0 if numbers are too large. O(sizes × pairs of a step and a buffer live at it) for every
    alignment.
    """
    spans = problem.spans
    pairs = int((spans.upper - spans.lower).sum())
    total = int(problem.size.sum() + problem.alignment.sum())
    if pairs > active().sizes_top_pairs or level.scale * total > _LARGEST_TERM:
        return 0
    return max(
        (
            _aligned_bound(problem, bytes, level, unit, limits)
            for unit in np.unique(np.append(problem.alignment, 1)).tolist()
        ),
        default=0,
    )


def _aligned_bound(
    problem: Problem, bytes: Ints, level: ArenaLevel, unit: int, limits: Ints | None
) -> int:
    spans = problem.spans
    counted = np.flatnonzero((problem.alignment[spans.buffer] % unit == 0) & (spans.end > 0))
    lower, upper = spans.lower[counted], spans.upper[counted]
    length = upper - lower
    if not len(counted):
        return 0
    span = np.repeat(counted, length)
    within = np.arange(len(span)) - np.repeat(np.cumsum(length) - length, length)
    section = np.repeat(lower, length) + within
    by_section = np.argsort(section, kind="stable")
    span, section = span[by_section], section[by_section]
    held = -(-spans.end[span] // unit) * unit
    first = np.flatnonzero(np.diff(section, prepend=-1))
    below = np.repeat(np.add.reduceat(held, first), np.diff(first, append=len(held))) - held
    buffer = spans.buffer[span]
    cost = np.zeros(len(span), np.int64)
    for k, base, free in zip(
        level.sizes.tolist(), level.base.tolist(), level.free.tolist(), strict=True
    ):
        arena = below + bytes[k, buffer]
        cost = np.maximum(cost, -(-level.scale * (arena - free) // base))
    if limits is not None:
        excluded = np.zeros(len(span), bool)
        for k, limit in enumerate(limits.tolist()):
            excluded |= below + bytes[k, buffer] > limit
        # Some layout is within the limits, so that something can be on top at every step.
        cost[excluded] = np.iinfo(np.int64).max
    return int(np.minimum.reduceat(cost, first).max())
