"""Insertion below one limit from an empty arena, the hardest buffers first, in a few stages.

If a thousand buffers are live at once and memory is nearly full for long, it takes many moves to
lower the peak of a bad packing step by step. It takes fewer to place all buffers again below a
limit just above the target. Moves are those of :mod:`cpplan.packing.search.insertion_search`: a
waiting buffer goes where it ejects least, and the ejected buffers wait in turn.

*Stages.* The first stage has only the few buffers of most size and lifespan, which have nearly all
bytes. Each later stage continues from the packing of the last one and adds smaller buffers. A move
of an early stage is quick, since buffers have few neighbours. The buffers left out of the stages
have hardly any bytes: first fit finds room for them.

*Incremental moves.* A move pushes only the buffers that rest on the inserted one, directly or
indirectly. Memory and time for a move depend on the neighbours of a buffer, not on the number of
all buffers.
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
# Share of the total area (size times lifespan) in each stage.
_STAGES = 0.96, 0.993, 0.9993, 1.0
# The first limit exceeds the most live bytes by this share, or is the target if that is higher.
_ABOVE = 0.0019
# Distance of the next limit from the target: after a limit was met, as a share of the peak's
# distance; after a limit was given up, as a multiple of that limit's distance.
_CLOSER, _FARTHER = 0.5, 2
# A peak counts as within the limit if it is above it by at most this share of the limit's distance
# from the target.
_AS_GOOD = 0.25
# Moves a buffer of a stage after which its limit is given up.
_PATIENCE = 15
# Moves after which learned weights are halved; moves between two looks at the clock.
_EPOCH, _CHUNK = 50_000, 500
# Weight that an ejection adds to a buffer; moves for which a placed buffer is held.
_LEARNING, _TENURE = 0.1, 2
# For deadlines that count work: seconds a move and neighbour.
_WORK = 1.2e-7
# For deadlines that count work: seconds of first fit for each pair of buffers.
_WORK_A_PAIR = 1e-9
# A row and an address are sorted as one word.
_ROWS, _BYTES = 2**20, 2**42
_UNLIMITED = np.iinfo(np.int64).max


class _Stage:
    """The hardest buffers as a separate problem, sorted by first section.

    Attributes
    ----------
    rows
        Rows of these buffers in the whole problem.
    lowest_end, placed
        Ends of the buffers, bytes, and true for placed ones; shape ``(len(rows),)``.
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
        """Make moves until all buffers are placed below the limit; returns the number waiting."""
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
    """Staged insertion; it keeps the partial packing of its stage, so that it can be continued.

    Parameters
    ----------
    problem
        A reduced problem; see :meth:`applies_to`.
    seed
        Seed of the random moves.

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
        # Number of moves of the stage when its limit was set.
        self._since = 0
        # The last complete packing within a limit.
        self._met: Ints | None = None

    @staticmethod
    def applies_to(problem: Problem) -> bool:
        """True if no buffer has gaps or a fixed offset, and a word holds a row and an address."""
        plain = not problem.gaps and not problem.fixed
        return plain and len(problem) < _ROWS and int(problem.size.sum()) < _BYTES

    def run(self, state: Outcome, *, moves: int, target: int, deadline: Deadline) -> Outcome:
        """Make about ``moves`` moves, or until the peak is at most ``target``.

        Raises ``TimeUpError`` between moves; :meth:`best` then has the best packing reached.
        """
        if not prepare(loops.STAGED, deadline.share(COMPILING_SHARE)):
            return state  # the next turn tries again
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
        """A stage that continues from the packing of the one before."""
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
        """Complete the packing by first fit in late stages; if too high, begin the next stage."""
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
        """Complete the packing if that may lower the peak; give up a limit that takes too long."""
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
        """Return to the last packing within a limit, with a higher limit; without one, restart."""
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
        """Place buffers that wait or are not in the stage by first fit; returns the peak."""
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
    """Size times the root of the lifespan: large buffers have few places, long ones neighbours."""
    return np.asarray(problem.size * np.sqrt(problem.upper - problem.lower))


def _stage_counts(problem: Problem, hardest_first: Ints) -> list[int]:
    """Number of buffers of each stage, ascending; the last stage has all.

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
