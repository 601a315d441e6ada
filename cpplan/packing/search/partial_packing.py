"""A partial packing below a limit, with learned weights; see :mod:`insertion_search`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cpplan.packing.search.tightness import tightness
from cpplan.packing.tuning import active

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cpplan.model.problem import Ints, Problem

# For deadlines that count work: seconds a move for each buffer, and for each section of each span.
_WORK, _WORK_A_CELL = 1.5e-8, 2e-10
# Any odd multiplier spreads seeds.
_SPREAD = 0x9E3779B97F4A7C15


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
        self._cursor = np.array([0, 0, active().insertion_tenure], np.int64)
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
                active().insertion_learning,
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
