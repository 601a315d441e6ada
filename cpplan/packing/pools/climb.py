"""Local search over orders of first fit, in one pool or several, after USMP's hill climbing.

A layout is described by an order of the buffers and, for some, a preferred pool. A buffer is
critical if it ends at the peak of a pool that counts, or if it costs less in another pool. A move
takes a critical buffer or one live together with it. It moves the buffer in the order, mostly
forward, or prefers another pool for it. The new description is kept unless its layout is worse.
Unlike TVM's planner, this search fills gaps, aligns every buffer by its own alignment, and returns
the best layout, not the last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cpplan.model.levels import Level, pool_peaks
from cpplan.model.problem import Ints, Problem
from cpplan.packing.heuristics.in_pools import PoolFit, PoolLayout
from cpplan.packing.search.ranking_search import OrderMoves
from cpplan.runtime.deadline import Deadline

NAME = "hill climbing"

Values = tuple[int, ...]


class PoolClimb:
    """A local search that keeps its order, so that it can be continued.

    Parameters
    ----------
    problem
        Buffers, candidates, pools.
    levels
        Levels to minimise, one after another.
    order
        Rows in the order of the first layout.
    seed
        Seed of the random moves.
    """

    def __init__(self, problem: Problem, levels: Sequence[Level], order: Ints, seed: int):
        self.problem, self.levels = problem, levels
        self.layout: PoolLayout | None = None
        self.values: Values | None = None
        self._fit = PoolFit(problem)
        self._moves = OrderMoves(problem, seed, together=0.6)
        self._order = order
        self._preferred: dict[int, int] = {}
        rows = [list(problem.candidates_of(row)) for row in range(len(problem))]
        self._least_access = [
            [int(level.access[row, pools].min()) for row, pools in enumerate(rows)]
            for level in levels
        ]

    def run(
        self,
        moves: int,
        target: Values,
        deadline: Deadline,
        found: Callable[[PoolLayout], object] = lambda layout: None,
    ) -> None:
        """Make ``moves`` moves, or until the values are no more than ``target``. O(n²) a move.

        ``found`` is called with every better layout. Raises ``TimeUpError`` during a move; the best
        layout is kept.
        """
        if self.layout is None:
            self._try(self._order, self._preferred, deadline, found)
        for _ in range(moves):
            if self.values is None or self.values <= target:
                return
            self._try(*self._neighbour(target), deadline, found)

    def _try(
        self,
        order: Ints,
        preferred: dict[int, int],
        deadline: Deadline,
        found: Callable[[PoolLayout], object],
    ) -> None:
        layout = self._fit.place(order.tolist(), deadline, preferred)
        values = tuple(level.of(self.problem, *layout) for level in self.levels)
        if self.values is None or values <= self.values:
            better = self.values is None or values < self.values
            self._order, self._preferred, self.layout, self.values = (
                order, preferred, layout, values,
            )  # fmt: skip
            if better:
                found(layout)

    def _neighbour(self, target: Values) -> tuple[Ints, dict[int, int]]:
        assert self.values is not None
        pairs = zip(self.values, target, strict=True)
        # The first level beyond its target.
        number = next(k for k, (value, least) in enumerate(pairs) if value > least)
        row, at_hand = self._moves.pick(self._critical(number))
        choose = self._moves.random
        candidates = self.problem.candidates_of(row)
        if len(candidates) > 1 and choose.random() < 0.4:
            return self._order, {**self._preferred, row: choose.choice(list(candidates))}
        return self._moves.shift(self._order, row, at_hand=at_hand), self._preferred

    def _critical(self, number: int) -> list[int]:
        """Buffers at the peak of a pool that counts, or buffers that cost less in another pool."""
        assert self.layout is not None
        level, (pool, offset) = self.levels[number], self.layout
        peaks = pool_peaks(self.problem, pool, offset, level.rows)
        top = offset + self.problem.size == peaks[pool]
        if level.rows is not None:
            top &= np.isin(np.arange(len(pool)), level.rows)
        kinds = [
            np.flatnonzero(top & (pool == k))
            for k, weight in enumerate(level.weight)
            if weight and peaks[k] > level.beyond[k]
        ]
        access = level.access[np.arange(len(pool)), pool]
        kinds.append(np.flatnonzero(access > self._least_access[number]))
        found = [each.tolist() for each in kinds if len(each)]
        return self._moves.random.choice(found) if found else list(range(len(pool)))
