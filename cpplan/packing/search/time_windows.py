"""Windows of time in a packing: the buffers live in one, and the problem of packing them again.

A buffer whose lifespan lies within the window is free to move. Every other buffer live in it stays
in place as an obstacle.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpplan.model.problem import Gap, Ints, Problem
from cpplan.packing.reduction import reduce_problem


class Rectangles(NamedTuple):
    """Occupied steps and addresses."""

    lower: Ints
    upper: Ints
    offset: Ints
    size: Ints


class Piece(NamedTuple):
    """A window as a separate problem.

    Attributes
    ----------
    problem
        The free buffers, followed by the obstacles as fixed buffers.
    rows
        Rows of the free buffers in the whole problem.
    steps
        Lifespans of the free buffers in the whole problem, shape ``(2, free)``.
    offsets
        Current offsets of all rows, shape ``(len(problem),)``.
    high
        Obstacles that reach above the level.
    level
        Height at which obstacles are cut off.
    """

    problem: Problem
    rows: Ints
    steps: Ints
    offsets: Ints
    high: Rectangles
    level: int

    def clashes(self, offsets: Ints) -> bool:
        """True if a free buffer overlaps a part cut off from an obstacle."""
        count, free, high = len(self.rows), self.problem, self.high
        end = offsets[:count] + free.size[:count]
        above = np.flatnonzero(end > self.level)
        steps = self.steps
        for row in above.tolist():
            meets = (high.lower < steps[1, row]) & (high.upper > steps[0, row])
            if (meets & (high.offset < end[row]) & (high.offset + high.size > offsets[row])).any():
                return True
        return False


class TimeWindows:
    """The lifespans of a problem, sorted, so that a window's are found without reading the others.

    Parameters
    ----------
    problem
        A reduced problem.
    """

    def __init__(self, problem: Problem):
        self.problem = problem
        self._by_lower = np.argsort(problem.lower, kind="stable")
        self._lower = problem.lower[self._by_lower]
        self._upper = np.sort(problem.upper)
        self._reach = np.maximum.accumulate(problem.upper[self._by_lower])
        self.end = int(problem.upper.max(initial=0))
        # Buffers without fixed offsets whose gaps free all of their bytes.
        self.movable = np.ones(len(problem), bool)
        self.movable[list(problem.fixed)] = False
        for row, gaps in problem.gaps.items():
            self.movable[row] &= all(gap.begin >= gap.end for gap in gaps)

    def count(self, lower: int, upper: int) -> int:
        """Number of buffers whose lifespans meet these steps. O(log n)."""
        started = np.searchsorted(self._lower, upper, side="left")
        return int(started - np.searchsorted(self._upper, lower, side="right"))

    def rows(self, lower: int, upper: int) -> Ints:
        """Buffers whose lifespans meet these steps, sorted by first step."""
        first = np.searchsorted(self._reach, lower, side="right")
        rows = self._by_lower[first : np.searchsorted(self._lower, upper, side="left")]
        return rows[self.problem.upper[rows] > lower]

    def around(self, row: int, count: int, before: float) -> tuple[int, int] | None:
        """Widest steps around a lifespan that at most ``count`` lifespans meet, or ``None``.

        ``before`` is the share of the added steps that lies before the lifespan.
        """
        lower, upper = int(self.problem.lower[row]), int(self.problem.upper[row])
        if self.count(lower, upper) > count:
            return None
        # The most steps to add: by bisection, since more steps meet no fewer lifespans.
        enough, too_many = 0, self.end + 1
        while too_many - enough > 1:
            more = (enough + too_many) // 2
            if self.count(*_widened(lower, upper, more, before)) > count:
                too_many = more
            else:
                enough = more
        lower, upper = _widened(lower, upper, enough, before)
        return max(0, lower), min(self.end, upper)

    def piece(self, lower: int, upper: int, offsets: Ints, level: int) -> Piece:
        """The problem of the movable buffers within these steps, with the others as obstacles.

        Obstacles are cut off at the level, because buffers above it are to be lowered too.
        """
        problem, rows = self.problem, self.rows(lower, upper)
        within = (problem.lower[rows] >= lower) & (problem.upper[rows] <= upper)
        free = rows[within & self.movable[rows]]
        # Steps beyond the lifespans of the free buffers do not matter.
        lower = int(problem.lower[free].min(initial=upper))
        upper = int(problem.upper[free].max(initial=lower))
        around = np.ones(len(rows), bool)
        around[within & self.movable[rows]] = False
        whole = self._rectangles(rows[around], lower, upper, offsets)
        high = Rectangles(*(column[whole.offset + whole.size > level] for column in whole))
        low = Rectangles(*(column[whole.offset < level] for column in whole))
        obstacles = low._replace(size=np.minimum(low.size, level - low.offset))
        count, total = len(free), len(free) + len(obstacles.size)
        gaps = {
            k: [Gap(gap.lower - lower, gap.upper - lower) for gap in problem.gaps[row]]
            for k, row in enumerate(free.tolist())
            if row in problem.gaps
        }
        piece = Problem(
            [str(k) for k in range(total)],
            lower=np.append(problem.lower[free] - lower, obstacles.lower - lower),
            upper=np.append(problem.upper[free] - lower, obstacles.upper - lower),
            size=np.append(problem.size[free], obstacles.size),
            alignment=np.append(problem.alignment[free], np.ones(total - count, np.int64)),
            gaps=gaps,
            fixed=dict(zip(range(count, total), obstacles.offset.tolist(), strict=True)),
        )
        reduction = reduce_problem(piece)
        assert len(reduction.rows) == total, "a row without bytes in a reduced problem"
        steps = np.stack([problem.lower[free], problem.upper[free]])
        offset = np.append(offsets[free], obstacles.offset)
        return Piece(reduction.problem, free, steps, offset, high, level)

    def _rectangles(self, rows: Ints, lower: int, upper: int, offsets: Ints) -> Rectangles:
        """The parts of these buffers' spans that lie within these steps."""
        spans, first = self.problem.spans, self.problem.first_span
        counts = first[rows + 1] - first[rows]
        shift = first[rows] - np.concatenate([[0], np.cumsum(counts)[:-1]])[: len(rows)]
        at = np.arange(int(counts.sum())) + np.repeat(shift, counts)
        begins, ends = spans.begin[at], spans.end[at]
        start, stop = spans.lower[at].clip(min=lower), spans.upper[at].clip(max=upper)
        kept: NDArray[np.bool_] = (start < stop) & (begins < ends)
        offset = offsets[spans.buffer[at]] + begins
        return Rectangles(*(column[kept] for column in (start, stop, offset, ends - begins)))


def _widened(lower: int, upper: int, more: int, before: float) -> tuple[int, int]:
    return lower - int(before * 2 * more), upper + int((1 - before) * 2 * more)
