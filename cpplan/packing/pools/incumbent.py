"""The best layout over several pools and the best bounds so far, level by level."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from cpplan.model.problem import Ints, Problem
from cpplan.packing.heuristics.bump_allocator import bump
from cpplan.packing.heuristics.in_pools import PoolLayout, run_in_pools
from cpplan.packing.pools.bounds import excess_bound, level_bound, lower_limits
from cpplan.packing.pools.fullest_steps import PoolBound
from cpplan.packing.pools.objective import Level, excess_level, pool_peaks
from cpplan.runtime.deadline import Deadline

Report = Callable[[tuple[int | float, ...] | None, tuple[int | float, ...], str], None]


class PoolIncumbent:
    """The best layout so far, with its values and bounds, that the stages of a run pass on.

    Level 0 is the bytes beyond the capacities; the objective's levels follow. There is always a
    layout, but it may not fit. A level is *settled* once its value meets its bound; the bound of
    the next level then holds for layouts that are as good in the settled ones.

    Attributes
    ----------
    problem, levels
        The problem, and the levels minimised: bytes beyond the capacities, and the objective.
    layout
        The best layout found.
    values, bounds
        Value and lower bound of every level, in its units.
    found_by
        Name of the method that found the layout.
    """

    def __init__(self, problem: Problem, levels: Sequence[Level], report: Report):
        self.problem = problem
        self.levels: tuple[Level, ...] = (excess_level(problem), *levels)
        self._capacities = [pool.capacity for pool in problem.pools]
        self._report = report
        excess = excess_bound(problem)
        free = [None] * len(problem.pools)
        later = (level_bound(problem, level, self._capacities) for level in self.levels[1:])
        # What cannot fit is bounded as if it could: nothing is asked of those levels any more.
        self.bounds: list[PoolBound] = (
            [excess, *later]
            if excess.value == 0
            else [excess, *(level_bound(problem, level, free) for level in self.levels[1:])]
        )
        self.layout = _stacks(problem)
        self.values = self.evaluate(self.layout)
        self.found_by = "bump"
        self._next_bounds(0)

    @property
    def active(self) -> int | None:
        """The first level that is not settled; ``None`` if all are, or nothing can fit."""
        if self.bounds[0].value > 0:
            return None
        pairs = zip(self.values, self.bounds, strict=True)
        return next((k for k, (value, bound) in enumerate(pairs) if value > bound.value), None)

    @property
    def done(self) -> bool:
        return self.active is None

    @property
    def fits(self) -> bool:
        return self.values[0] == 0

    @property
    def limits(self) -> list[int | None]:
        """Limits on every pool's peak, by the capacities and the levels before the active one."""
        active = self.active
        return self._limits(len(self.levels) - 1 if active is None else active)

    @property
    def goal(self) -> tuple[int, ...]:
        return tuple(bound.value for bound in self.bounds)

    def evaluate(self, layout: PoolLayout) -> tuple[int, ...]:
        peaks = pool_peaks(self.problem, layout.pool, layout.offset)
        return tuple(level.value(peaks, layout.pool) for level in self.levels)

    def offer(self, layout: PoolLayout, name: str) -> bool:
        """Take a layout if it is better."""
        values = self.evaluate(layout)
        if values >= self.values:
            return False
        before = self._settled()
        self.layout, self.values, self.found_by = layout, values, name
        self._next_bounds(before)
        self._tell(name)
        return True

    def offer_bound(self, level: int, value: int, name: str) -> None:
        """Take a bound on a level, proved while the former ones were no worse than they are now.

        While those are not settled, it holds for them only, and is of no use.
        """
        before = self._settled()
        if level == before and value > self.bounds[level].value:
            self.bounds[level] = PoolBound(value, name)
            self._next_bounds(before)
            self._tell(name)

    def announce(self) -> None:
        self._tell(self.found_by)

    def shown(self, values: Sequence[int]) -> tuple[int | float, ...]:
        """Values of the objective's levels as users see them."""
        pairs = zip(self.levels[1:], values[1:], strict=True)
        return tuple(level.shown(value) for level, value in pairs)

    def _settled(self) -> int:
        """Number of leading levels that are settled."""
        active = self.active
        return len(self.levels) if active is None else active

    def _next_bounds(self, before: int) -> None:
        """Bound every level that has become active by now, given those settled before it."""
        for k in range(before, len(self.levels) - 1):
            if self.bounds[0].value > 0 or self.values[k] > self.bounds[k].value:
                return
            bound = level_bound(self.problem, self.levels[k + 1], self._limits(k + 1))
            if bound.value > self.bounds[k + 1].value:
                self.bounds[k + 1] = bound

    def _limits(self, active: int) -> list[int | None]:
        if active == 0:
            return [None] * len(self.problem.pools)
        limits: list[int | None] = list(self._capacities)
        for level, value in zip(self.levels[1:active], self.values[1:active], strict=True):
            limits = lower_limits(level, value, limits)
        return limits

    def _tell(self, source: str) -> None:
        values = self.shown(self.values) if self.fits else None
        self._report(values, self.shown(self.goal), source)


def _stacks(problem: Problem) -> PoolLayout:
    """No bytes shared: in the first candidate that has room; in the first, if nothing else fits."""
    layout = run_in_pools("bump", problem, Deadline(math.inf))
    if layout is not None:
        return layout
    pool = np.array([problem.candidates_of(row)[0] for row in range(len(problem))], np.int64)
    offset: Ints = np.zeros(len(problem), np.int64)
    for number in range(len(problem.pools)):
        rows = np.flatnonzero(pool == number)
        offset[rows] = bump(problem.in_pool(number, rows))
    return PoolLayout(pool, offset)
