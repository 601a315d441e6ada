"""Insertion below the target from an empty arena, the hardest buffers first, in a few stages.

If a thousand buffers are live at once and memory is nearly full for long, it takes many moves to
lower the peak of a bad packing step by step. It takes fewer to place all buffers again below the
target itself. Moves are those of :mod:`cpplan.packing.search.insertion_search`: a waiting buffer
goes where it ejects least, and the ejected buffers wait in turn.

*Stages.* The first stage has only the few buffers of most size and lifespan, which have nearly all
bytes. Each later stage continues from the packing of the last one and adds smaller buffers. A move
of an early stage is quick, since buffers have few neighbours. After every stage, first fit finds
room for the buffers left out; most of them have hardly any bytes.

*Weights.* A buffer weighs more at full steps (:mod:`cpplan.packing.search.local_search`).

*Limits.* If a stage takes too long, its limit rises, part of the way to the best peak so far.

*Incremental moves.* A move pushes only the buffers that rest on the inserted one, directly or
indirectly. Memory and time for a move depend on the neighbours of a buffer, not on the number of
all buffers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cpplan.packing import loops
from cpplan.packing.heuristics.fit_index import fit_index, place_in_turn
from cpplan.packing.reduction import reduce_problem
from cpplan.packing.search.local_search import LocalSearch, tightness
from cpplan.packing.search.outcome import Outcome
from cpplan.runtime.compiled import COMPILING_SHARE, prepare

if TYPE_CHECKING:
    from cpplan.model.problem import Ints, Problem
    from cpplan.runtime.deadline import Deadline

NAME = "staged insertion"
# Share of the total area (size times lifespan) in each stage.
_STAGES = 0.96, 0.98, 0.99, 0.993, 0.995, 0.998, 0.9993, 1.0
# A limit that was met is followed by one nearer to the target, by this share of the distance; one
# that was given up, by one nearer to the peak.
_CLOSER, _FARTHER = 0.5, 0.25
# Moves a buffer of a stage after which its limit is given up.
_PATIENCE = 40
# Moves after which learned weights are halved.
_EPOCH = 50_000
# Most moves between two looks at the clock, and the rows looked at after which no other begins.
_CHUNK, _ENOUGH = 2_500, 150_000_000
# Weight that an ejection adds to a buffer; moves for which a placed buffer is held.
_LEARNING, _TENURE = 0.3, 2
# For deadlines that count work: seconds a move, and for each row that it looks at.
_WORK, _WORK_A_LOOK = 2e-6, 8e-10
# A row and an address are sorted as one word.
_ROWS, _BYTES = 2**20, 2**42
# Classes of lifespans.
_CLASSES = 8
Floats = NDArray[np.float64]


class _Stage:
    """The hardest buffers as a separate problem, sorted by length class, then by first section.

    Attributes
    ----------
    rows
        Rows of these buffers in the whole problem.
    lowest_end, placed
        Ends of the buffers, bytes, and true for placed ones; shape ``(len(rows),)``.
    moves
        Moves made.
    """

    def __init__(self, problem: Problem, rows: Ints, weight: Floats, seed: int):
        from cpplan.packing.search.staged_insertion_kernel import DIGITS

        length = _length_class(problem)
        self.rows = rows = rows[np.lexsort((problem.lower[rows], length[rows]))]
        reduced = reduce_problem(problem.subset(rows)).problem
        count, lower, upper = len(reduced), reduced.spans.lower, reduced.spans.upper
        self._reduced, self._spans = reduced, (reduced.first_span, lower, upper)
        self._near = _near(lower, upper, length[rows])
        skyline = np.empty(int(upper.max(initial=0)), np.int64)
        digits = np.empty(DIGITS + 1, np.int64)
        words = [np.empty(count, np.int64) for _ in range(6)]
        self._scratch = (skyline, digits, *words, np.empty(count))
        hardness = _hardness(reduced)
        self._difficulty = hardness / max(1.0, hardness.mean()) * weight[rows]
        self.penalty, self._held = np.ones(count), np.zeros(count, np.int64)
        self._pinned = np.full(count, -1, np.int64)
        self.placed = np.zeros(count, bool)
        self._order, self.lowest_end, self._latest = (np.zeros(count, np.int64) for _ in range(3))
        self._cursor = np.array([0, _TENURE, 0], np.int64)
        # Any odd multiplier spreads seeds; the state must not be zero.
        word = (seed + 1) * 0x9E3779B97F4A7C15 % 2**64
        self._random = np.array([word or 1], np.uint64)

    @property
    def moves(self) -> int:
        return int(self._cursor[0])

    @property
    def seconds(self) -> float:
        """Deterministic seconds of all moves made."""
        return _WORK * self.moves + _WORK_A_LOOK * int(self._cursor[2])

    def insert(self, limit: int) -> int:
        """Make moves until all buffers are placed below the limit; returns the number waiting.

        It ends in about a tenth of a second, whether they are placed or not.
        """
        from cpplan.packing.search.staged_insertion_kernel import insert

        self.placed &= self.lowest_end <= limit
        placed = np.flatnonzero(self.placed)
        by_end = placed[np.argsort(self.lowest_end[placed], kind="stable")]
        self._order[: len(placed)] = by_end
        left = insert(
            _CHUNK,
            _ENOUGH,
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
    """

    name = NAME

    def __init__(self, problem: Problem, seed: int):
        super().__init__(problem)
        self._seed = seed
        self._hardest_first = np.argsort(-_hardness(problem), kind="stable")
        self._counts = _stage_counts(problem, self._hardest_first)
        self._weight = tightness(problem)
        self._number = 0
        self._stage: _Stage | None = None
        self._limit: int | None = None
        # Number of moves of the stage when its limit was set.
        self._since = 0

    @staticmethod
    def applies_to(problem: Problem) -> bool:
        """True if no buffer has gaps or a fixed offset, and a word holds a row and an address."""
        plain = not problem.gaps and not problem.fixed
        highest = int(problem.size.sum()) + int((problem.alignment - 1).sum())
        return plain and len(problem) < _ROWS and highest < _BYTES

    def run(self, state: Outcome, *, moves: int, target: int, deadline: Deadline) -> Outcome:
        """Make about ``moves`` moves, or until the peak is at most ``target``.

        Raises ``TimeUpError`` between moves; :meth:`best` then has the best packing reached.
        """
        waiting = deadline.share(COMPILING_SHARE)
        if not (prepare(loops.STAGED, waiting) and prepare(loops.MANY_BUFFERS, waiting)):
            return state  # the next turn tries again
        if self._peak is None or state.peak < self._peak:
            self._offsets, self._peak = state.offsets, state.peak
        target = max(target, state.bound)
        while moves > 0 and self._peak > target:
            stage = self._stage = self._stage or self._begin(0)
            if self._limit is None or self._limit >= self._peak:
                self._aim(target)
            assert self._limit is not None
            deadline.check()
            before, seconds = stage.moves - self._since, stage.seconds
            left = stage.insert(self._limit)
            made = stage.moves - self._since
            deadline.spend(stage.seconds - seconds)
            # Completing a packing takes as long as many moves.
            moves -= made - before if left else _CHUNK
            if left == 0:
                self._advance(target, deadline)
            elif made >= _PATIENCE * len(stage.rows):
                self._give_up(target)
            elif made // _EPOCH > before // _EPOCH:
                stage.penalty += 0.5 * (1 - stage.penalty)
        return self.best(state)

    def _begin(self, number: int) -> _Stage:
        """A stage that continues from the packing of the one before."""
        before, self._number, self._since = self._stage, number, 0
        rows = self._hardest_first[: self._counts[number]]
        stage = _Stage(self.problem, rows, self._weight, self._seed)
        if before is not None:
            lowest_end = np.zeros(len(self.problem), np.int64)
            lowest_end[before.rows[before.placed]] = before.lowest_end[before.placed]
            stage.lowest_end[:] = lowest_end[stage.rows]
            stage.placed[:] = stage.lowest_end > 0
        return stage

    def _aim(self, limit: int) -> None:
        assert self._stage is not None
        self._limit, self._since = limit, self._stage.moves

    def _advance(self, target: int, deadline: Deadline) -> None:
        """Complete the packing of a stage by first fit; if it is too high, begin the next stage."""
        assert self._limit is not None
        peak = self._complete(deadline)
        if self._number == len(self._counts) - 1 or peak <= self._limit:
            self._aim(target + int(_CLOSER * (peak - target)))
        else:
            self._stage = self._begin(self._number + 1)

    def _give_up(self, target: int) -> None:
        """Go on below a higher limit; if that is no lower than the peak, begin again at the target.

        Another seed then leads elsewhere.
        """
        assert self._limit is not None
        assert self._peak is not None
        higher = self._limit + max(1, int(_FARTHER * (self._peak - self._limit)))
        if higher < self._peak:
            self._aim(higher)
        else:
            self._stage, self._limit, self._seed = None, None, self._seed + 1

    def _complete(self, deadline: Deadline) -> int:
        """Place buffers that wait or are not in the stage by first fit; returns the peak."""
        from cpplan.packing.heuristics.fit_index_kernel import insert_all

        stage, problem = self._stage, self.problem
        assert stage is not None
        assert self._peak is not None
        rows, placed = stage.rows[stage.placed], np.zeros(len(problem), bool)
        placed[rows] = True
        order = np.concatenate([rows, self._hardest_first[~placed[self._hardest_first]]])
        found = np.zeros(len(problem), np.int64)
        found[: len(rows)] = stage.lowest_end[stage.placed] - problem.size[rows]
        placed = np.arange(len(problem)) < len(rows)
        index = fit_index(problem, order)
        insert_all(index, np.flatnonzero(placed), found)
        place_in_turn(index, found, placed, deadline)
        offset = np.empty_like(found)
        offset[order] = found
        peak = int((offset + problem.size).max(initial=0))
        if peak < self._peak:
            self._offsets, self._peak = offset, peak
        return peak


