"""Objective of layouts over several pools; its first level is the bytes beyond the capacities."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from cpplan.model.levels import Level
from cpplan.model.problem import Ints, Problem
from cpplan.packing.bounds import Bound
from cpplan.packing.heuristics.greedy import bump
from cpplan.packing.heuristics.in_pools import PoolLayout, run_in_pools
from cpplan.packing.pools.bounds import excess_bound, level_bound, lower_limits
from cpplan.packing.pools.objective import excess_level
from cpplan.runtime.deadline import Deadline


class WithinCapacities:
    """Objective of layouts: level 0 is the bytes beyond the capacities, the given levels follow.

    Attributes
    ----------
    problem, levels
        The problem, and all levels including level 0.
    """

    def __init__(self, problem: Problem, levels: Sequence[Level]):
        self.problem = problem
        self.levels: tuple[Level, ...] = (excess_level(problem), *levels)

    def values(self, layout: PoolLayout) -> tuple[int, ...]:
        """The value of every level, in its units."""
        return tuple(level.of(self.problem, *layout) for level in self.levels)

    def bound(self, level: int, values: Sequence[int]) -> Bound:
        """Lower bound on a level for layouts with these values on the earlier levels."""
        return level_bound(self.problem, self.levels[level], self.limits(level, values))

    def bounds(self) -> list[Bound]:
        """Lower bound on every level for all layouts."""
        excess, limits = excess_bound(self.problem), self.limits(1, ())
        if excess.value:
            # Nothing fits, so the other levels are bounded without capacities; they are not used.
            limits = self.limits(0, ())
        return [excess, *(level_bound(self.problem, level, limits) for level in self.levels[1:])]

    def limits(self, level: int, values: Sequence[int]) -> list[int | None]:
        """Limits on every pool's peak, from the capacities and the values of earlier levels."""
        if level == 0:
            return [None] * len(self.problem.pools)
        limits: list[int | None] = [pool.capacity for pool in self.problem.pools]
        for former, value in zip(self.levels[1:level], values[1:level], strict=False):
            limits = lower_limits(former, value, limits)
        return limits

    def shown(self, values: Sequence[int]) -> tuple[int | float, ...]:
        """Values of the given levels, without level 0, as users see them."""
        pairs = zip(self.levels[1:], values[1:], strict=True)
        return tuple(level.shown(value) for level, value in pairs)


def stacked(problem: Problem) -> PoolLayout:
    """A layout without shared bytes: each buffer in its first candidate with room.

    If this does not fit, every buffer is in its first candidate.
    """
    layout = run_in_pools("bump", problem, Deadline(math.inf))
    if layout is not None:
        return layout
    pool = np.array([problem.candidates_of(row)[0] for row in range(len(problem))], np.int64)
    offset: Ints = np.zeros(len(problem), np.int64)
    for number in range(len(problem.pools)):
        rows = np.flatnonzero(pool == number)
        offset[rows] = bump(problem.in_pool(number, rows))
    return PoolLayout(pool, offset)
