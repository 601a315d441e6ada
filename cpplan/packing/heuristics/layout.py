"""A partial packing that finds the offsets where a buffer fits.

The placed rectangles are kept in arrays sorted by address. A search for an offset reads all of them
once, vectorised: O(placed) with a small constant, and no conflict graph is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from cpplan.model.problem import Ints, Problem
from cpplan.packing.tuning import active
from cpplan.runtime.deadline import Deadline

_CHECK_EVERY = 256


def placement_seconds(buffers: int) -> float:
    """Approximate seconds to place one of this many buffers, for deadlines that count work."""
    return 2e-5 + 5e-9 * buffers


class Layout:
    """Buffers placed so far, at first only those with fixed offsets."""

    def __init__(self, problem: Problem):
        self.problem = problem
        self.offset = np.zeros(len(problem), np.int64)
        self.placed = np.zeros(len(problem), bool)
        spans = len(problem.spans.buffer)
        self._begin, self._end, self._lower, self._upper = (
            np.empty(spans, np.int64) for _ in range(4)
        )
        self._count = 0
        self._place_fixed()

    def place(self, row: int, offset: int) -> None:
        """Put a buffer at an offset; the caller knows that it fits there."""
        spans, first = self.problem.spans, self.problem.first_span
        for k in range(first[row], first[row + 1]):
            begin, end = offset + int(spans.begin[k]), offset + int(spans.end[k])
            if begin == end:
                continue  # holds no bytes, so it conflicts with nothing
            count = self._count
            at = int(np.searchsorted(self._begin[:count], begin))
            for column, value in (
                (self._begin, begin),
                (self._end, end),
                (self._lower, spans.lower[k]),
                (self._upper, spans.upper[k]),
            ):
                column[at + 1 : count + 1] = column[at:count]
                column[at] = value
            self._count += 1
        self.offset[row] = offset
        self.placed[row] = True

    def _place_fixed(self) -> None:
        """Place all buffers with fixed offsets at once."""
        rows = np.array(sorted(self.problem.fixed), np.int64)
        self.offset[rows] = [self.problem.fixed[row] for row in rows.tolist()]
        self.placed[rows] = True
        spans = self.problem.spans
        held = self.placed[spans.buffer] & (spans.end > spans.begin)
        at = self.offset[spans.buffer[held]]
        by_address = np.argsort(at + spans.begin[held], kind="stable")
        self._count = count = len(by_address)
        self._begin[:count] = (at + spans.begin[held])[by_address]
        self._end[:count] = (at + spans.end[held])[by_address]
        self._lower[:count] = spans.lower[held][by_address]
        self._upper[:count] = spans.upper[held][by_address]

    def lowest(self, row: int, at_least: int = 0) -> int:
        """The lowest address at which the buffer fits (*first fit*)."""
        starts, room = self._holes(row, at_least)
        return int(starts[np.argmax(room >= 0)])

    def tightest(self, row: int) -> int:
        """The address in the hole with the least room left (*best fit*); ties by address."""
        starts, room = self._holes(row, 0)
        fits = np.flatnonzero(room >= 0)
        return int(starts[fits[np.argmin(room[fits])]])

    def _holes(self, row: int, at_least: int) -> tuple[Ints, Ints]:
        """Starts of the holes for a buffer, and the range of offsets it can have in each.

        The range is negative if the buffer does not fit. The last hole has no end.
        """
        forbidden_from, forbidden_to = self._forbidden(row)
        # Offsets strictly inside a forbidden interval overlap a buffer, so that each hole starts at
        # the largest end of the intervals before it.
        reached = np.maximum.accumulate(np.concatenate([[at_least], forbidden_to]))
        alignment = self.problem.alignment[row]
        starts = -(-reached // alignment) * alignment if alignment > 1 else reached
        unlimited = np.iinfo(np.int64).max
        return starts, np.concatenate([forbidden_from, [unlimited]]) - starts

    def _forbidden(self, row: int) -> tuple[Ints, Ints]:
        """Open intervals of offsets at which the buffer would overlap a placed one, sorted."""
        problem, count = self.problem, self._count
        spans, first = problem.spans, problem.first_span
        lower, upper = self._lower[:count], self._upper[:count]
        begin, end = self._begin[:count], self._end[:count]
        intervals = []
        for k in range(first[row], first[row + 1]):
            together = np.flatnonzero((lower < spans.upper[k]) & (upper > spans.lower[k]))
            intervals.append((begin[together] - spans.end[k], end[together] - spans.begin[k]))
        if len(intervals) == 1:
            return intervals[0]
        if not intervals:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        start, stop = (np.concatenate(column) for column in zip(*intervals, strict=True))
        by_start = np.argsort(start, kind="stable")
        return start[by_start], stop[by_start]


def first_fit_in_order(
    problem: Problem,
    order: Iterable[int],
    deadline: Deadline,
    *,
    at_least: Mapping[int, int] | None = None,
) -> Ints:
    """Place the buffers one after another, each at the lowest address where it fits.

    ``at_least`` has, for some rows, the lowest address to try. With many buffers, an index of the
    placed buffers replaces the search through all of them.
    """
    floors = at_least or {}
    if len(problem) >= active().many_buffers and not floors:
        from cpplan.packing.heuristics.fit_index import index_first_fit

        return index_first_fit(problem, np.fromiter(order, np.int64), deadline)
    layout = Layout(problem)
    work = min(_CHECK_EVERY, len(problem)) * placement_seconds(len(problem))
    for count, row in enumerate(order):
        if count % _CHECK_EVERY == 0:
            deadline.check(work)
        if not layout.placed[row]:
            layout.place(row, layout.lowest(row, floors.get(row, 0)))
    return layout.offset


def best_fit_in_order(problem: Problem, order: Iterable[int], deadline: Deadline) -> Ints:
    """Place the buffers one after another, each in the tightest hole."""
    layout = Layout(problem)
    work = min(_CHECK_EVERY, len(problem)) * placement_seconds(len(problem))
    for count, row in enumerate(order):
        if count % _CHECK_EVERY == 0:
            deadline.check(work)
        if not layout.placed[row]:
            layout.place(row, layout.tightest(row))
    return layout.offset


def range_minimum(values: Ints, first: Ints, last: Ints) -> Ints:
    """``values[f:l].min()`` for every pair ``f < l``, by doubling: O((n + m) log n)."""
    length = last - first
    result = np.empty(len(first), np.int64)
    level, power = values, 1
    while True:
        here = (length >= power) & (length < 2 * power)
        result[here] = np.minimum(level[first[here]], level[last[here] - power])
        if not (length >= 2 * power).any():
            return result
        level, power = np.minimum(level[:-power], level[power:]), 2 * power
