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
few moves. If the peak does not fall for some moves, the search returns to its best packing, with a
limit nearer to its peak; it keeps the weights, so that it goes another way from there.

Ejection with learned weights is known from vehicle routing (Nagata & Bräysy, *A powerful route
minimization heuristic*, 2009), insertion between heads and tails from job shops (Mastrolilli &
Gambardella, *Effective neighbourhood functions for the flexible job shop*, 2000).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cpplan.packing import loops
from cpplan.packing.reduction import address_unit
from cpplan.packing.search.local_search import LocalSearch, tightness
from cpplan.packing.search.outcome import Outcome
from cpplan.packing.tuning import active
from cpplan.runtime.compiled import COMPILING_SHARE, prepare

if TYPE_CHECKING:
    from cpplan.model.problem import Problem
    from cpplan.runtime.deadline import Deadline

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cpplan.model.problem import Ints, Problem

# Moves a buffer without a lower peak after which the search returns to its best
# packing, and raises its limit.
_PATIENCE = 50
# Moves after which weights are halved.
_INSERTION_EPOCH = 1_000_000
# Weight that an ejection adds to a buffer; moves for which a placed buffer is not ejected.
INSERTION_LEARNING = 0.1
INSERTION_TENURE = 2

NAME = "insertion search"
# Seconds of one call of the kernel.
_CALL = 0.01
# For deadlines that count work: seconds a move for each buffer, and for each section of each span.
_WORK, _WORK_A_CELL = 1.5e-8, 2e-10
# Any odd multiplier spreads seeds.
_SPREAD = 0x9E3779B97F4A7C15