def _hardness(problem: Problem) -> Floats:
    """Size times the root of the lifespan: large buffers have few places, long ones neighbours."""
    return np.asarray(problem.size * np.sqrt(problem.upper - problem.lower))


def _length_class(problem: Problem) -> Ints:
    """Class of every lifespan, each twice as long as the one before, shape ``(n,)``."""
    length = problem.upper - problem.lower
    doublings = np.floor(np.log2(length / length.mean())) if len(problem) else length
    return np.asarray(np.clip(doublings + _CLASSES - 3, 0, _CLASSES - 1), np.int64)


def _near(lower: Ints, upper: Ints, length: Ints) -> Ints:
    """First and last row, for each class, that may meet a row; shape ``(2 * classes, n)``.

    Rows are sorted by class, then by ``lower``.
    """
    edges = np.searchsorted(length, np.arange(_CLASSES + 1))
    near = np.empty((2 * _CLASSES, len(lower)), np.int64)
    for k in range(_CLASSES):
        a, b = int(edges[k]), int(edges[k + 1])
        reach = np.maximum.accumulate(upper[a:b])
        near[2 * k] = a + np.searchsorted(reach, lower, side="right")
        last = a + np.searchsorted(lower[a:b], upper, side="left")
        near[2 * k + 1] = np.maximum(near[2 * k], last)
    return np.asarray(near)


def _stage_counts(problem: Problem, hardest_first: Ints) -> list[int]:
    """Number of buffers of each stage, ascending; the last stage has all."""
    area = (problem.size * (problem.upper - problem.lower).astype(float))[hardest_first]
    share = np.cumsum(area) / max(1.0, area.sum())
    counts = np.searchsorted(share, _STAGES[:-1]) + 1
    return sorted({*np.minimum(counts, len(problem)).tolist(), len(problem)})
