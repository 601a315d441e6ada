"""A packing of the retentions of a choice of gaps, in which some still wait for a place.

Retentions are placed below the fast pool's capacity by the moves of the insertion search of the
packing room: a waiting one takes the offset at which those in its way weigh least, and these wait
then. If the gaps kept change, retentions that stay, or become shorter, keep their places.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cpplan.model.problem import Ints
from cpplan.packing.tuning import active as packing_tuning
from cpplan.spilling.problem import Flags, SpillProblem
from cpplan.spilling.tuning import active as spilling_tuning

Floats = NDArray[np.float64]
# Deterministic seconds of a move: per retention, and per section of one.
_WORK, _WORK_A_CELL = 1.5e-8, 2e-10


class PartialPacking:
    """Retentions of the gaps kept, some of them placed; without aliases and immovable bytes.

    Parameters
    ----------
    problem
        The problem.
    align
        Alignment of each storage in the fast pool, bytes.
    capacity
        Capacity of the fast pool, without padding.
    seed
        Seed of the random moves.
    """

    def __init__(self, problem: SpillProblem, align: Sequence[int], capacity: int, seed: int):
        self.problem, self.capacity = problem, capacity
        self._align = np.array(align, np.int64)
        accesses, numbers = len(problem.access_step), np.arange(len(problem.gap_storage))
        self._before: Ints = np.full(accesses, -1, np.int64)
        self._after: Ints = self._before.copy()
        there = problem.gap_after >= 0
        self._before[problem.gap_after[there]] = numbers[there]
        there = problem.gap_before >= 0
        self._after[problem.gap_before[there]] = numbers[there]
        # Any odd multiplier spreads seeds; the state must not be zero.
        word = (seed + 1) * 0x9E3779B97F4A7C15 % 2**64
        self._random = np.array([word or 1], np.uint64)
        self._moves = self._since_decay = 0
        self.begin(problem.all_kept(), np.full(accesses, -1, np.int64))

    def begin(self, kept: Flags, places: Ints, penalty: Floats | None = None) -> None:
        """Take other gaps; ``places`` has an offset for each access, or -1 if it waits."""
        problem, tuning = self.problem, packing_tuning()
        self.kept = kept
        first, last = self._retentions()
        count, storage = len(first), problem.access_storage[first]
        section, lower, upper = self._sections()
        self.size: Ints = problem.size[storage]
        self._step: Ints = self._align[storage]
        self._spans = np.arange(count + 1), lower, upper
        self.move_work = _WORK * count + _WORK_A_CELL * int((upper - lower).sum())
        self._scratch = (
            *(np.empty(section, np.int64) for _ in range(2)),
            *(np.empty(count, np.int64) for _ in range(3)),
            np.empty(count),
        )
        self._meets = (lower[:, None] < upper[None, :]) & (upper[:, None] > lower[None, :])
        np.fill_diagonal(self._meets, False)
        difficulty = self.size * np.sqrt(upper - lower)
        self._difficulty = difficulty / max(difficulty.mean(), 1.0) if count else difficulty * 1.0
        self._penalty = np.ones(count) if penalty is None else penalty[first]
        self._held, self._pinned = np.zeros(count, np.int64), np.full(count, -1, np.int64)
        # Accesses whose offset differs from that of the access before.
        breaks = np.cumsum(np.diff(places, prepend=-1) != 0)
        self._placed: Flags = (places[first] >= 0) & (breaks[first] == breaks[last])
        self._lowest_end = np.where(self._placed, places[first], 0) + self.size
        rank = np.argsort(self._lowest_end, kind="stable")
        rank = rank[self._placed[rank]]
        self._order, self._by_latest = np.zeros((2, count + 1), np.int64)
        self._order[: len(rank)] = self._by_latest[: len(rank)] = rank
        self._latest = np.zeros(count, np.int64)
        self._cursor = np.array([len(rank), self._moves, tuning.insertion_tenure], np.int64)

    def _retentions(self) -> tuple[Ints, Ints]:
        """First and last access of each retention; their steps go to ``lower`` and ``upper``."""
        problem, kept = self.problem, self.kept
        near, joined = problem.near(kept), np.zeros(len(problem.access_step), bool)
        joined[problem.gap_after[kept & (problem.gap_before >= 0) & (problem.gap_after >= 0)]] = (
            True
        )
        self._first = np.flatnonzero(near & ~joined)
        self._last = np.flatnonzero(near & ~np.append(joined, False)[1:])
        self.lower = problem.access_step[self._first].copy()
        self.upper = problem.access_step[self._last] + 1
        self._head, self._tail = self._before[self._first], self._after[self._last]
        self._head = np.where((self._head >= 0) & kept[self._head], self._head, -1)
        self._tail = np.where((self._tail >= 0) & kept[self._tail], self._tail, -1)
        self.lower[self._head >= 0] = 0
        self.upper[self._tail >= 0] = problem.steps
        return self._first, self._last

    def _sections(self) -> tuple[int, Ints, Ints]:
        """Number of sections: runs of steps with the same overlaps; each retention's range."""
        steps = self.problem.steps
        begins, ends = np.zeros(steps, bool), np.zeros(steps, bool)
        begins[self.lower], ends[self.upper - 1] = True, True
        section, number, ended = np.zeros(steps, np.int64), 0, False
        for step, (begun, ending) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
            if begun and ended:
                number, ended = number + 1, False
            section[step] = number
            ended = ended or ending
        return number + 1, section[self.lower], section[self.upper - 1] + 1

    def move(self, moves: int) -> bool:
        """Make some moves, and return true if no retention waits."""
        from cpplan.packing.search import insertion_kernel as kernel

        tuning = packing_tuning()
        found = kernel.search(
            moves, self.capacity, tuning.insertion_learning, self._spans, self._scratch, self.size,
            self._step, self._pinned, self._meets, self._difficulty, self._penalty, self._held,
            self._placed, self._order, self._by_latest, self._lowest_end, self._latest,
            self._cursor, self._random,
        )  # fmt: skip
        self._moves = int(self._cursor[kernel.MOVES])
        self._since_decay += moves
        if self._since_decay >= spilling_tuning().repacking_epoch:
            self._penalty += 0.5 * (1 - self._penalty)
            self._since_decay = 0
        return bool(found)

    @property
    def waiting(self) -> Ints:
        """Retentions without a place."""
        return np.flatnonzero(~self._placed)

    def gaps_of(self, retention: int) -> list[int]:
        """Gaps through which a retention is kept."""
        inner = self._after[self._first[retention] : self._last[retention]]
        ends = [int(gap) for gap in (self._head[retention], self._tail[retention]) if gap >= 0]
        return [*inner.tolist(), *ends]

    def places(self) -> Ints:
        """Offset of each access, or -1 if it waits or happens in the slow pool."""
        found: Ints = np.full(len(self.problem.access_step), -1, np.int64)
        access, length = self._accesses()
        found[access] = np.repeat(np.where(self._placed, self._lowest_end - self.size, -1), length)
        return found

    def penalty(self) -> Floats:
        """Weight that the moves have learned for each retention, for each of its accesses."""
        found: Floats = np.ones(len(self.problem.access_step))
        access, length = self._accesses()
        found[access] = np.repeat(self._penalty, length)
        return found

    def _accesses(self) -> tuple[Ints, Ints]:
        """Accesses of all retentions, one after another, and the number of each retention."""
        length = self._last - self._first + 1
        begun = np.cumsum(length) - length
        return np.repeat(self._first - begun, length) + np.arange(int(length.sum())), length
