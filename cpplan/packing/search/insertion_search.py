"""Local search below a limit: place a waiting buffer, and eject the buffers that conflict.

A partial packing orients conflicts: for two placed buffers live together, it says which lies below.
So every buffer has a lowest end (all pushed down) and a latest offset (all pushed up against the
limit). A waiting buffer fits at an offset if each neighbour either ends at or below it when pushed
down, or starts at or above its end when pushed up. Other neighbours are ejected. A move takes the
offset with the least weight of ejected buffers, and orients the new conflicts. So it uses the slack
of the whole packing, not only the gaps between current offsets. Once no buffer waits, the limit
drops below the new peak.

The orientation has no cycles: neighbours that stay below end at or below the offset, all others end
above it, so that the order by lowest end is always consistent.

Each ejection makes a buffer heavier, and weights decay in time. A buffer just placed is held for a
few moves. Ejection with learned weights is known from vehicle routing (Nagata & Bräysy, *A powerful
route minimization heuristic*, 2009), insertion between heads and tails from job shops
(Mastrolilli & Gambardella, *Effective neighbourhood functions for the flexible job shop*, 2000).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cpplan.packing import loops
from cpplan.packing.reduction import address_unit
from cpplan.packing.search.local_search import LocalSearch
from cpplan.packing.search.outcome import Outcome
from cpplan.packing.tuning import active
from cpplan.runtime.compiled import COMPILING_SHARE, prepare

if TYPE_CHECKING:
    from cpplan.model.problem import Problem
    from cpplan.runtime.deadline import Deadline

NAME = "insertion search"
# For deadlines that count work: seconds a move for each buffer, and for each section of each span;
# seconds of one call of the kernel.
_WORK, _WORK_A_CELL, _CALL = 1.5e-8, 2e-10, 0.01


def applies_to(problem: Problem) -> bool:
    """True if the search applies: gaps cover whole buffers, and there are not too many buffers.

    Examples
    --------
    >>> from cpplan.model.problem import Gap, Problem
    >>> problem = Problem(("a",), lower=[0], upper=[3], size=[8], gaps={0: [Gap(1, 2, 0, 4)]})
    >>> applies_to(problem)
    False
    """
    windows = any(gap.begin < gap.end for gaps in problem.gaps.values() for gap in gaps)
    return not windows and len(problem) <= active().insertion_buffers


class InsertionSearch(LocalSearch):
    """The insertion search; it keeps its partial packing and weights, so that it can be continued.

    Parameters
    ----------
    problem
        A reduced problem (see :func:`applies_to`).
    seed
        Seed of the random moves.

    Examples
    --------
    >>> from cpplan.runtime.deadline import Deadline
    >>> from cpplan.model.problem import Problem
    >>> problem = Problem(("a", "b", "c"), lower=[0, 1, 2], upper=[2, 3, 4], size=[4, 8, 4])
    >>> start = Outcome(np.array([0, 4, 12]), 16, 12)
    >>> InsertionSearch(problem, seed=0).run(start, moves=10, target=12, deadline=Deadline(60)).peak
    12
    """

    name = NAME

    def __init__(self, problem: Problem, seed: int):
        super().__init__(problem)
        self._tuning = active()
        spans, count = problem.spans, len(problem)
        # Offsets are multiples of the unit; peaks are, too, if all sizes are.
        unit = address_unit(problem)
        self._grain = 1 if (problem.size % unit).any() else unit
        self._spans = (problem.first_span, spans.lower, spans.upper)
        self._breadth = int((spans.upper - spans.lower).sum())
        self._scratch = (
            *(np.empty(int(problem.upper.max(initial=0)), np.int64) for _ in range(2)),
            *(np.empty(count, np.int64) for _ in range(3)),
            np.empty(count),
        )
        self._pinned = np.full(count, -1, np.int64)
        for row, offset in problem.fixed.items():
            self._pinned[row] = offset
        # No packing has a lower peak than this.
        self._lowest_peak = int((np.maximum(self._pinned, 0) + problem.size).max(initial=0))
        self._meets = _conflicts(problem)
        # Size counts more than the length of the lifespan: a wide buffer has more neighbours, but
        # a large buffer has fewer places.
        difficulty = problem.size * np.sqrt(problem.upper - problem.lower)
        self._difficulty = difficulty / max(difficulty.mean(), 1.0) if count else difficulty
        self._penalty = np.ones(count)
        self._held = np.zeros(count, np.int64)
        self._placed = np.zeros(count, bool)
        self._order, self._by_latest = (np.zeros(count + 1, np.int64) for _ in range(2))
        self._lowest_end, self._latest = (np.zeros(count, np.int64) for _ in range(2))
        self._cursor = np.array([0, 0, self._tuning.insertion_tenure], np.int64)
        # Any odd multiplier spreads seeds; the state must not be zero.
        word = (seed + 1) * 0x9E3779B97F4A7C15 % 2**64
        self._random = np.array([word or 1], np.uint64)
        self._limit = 0

    def run(self, state: Outcome, *, moves: int, target: int, deadline: Deadline) -> Outcome:
        """Make ``moves`` moves, or until the peak is at most ``target`` or the known bound.

        Time for a move is in proportion to the spans of all buffers, in sections. Raises
        ``TimeUpError`` between moves; :meth:`best` then has the best packing reached.
        """
        if not prepare(loops.INSERTION, deadline.share(COMPILING_SHARE)):
            return state  # the next turn tries again
        from cpplan.packing.search import insertion_kernel as kernel

        target = max(target, state.bound, self._lowest_peak)
        if self._peak is None or state.peak < self._peak:
            self._adopt(state, target)
        work = _WORK * len(self.problem) + _WORK_A_CELL * self._breadth
        a_call = max(1, int(_CALL / max(work, 1e-9)))
        end = int(self._cursor[kernel.MOVES]) + moves
        while not self._reached(target):
            done = int(self._cursor[kernel.MOVES])
            if done >= end:
                break
            epoch = self._tuning.insertion_epoch
            until_epoch = epoch - done % epoch
            turn = min(end - done, until_epoch, a_call)
            deadline.check(work * turn)
            found = kernel.search(
                turn,
                self._limit,
                self._tuning.insertion_learning,
                self._spans,
                self._scratch,
                self.problem.size,
                self.problem.alignment,
                self._pinned,
                self._meets,
                self._difficulty,
                self._penalty,
                self._held,
                self._placed,
                self._order,
                self._by_latest,
                self._lowest_end,
                self._latest,
                self._cursor,
                self._random,
            )
            if found:
                self._offsets = self._lowest_end - self.problem.size
                self._peak = int(self._lowest_end.max(initial=0))
                self._aim_below(target)
            elif turn == until_epoch:
                self._penalty += 0.5 * (1 - self._penalty)
                self._limit = (self._limit + self._highest_limit() + 1) // 2
        return self.best(state)

    def _highest_limit(self) -> int:
        assert self._peak is not None
        return self._peak - self._grain

    def _adopt(self, state: Outcome, target: int) -> None:
        """Continue from this packing instead of the search's own."""
        self._offsets, self._peak = state.offsets, state.peak
        self._lowest_end[:] = state.offsets + self.problem.size
        self._order[:-1] = np.argsort(self._lowest_end, kind="stable")
        self._by_latest[:-1] = self._order[:-1]
        self._placed[:] = True
        self._cursor[0] = len(self.problem)
        self._aim_below(target)

    def _aim_below(self, target: int) -> None:
        """Lower the limit, and eject the buffers that end above it.

        The step is a fraction of the way to the target, at least one grain, so that peaks do not
        fall byte by byte.
        """
        assert self._peak is not None
        step = max(self._grain, (self._peak - target) // 64)
        self._limit = max(target, self._peak - step)
        out = (self._lowest_end > self._limit) & (self._pinned < 0)
        self._placed[out] = False
        count = int(self._cursor[0])
        for rows in (self._order, self._by_latest):
            kept = rows[:count][self._placed[rows[:count]]]
            rows[: len(kept)] = kept
        self._cursor[0] = len(kept)


def _conflicts(problem: Problem) -> np.typing.NDArray[np.bool_]:
    """True for each pair of buffers live together at some step, shape ``(n, n)``. O(spans · n)."""
    spans, count = problem.spans, len(problem)
    meets = np.zeros((count, count), bool)
    for row, lower, upper in zip(
        spans.buffer.tolist(), spans.lower.tolist(), spans.upper.tolist(), strict=True
    ):
        meets[row, spans.buffer[(spans.lower < upper) & (spans.upper > lower)]] = True
    return meets
