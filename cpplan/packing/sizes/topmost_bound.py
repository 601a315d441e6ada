"""A bound on one level, given what the levels before allow: which buffer is on top at a step."""

from __future__ import annotations

import numpy as np

from cpplan.model.problem import Ints
from cpplan.packing.sizes.best_layout import BestLayout

NAME = "topmost buffer"
# Beyond so many pairs of a section and a buffer live in it, tables take a gigabyte.
_MOST_PAIRS = 2_000_000
_LARGEST_TERM = 2**60


def topmost_bound(best: BestLayout, number: int) -> int:
    """The least value of a level in layouts that are as good as the best on the levels before.

    As in ``arena_bounds``, buffers live at one step are stacked with room for the most that each
    ever has, all but the topmost. That is the same buffer at all sizes: where one would be best for
    one size and another for the next, something has to give; and one that takes an arena beyond
    what the levels before allow cannot be on top.

    0 where numbers are too large for it. O(sizes × pairs of a step and a buffer live at it) for
    every alignment.

    Examples
    --------
    >>> from cpplan.model.problem import Problem
    >>> from cpplan.packing.reduction import reduce_problem
    >>> from cpplan.packing.sizes.levels import Level
    >>> from cpplan.packing.sizes.size_set import SizeSet
    >>> problem = Problem(("a", "b"), lower=[0, 0], upper=[1, 1], size=[0, 0])
    >>> sizes = SizeSet(problem, np.array([[1, 4], [4, 1]]))
    >>> one, zero = np.ones(1, np.int64), np.zeros(1, np.int64)
    >>> levels = [Level("arena at 1", one, one, zero), Level("arena at 0", zero, one, zero)]
    >>> start, bounds = np.array([0, 4]), np.array([5, 5])
    >>> best = BestLayout(sizes, reduce_problem(sizes.merged), levels, bounds, start, "hand")
    >>> [topmost_bound(best, number) for number in range(2)]
    [5, 8]
    """
    problem, level = best.reduction.problem, best.levels[number]
    spans = problem.spans
    pairs = int((spans.upper - spans.lower).sum())
    total = int(problem.size.sum() + problem.alignment.sum())
    if pairs > _MOST_PAIRS or level.scale * total > _LARGEST_TERM:
        return 0
    limits = best.limits(number - 1) if number else None
    return max(
        (
            _aligned_bound(best, number, unit, limits)
            for unit in np.unique(np.append(problem.alignment, 1)).tolist()
        ),
        default=0,
    )


def _aligned_bound(best: BestLayout, number: int, unit: int, limits: Ints | None) -> int:
    problem, level = best.reduction.problem, best.levels[number]
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
        arena = below + best.bytes[k, buffer]
        cost = np.maximum(cost, -(-level.scale * (arena - free) // base))
    if limits is not None:
        excluded = np.zeros(len(span), bool)
        for k, limit in enumerate(limits.tolist()):
            excluded |= below + best.bytes[k, buffer] > limit
        # Some layout is within the limits, so that something can be on top at every step.
        cost[excluded] = np.iinfo(np.int64).max
    return int(np.minimum.reduceat(cost, first).max())
