"""Insertion below one limit from an empty arena, the hardest buffers first, in a few stages.

Lowering the peak of a bad packing step by step carries its faults along. Where a thousand buffers
are live at once and memory is nearly full for long, it takes fewer moves to place everything anew
below a limit just above the target, with the moves of :mod:`cpplan.packing.search.insertion_search`
(a waiting buffer goes where least is in its way, and that waits in turn).

*Stages.* The first has the buffers of most size and lifespan only, which have nearly all of the
bytes and are few; each next one goes on from the packing of the last and has smaller ones too. A
move of an early stage is quick, since few neighbours are to be looked at. What is left out in the
end has hardly any bytes: first fit finds room for it.

*Moves follow what changes.* Nothing is pushed down or up but what the inserted buffer touches, and
what that touches. Memory and time for a move do not depend on how many buffers there are, only on
how many meet one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cpplan.packing import loops
from cpplan.packing.reduction import reduce_problem
from cpplan.packing.search.local_search import LocalSearch
from cpplan.packing.search.outcome import Outcome
from cpplan.runtime.compiled import COMPILING_SHARE, prepare

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cpplan.model.problem import Ints, Problem
    from cpplan.runtime.deadline import Deadline

NAME = "staged insertion"
# Of size times lifespan over all buffers, in each stage.
_STAGES = 0.96, 0.993, 0.9993, 1.0
# The first limit is so much above the most live bytes, or the target if that is higher.
_ABOVE = 0.0019
# How far from the target the next limit is: after one that was met, of the peak; after one that was
# not, of itself.
_CLOSER, _FARTHER = 0.5, 2
# A peak above the limit by so much of the limit's way from the target is as good as the limit.
_AS_GOOD = 0.25
# Moves a buffer of a stage until its limit is given up.
_PATIENCE = 15
# Moves after which weights are forgotten by half; moves between two looks at the clock.
_EPOCH, _CHUNK = 50_000, 500
# How much heavier an ejection makes a buffer, and for how many moves it is held once placed.
_LEARNING, _TENURE = 0.1, 2
# Where time is counted in work: seconds a move, for each buffer that may meet one.
_WORK = 1.2e-7
# The same of first fit, for each pair of buffers.
_WORK_A_PAIR = 1e-9
# A row and an address are sorted as one word.
_ROWS, _BYTES = 2**20, 2**42
_UNLIMITED = np.iinfo(np.int64).max


class _Stage:
    """The hardest buffers as a problem of their own, by their first section.

    Attributes
    ----------
    rows
        Their rows in the whole problem.
    lowest_end, placed
        Where they end, bytes, and if they are placed at all; shape ``(len(rows),)``.
    moves
        Moves made.
    """

    def __init__(self, problem: Problem, rows: Ints, seed: int):
        self.rows = rows = rows[np.argsort(problem.lower[rows], kind="stable")]
        reduced = reduce_problem(problem.subset(rows)).problem
        count, lower, upper = len(reduced), reduced.spans.lower, reduced.spans.upper
        self._reduced, self._spans = reduced, (reduced.first_span, lower, upper)
        reach = np.maximum.accumulate(upper)
        first = np.searchsorted(reach, lower, side="right")
        last = np.searchsorted(lower, upper, side="left")
        self._near = np.stack([first, last])
        self.seconds_a_move = _WORK * float((last - first).mean())
        words = [np.empty(count, np.int64) for _ in range(5)]
        skyline = np.empty(int(upper.max(initial=0)), np.int64)
        self._scratch = (skyline, *words, np.empty(count))
        hardness = _hardness(reduced)
        self._difficulty = hardness / max(1.0, hardness.mean())
        self.penalty, self._held = np.ones(count), np.zeros(count, np.int64)
        self._pinned = np.full(count, -1, np.int64)
        self.placed = np.zeros(count, bool)
        self._order, self.lowest_end, self._latest = (np.zeros(count, np.int64) for _ in range(3))
        self._cursor = np.array([0, _TENURE], np.int64)
        # Any odd multiplier spreads seeds; the state must not be zero.
        word = (seed + 1) * 0x9E3779B97F4A7C15 % 2**64
        self._random = np.array([word or 1], np.uint64)

    @property
    def moves(self) -> int:
        return int(self._cursor[0])

    def insert(self, moves: int, limit: int) -> int:
        """Make moves, or until everything is placed below the limit; return how many wait."""
        from cpplan.packing.search.staged_insertion_kernel import insert

        self.placed &= self.lowest_end <= limit
        placed = np.flatnonzero(self.placed)
        by_end = placed[np.argsort(self.lowest_end[placed], kind="stable")]
        self._order[: len(placed)] = by_end
        left = insert(
            moves,
            limit,
            _LEARNING,
            self._spans,
            self._near,
            self._scratch,
            self._reduced.size,
            self._reduced.alignment,
            self._pinned,
            self._difficulty,
            self.penalty,
            self._held,
            self.placed,
            self._order,
            self.lowest_end,
            self._latest,
            self._cursor,
            self._random,
        )
        return int(left)


class StagedInsertion(LocalSearch):
    """A search that can be continued: it keeps the partial packing of its stage.

    Parameters
    ----------
    problem
        A reduced problem; see :meth:`applies_to`.
    seed
        Of the moves.

    Examples
    --------
    >>> from cpplan.runtime.deadline import Deadline
    >>> from cpplan.model.problem import Problem
    >>> problem = Problem(("a", "b", "c"), lower=[0, 1, 2], upper=[2, 3, 4], size=[4, 8, 4])
    >>> start = Outcome(np.array([0, 4, 12]), 16, 12)
    >>> search = StagedInsertion(problem, seed=0)
    >>> search.run(start, moves=9, target=12, deadline=Deadline(60)).peak
    12
    """

    name = NAME

    def __init__(self, problem: Problem, seed: int):
        super().__init__(problem)
        self._seed = seed
        self._hardest_first = np.argsort(-_hardness(problem), kind="stable")
        self._counts = _stage_counts(problem, self._hardest_first)
        self._number = 0
        self._stage: _Stage | None = None
        self._limit: int | None = None
        # Moves that the stage had made when its limit was set.
        self._since = 0
        # The last packing that kept a limit, all placed.
        self._met: Ints | None = None

    @staticmethod
    def applies_to(problem: Problem) -> bool:
        """Not where buffers have gaps or fixed offsets, nor beyond what a word can hold."""
        plain = not problem.gaps and not problem.fixed
        return plain and len(problem) < _ROWS and int(problem.size.sum()) < _BYTES

    def run(self, state: Outcome, *, moves: int, target: int, deadline: Deadline) -> Outcome:
        """Make ``moves`` moves, in hundreds, or until the peak is at most ``target``.

        Raises ``TimeUpError`` between moves; :meth:`best` then has the best packing reached.
        """
        if not prepare(loops.STAGED, deadline.share(COMPILING_SHARE)):
            return state  # the next turn will ask again; others go on
        if self._peak is None or state.peak < self._peak:
            self._offsets, self._peak = state.offsets, state.peak
        target = max(target, state.bound)
        while moves > 0 and self._peak > target:
            stage = self._stage = self._stage or self._begin(0)
            if self._limit is None or self._limit >= self._peak:
                self._aim(self._next_limit(target))
            assert self._limit is not None
            deadline.check(_CHUNK * stage.seconds_a_move)
            left = stage.insert(_CHUNK, self._limit)
            moves -= _CHUNK
            if left == 0:
                self._advance(target, deadline)
            else:
                self._go_on(target, deadline)
        return self.best(state)

    def _begin(self, number: int) -> _Stage:
        """A stage that goes on from the packing of the one before."""
        before, self._number, self._since = self._stage, number, 0
        stage = _Stage(self.problem, self._hardest_first[: self._counts[number]], self._seed)
        if before is not None:
            lowest_end = np.zeros(len(self.problem), np.int64)
            lowest_end[before.rows[before.placed]] = before.lowest_end[before.placed]
            stage.lowest_end[:] = lowest_end[stage.rows]
            stage.placed[:] = stage.lowest_end > 0
        return stage

    def _aim(self, limit: int) -> None:
        assert self._stage is not None
        self._limit, self._since = limit, self._stage.moves

    def _next_limit(self, target: int) -> int:
        """The first limit, or the next one below the peak."""
        assert self._peak is not None
        first = int((1 + _ABOVE) * int(self.problem.live_bytes().max(initial=0)))
        closer = target + int(_CLOSER * (self._peak - target))
        return max(target, min(first, closer) if self._limit is None else closer)

    def _advance(self, target: int, deadline: Deadline) -> None:
        """Place the rest where that may do; else go on to the next stage."""
        assert self._peak is not None
        assert self._limit is not None
        last = self._number == len(self._counts) - 1
        if last or self._number == len(self._counts) - 2:
            peak = self._complete(deadline)
            if last or peak <= self._limit + _AS_GOOD * (self._limit - target):
                self._met = self._offsets
                self._aim(self._next_limit(target))
                return
        self._stage = self._begin(self._number + 1)

    def _go_on(self, target: int, deadline: Deadline) -> None:
        """Take what is reached where that is better; give up a limit that takes too long."""
        stage = self._stage
        assert stage is not None
        assert self._peak is not None
        assert self._limit is not None
        made = stage.moves - self._since
        if made % _EPOCH < _CHUNK:
            stage.penalty += 0.5 * (1 - stage.penalty)
        waiting = self.problem.size[stage.rows[~stage.placed]]
        late = self._number >= len(self._counts) - 2
        if late and self._limit + int(waiting.max()) < self._peak:
            self._complete(deadline)
        if made >= _PATIENCE * len(stage.rows):
            self._give_up(target)

    def _give_up(self, target: int) -> None:
        """Return to the last limit met, for one not as low; if there is none, begin anew."""
        stage, peak, limit = self._stage, self._peak, self._limit
        assert stage is not None
        assert peak is not None
        assert limit is not None
        if self._met is None:
            self._stage, self._seed = None, self._seed + 1
            self._limit = min(peak - 1, target + int(_FARTHER * (limit - target)) + 1)
            return
        stage.lowest_end[:] = (self._met + self.problem.size)[stage.rows]
        stage.placed[:] = True
        self._aim((limit + peak) // 2)

    def _complete(self, deadline: Deadline) -> int:
        """Place what is not in the stage, or waits in it, by first fit; the peak with that."""
        from cpplan.packing.search.squeaky_kernel import place_below

        stage, problem = self._stage, self.problem
        assert stage is not None
        assert self._peak is not None
        prepare(loops.SQUEAKY, deadline)
        deadline.check(_WORK_A_PAIR * len(problem) ** 2)
        rows = stage.rows[stage.placed]
        offset = np.full(len(problem), -1, np.int64)
        offset[rows] = stage.lowest_end[stage.placed] - problem.size[rows]
        rows = rows[np.argsort(offset[rows], kind="stable")]
        entries = np.empty((4, len(problem)), np.int64)
        top = offset[rows] + problem.size[rows]
        entries[:, : len(rows)] = offset[rows], top, problem.lower[rows], problem.upper[rows]
        rest = self._hardest_first[offset[self._hardest_first] < 0]
        columns = problem.lower, problem.upper, problem.size, problem.alignment
        place_below(rest, 0, len(rest), len(rows), *columns, _UNLIMITED, entries, offset)
        peak = int((offset + problem.size).max(initial=0))
        if peak < self._peak:
            self._offsets, self._peak = offset, peak
        return peak


def _hardness(problem: Problem) -> NDArray[np.float64]:
    """Size times the root of the lifespan: a large buffer has few places, a long one neighbours."""
    return np.asarray(problem.size * np.sqrt(problem.upper - problem.lower))


def _stage_counts(problem: Problem, hardest_first: Ints) -> list[int]:
    """Buffers of each stage, ascending; the last has all.

    Examples
    --------
    >>> from cpplan.model.problem import Problem
    >>> problem = Problem(tuple("abc"), [0, 0, 0], [9, 9, 9], [1, 900, 29])
    >>> _stage_counts(problem, np.array([1, 2, 0]))
    [1, 2, 3]
    """
    area = (problem.size * (problem.upper - problem.lower).astype(float))[hardest_first]
    share = np.cumsum(area) / max(1.0, area.sum())
    counts = np.searchsorted(share, _STAGES[:-1]) + 1
    return sorted({*np.minimum(counts, len(problem)).tolist(), len(problem)})
