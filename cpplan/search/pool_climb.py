"""Local search over orders of first fit, on one pool or several: the idea of USMP's hill climbing.

A layout is described by an order of the buffers and, for each, an order of its pools. One move
takes a buffer that ends at the peak of a pool that counts, or one live together with it, and moves
it in the order, mostly forward, or prefers another pool for it. The new description is kept unless
its layout is worse. Unlike TVM's planner it fills gaps, aligns every buffer by its own alignment,
and hands back the best layout, not the last.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np

from cpplan.checks.pool_objective import Level, pool_peaks
from cpplan.deadline import Deadline
from cpplan.heuristics.in_pools import PoolFit, PoolLayout
from cpplan.problem import Ints, Problem

NAME = "hill climbing"

Values = tuple[int, ...]


class PoolClimb:
    """A search that can be continued: it keeps the order it has reached.

    Parameters
    ----------
    problem
        Buffers, candidates, pools.
    levels
        What is minimised, one level after another.
    order
        Rows, in the order to start from.
    seed
        Of the moves.

    Examples
    --------
    >>> from cpplan.checks.pool_objective import objective_levels
    >>> problem = Problem(("a", "b", "c"), lower=[0, 1, 2], upper=[2, 3, 4], size=[4, 8, 4])
    >>> climb = PoolClimb(problem, objective_levels(problem, "total"), np.arange(3), seed=0)
    >>> climb.run(10, (12,), Deadline(60))
    >>> climb.values, climb.layout.offset.tolist()
    ((12,), [0, 4, 0])
    """

    def __init__(self, problem: Problem, levels: Sequence[Level], order: Ints, seed: int):
        self.problem, self.levels = problem, levels
        self.layout: PoolLayout | None = None
        self.values: Values | None = None
        self._fit = PoolFit(problem)
        self._random = random.Random(seed)
        self._order = order
        self._preferred: dict[int, int] = {}

    def run(
        self,
        moves: int,
        goal: Values,
        deadline: Deadline,
        found: Callable[[PoolLayout], object] = lambda layout: None,
    ) -> None:
        """Make so many moves, or until the values are no more than ``goal``. O(n²) a move.

        ``found`` is told every layout that is better than the last. Raises ``TimeUpError`` in
        mid-move; what was reached stays.
        """
        if self.layout is None:
            self._try(self._order, self._preferred, deadline, found)
        for _ in range(moves):
            if self.values is None or self.values <= goal:
                return
            self._try(*self._neighbour(), deadline, found)

    def _try(
        self,
        order: Ints,
        preferred: dict[int, int],
        deadline: Deadline,
        found: Callable[[PoolLayout], object],
    ) -> None:
        layout = self._fit.place(order.tolist(), deadline, preferred)
        peaks = pool_peaks(self.problem, layout.pool, layout.offset)
        values = tuple(level.value(peaks, layout.pool) for level in self.levels)
        if self.values is None or values <= self.values:
            better = self.values is None or values < self.values
            self._order, self._preferred, self.layout, self.values = (
                order, preferred, layout, values,
            )  # fmt: skip
            if better:
                found(layout)

    def _neighbour(self) -> tuple[Ints, dict[int, int]]:
        row = self._pick()
        candidates = self.problem.candidates_of(row)
        if len(candidates) > 1 and self._random.random() < 0.4:
            return self._order, {**self._preferred, row: self._random.choice(list(candidates))}
        rank = int(np.flatnonzero(self._order == row)[0])
        last = rank - 1 if self._random.random() < 0.7 else len(self._order) - 1
        to = self._random.randint(0, max(0, last))
        return np.insert(np.delete(self._order, rank), to, row), self._preferred

    def _pick(self) -> int:
        """A buffer at the peak of a pool that counts, or one that is live together with it."""
        assert self.layout is not None
        problem = self.problem
        peaks = pool_peaks(problem, *self.layout)
        ends = self.layout.offset + problem.size
        top = np.flatnonzero(ends == peaks[self.layout.pool])
        counting = [k for k in self._counting(peaks) if (self.layout.pool[top] == k).any()]
        if counting:
            top = top[self.layout.pool[top] == self._random.choice(counting)]
        row: int = self._random.choice(top.tolist())
        if self._random.random() < 0.6:
            together = (problem.lower < problem.upper[row]) & (problem.upper > problem.lower[row])
            row = self._random.choice(np.flatnonzero(together).tolist())
        return row

    def _counting(self, peaks: Ints) -> list[int]:
        """Pools whose peaks make the first level that costs something."""
        for level in self.levels:
            costly = [
                pool
                for pool, weight in enumerate(level.weight)
                if weight and peaks[pool] > level.beyond[pool]
            ]
            if costly:
                return costly
        return []