def applies_to(problem: Problem) -> bool:
    """True if the search applies: gaps cover whole buffers, and there are not too many buffers."""
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
    """

    name = NAME

    def __init__(self, problem: Problem, seed: int):
        super().__init__(problem)
        self._tuning, self._seed = active(), seed
        # Offsets are multiples of the unit; peaks are, too, if all sizes are.
        unit = address_unit(problem)
        self._grain = 1 if (problem.size % unit).any() else unit
        self._arrays = Arrays.of(problem)
        # No packing has a lower peak than this.
        self._lowest_peak = int((np.maximum(self._arrays.pinned, 0) + problem.size).max(initial=0))
        self._packing: PartialPacking | None = None
        # Moves made when the best packing was last taken up.
        self._left_best = 0

    def run(self, state: Outcome, *, moves: int, target: int, deadline: Deadline) -> Outcome:
        """Make ``moves`` moves, or until the peak is at most ``target`` or the known bound.

        Raises ``TimeUpError`` between moves; :meth:`best` then has the best packing reached.
        """
        if not prepare(loops.INSERTION, deadline.share(COMPILING_SHARE)):
            return state  # the next turn tries again
        target = max(target, state.bound, self._lowest_peak)
        if self._peak is None or state.peak < self._peak:
            self._adopt(state, target)
        work = self._arrays.seconds_a_move
        a_call = max(1, int(_CALL / max(work, 1e-9)))
        packing, epoch = self._packing, _INSERTION_EPOCH
        patience = _PATIENCE * len(self.problem)
        assert packing is not None
        end = packing.moves + moves
        while not self._reached(target) and packing.moves < end:
            until_epoch = epoch - packing.moves % epoch
            until_return = self._left_best + patience - packing.moves
            turn = min(end - packing.moves, until_epoch, until_return, a_call)
            deadline.check(work * turn)
            assert self._peak is not None
            if packing.insert(turn):
                self._offsets = packing.lowest_end - self.problem.size
                self._peak = int(packing.lowest_end.max(initial=0))
                packing.lower(self._next_limit(target))
                self._left_best = packing.moves
                continue
            if turn == until_epoch:
                packing.forget()
            if turn == until_return:
                self._return()
        return self.best(state)

    def _adopt(self, state: Outcome, target: int) -> None:
        """Continue from this packing instead of the search's own."""
        self._offsets, self._peak = state.offsets, state.peak
        limit = self._next_limit(target)
        if self._packing is None:
            self._packing = PartialPacking(self._arrays, state.offsets, limit, self._seed)
        else:
            self._packing.adopt(state.offsets, limit)
        self._left_best = self._packing.moves

    def _return(self) -> None:
        """Continue from the best packing, below a limit nearer to its peak; weights stay."""
        assert self._packing is not None
        assert self._offsets is not None
        assert self._peak is not None
        limit = (self._packing.limit + self._peak - self._grain + 1) // 2
        self._packing.adopt(self._offsets, limit)
        self._left_best = self._packing.moves

    def _next_limit(self, target: int) -> int:
        """Limit below the peak by a fraction of the way to the target, at least one grain.

        So peaks do not fall byte by byte.
        """
        assert self._peak is not None
        step = max(self._grain, (self._peak - target) // 64)
        return max(target, self._peak - step)


class Arrays(NamedTuple):
    """A problem as the kernel reads it; partial packings of one problem share it.

    Attributes
    ----------
    spans
        First span of each row; lower and upper of each span.
    scratch
        Words for the kernel.
    size, step, pinned
        Size, alignment, and fixed offset (-1 for none) of each row, bytes.
    meets
        True for each pair of buffers live together, shape ``(n, n)``.
    difficulty
        Weight of each row before anything is learned.
    """

    spans: tuple[Ints, Ints, Ints]
    scratch: tuple[NDArray[np.generic], ...]
    size: Ints
    step: Ints
    pinned: Ints
    meets: NDArray[np.bool_]
    difficulty: NDArray[np.float64]

    @classmethod
    def of(cls, problem: Problem) -> Arrays:
        """The arrays of a reduced problem. O(spans · n)."""
        spans, count = problem.spans, len(problem)
        scratch = (
            *(np.empty(int(problem.upper.max(initial=0)), np.int64) for _ in range(2)),
            *(np.empty(count, np.int64) for _ in range(3)),
            np.empty(count),
        )
        pinned = np.full(count, -1, np.int64)
        for row, offset in problem.fixed.items():
            pinned[row] = offset
        # Size counts more than the length of the lifespan: a wide buffer has more neighbours, but
        # a large buffer has fewer places.
        difficulty = problem.size * np.sqrt(problem.upper - problem.lower)
        difficulty /= max(difficulty.mean(), 1.0) if count else 1.0
        return cls(
            (problem.first_span, spans.lower, spans.upper),
            scratch,
            problem.size,
            problem.alignment,
            pinned,
            _conflicts(problem),
            difficulty * tightness(problem),
        )

    @property
    def seconds_a_move(self) -> float:
        """Counted seconds of a move."""
        _first, lower, upper = self.spans
        return _WORK * len(self.size) + _WORK_A_CELL * float((upper - lower).sum())


class PartialPacking:
    """A partial packing that the kernel completes, move by move.

    Parameters
    ----------
    arrays
        The problem.
    offsets
        A packing to start from, bytes, shape ``(n,)``.
    limit
        Buffers that end above it are not placed.
    seed
        Seed of the random moves.

    Attributes
    ----------
    limit
        The limit in use, bytes.
    lowest_end
        Ends of the buffers, pushed down, bytes, shape ``(n,)``.
    """

    def __init__(self, arrays: Arrays, offsets: Ints, limit: int, seed: int):
        count = len(arrays.size)
        self._arrays, self.limit = arrays, limit
        self._penalty, self._held = np.ones(count), np.zeros(count, np.int64)
        self._placed = np.zeros(count, bool)
        self._order, self._by_latest = (np.zeros(count + 1, np.int64) for _ in range(2))
        self.lowest_end, self._latest = (np.zeros(count, np.int64) for _ in range(2))
        self._cursor = np.array([0, 0, INSERTION_TENURE], np.int64)
        # The state of the generator must not be zero.
        word = (seed + 1) * _SPREAD % 2**64
        self._random = np.array([word or 1], np.uint64)
        self.adopt(offsets, limit)

    @property
    def moves(self) -> int:
        """Number of moves made."""
        from cpplan.packing.search import insertion_kernel as kernel

        return int(self._cursor[kernel.MOVES])

    def adopt(self, offsets: Ints, limit: int) -> None:
        """Continue from this packing, below this limit."""
        self.lowest_end[:] = offsets + self._arrays.size
        self._order[:-1] = np.argsort(self.lowest_end, kind="stable")
        self._by_latest[:-1] = self._order[:-1]
        self._placed[:] = True
        self._cursor[0] = len(offsets)
        self.lower(limit)

    def lower(self, limit: int) -> None:
        """Lower the limit, and eject the buffers that end above it."""
        self.limit = limit
        out = (self.lowest_end > limit) & (self._arrays.pinned < 0)
        self._placed[out] = False
        count = int(self._cursor[0])
        for rows in (self._order, self._by_latest):
            kept = rows[:count][self._placed[rows[:count]]]
            rows[: len(kept)] = kept
        self._cursor[0] = len(kept)

    def forget(self) -> None:
        """Halve the weights learned."""
        self._penalty += 0.5 * (1 - self._penalty)

    def insert(self, moves: int) -> bool:
        """Make moves; true as soon as all buffers are placed below the limit."""
        from cpplan.packing.search import insertion_kernel as kernel

        arrays = self._arrays
        return bool(
            kernel.search(
                moves,
                self.limit,
                INSERTION_LEARNING,
                arrays.spans,
                arrays.scratch,
                arrays.size,
                arrays.step,
                arrays.pinned,
                arrays.meets,
                arrays.difficulty,
                self._penalty,
                self._held,
                self._placed,
                self._order,
                self._by_latest,
                self.lowest_end,
                self._latest,
                self._cursor,
                self._random,
            )
        )


def _conflicts(problem: Problem) -> NDArray[np.bool_]:
    """True for each pair of buffers live together at some step, shape ``(n, n)``. O(spans · n)."""
    spans, count = problem.spans, len(problem)
    meets = np.zeros((count, count), bool)
    for row, lower, upper in zip(
        spans.buffer.tolist(), spans.lower.tolist(), spans.upper.tolist(), strict=True
    ):
        meets[row, spans.buffer[(spans.lower < upper) & (spans.upper > lower)]] = True
    return meets
