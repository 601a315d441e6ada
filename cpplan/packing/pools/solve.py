"""``pack_pools``: the stages that place buffers in several pools, under one deadline.

Bounds and heuristics come first. If value and bound still differ, these searches take turns:
CP-SAT on pools alone, as if bytes were a liquid; packing each pool of such an assignment; and
CP-SAT on pools and offsets together. The levels of the objective are settled one after another. A
proof ends the run, or the deadline.

As a liquid, bytes need no offsets: CP-SAT assigns pools so that each can hold its live bytes. Each
pool of such an assignment is then a packing problem of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cpplan.model.levels import Level
from cpplan.model.plan_data import Status
from cpplan.model.pool import Objective
from cpplan.model.problem import Ints, Problem
from cpplan.packing import heuristics, tuning
from cpplan.packing.bounds import lower_bound
from cpplan.packing.heuristics.by_lowest_offset import PREORDERS, preorder
from cpplan.packing.heuristics.in_pools import PoolFit, PoolLayout, run_in_pools
from cpplan.packing.incumbent import Incumbent
from cpplan.packing.levels import LevelIncumbent
from cpplan.packing.pools.objective import objective_levels
from cpplan.packing.pools.within_capacities import WithinCapacities, stacked
from cpplan.packing.reduction import reduce_problem
from cpplan.packing.shortfall import explain_pool_shortfall
from cpplan.packing.solve import pack
from cpplan.program.pool_candidates import check_candidates
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import TimeUpError
from cpplan.runtime.turns import Turn, Turns
from cpplan.verification.verifier import check_offsets

# Several pools: CP-SAT's deterministic time for each run on live bytes alone in the first turn.
# It is much quicker without offsets, and its assignments can mostly be packed.
_POOLS_FIRST_LIQUID_WORK = 0.4
# CP-SAT's deterministic time on pools and offsets together in the first turn.
_POOLS_FIRST_WORK = 0.05

Report = Callable[[tuple[int | float, ...] | None, tuple[int | float, ...], str], None]

_ANY = 2**62


@dataclass(frozen=True, slots=True, eq=False)
class PooledPacking:
    """A layout over several pools, and the bounds proved.

    Attributes
    ----------
    status
        As a plan's.
    pool, offset
        Position in ``problem.pools`` and byte offset of every buffer, shape ``(n,)``; ``None`` if
        nothing was found that fits.
    objective_value, objective_bound
        As a plan's; no value without a layout.
    found_by, bound_by
        Name of the method that found the layout, and of the proof of each level's bound, or of the
        proof that nothing fits.
    message
        The reason for having no layout, if there is none.
    """

    status: Status
    pool: Ints | None
    offset: Ints | None
    objective_value: tuple[int | float, ...]
    objective_bound: tuple[int | float, ...]
    found_by: str | None
    bound_by: tuple[str, ...]
    message: str | None = None


def pack_pools(
    problem: Problem,
    objective: Objective,
    budget: Budget,
    *,
    levels: Sequence[Level] | None = None,
    report: Report = lambda value, bound, source: None,
) -> PooledPacking:
    """The best layout found by the deadline, or by Ctrl-C."""
    check_candidates(problem)
    if levels is None:
        levels = objective_levels(problem, objective)
    run = _PoolRun(problem, levels, budget, report)
    with suppress(TimeUpError):
        run.improve()
    return run.packing()


class _Liquid(NamedTuple):
    """An assignment of pools, and its value if only live bytes count."""

    pool: Ints
    value: int


class _PoolRun:
    """State of a run over several pools; see :func:`pack_pools` for the parameters."""

    def __init__(
        self,
        problem: Problem,
        levels: Sequence[Level],
        budget: Budget,
        report: Report,
    ):
        self.problem, self.budget, self.deadline = problem, budget, budget.deadline
        reduced = reduce_problem(problem).problem
        # Buffers without bytes count at their ends too: then the problem is not reduced.
        self.pools = len(problem.pools)
        self.small = reduced if len(reduced) == len(problem) else problem
        self.objective = WithinCapacities(self.small, levels)
        self.levels = self.objective.levels
        self.state = LevelIncumbent(
            self.objective,
            stacked(self.small),
            "bump",
            self.objective.bounds(),
            limit=0,
            report=self._tell,
        )
        self._report = report
        self.liquid: dict[int, _Liquid] = {}

    def improve(self) -> None:
        """Run until all levels are settled or no search applies; may raise ``TimeUpError``."""
        self.state.announce()
        self._run_heuristics()
        turns = Turns(tuning.active().most_effort)
        turns.run(self._turn, lambda: self.state.done, self.deadline)

    def _turn(self, effort: int) -> Turn:
        tried = False
        for search in (self._run_liquid, self._run_full):
            tried |= search(effort)
            if self.state.done:
                break
            self.deadline.check()
        return Turn.LONGER if tried else Turn.LAST  # too large for all searches

    def packing(self) -> PooledPacking:
        """The best layout and bounds so far."""
        state, problem = self.state, self.problem
        bound = self.objective.shown(state.least)
        names = tuple(bound.name for bound in state.bounds[1:])
        if state.bounds[0].value:
            names = (state.bounds[0].name,)
        if not state.fits:
            status: Status = "infeasible" if state.bounds[0].value else "unknown"
            why = explain_pool_shortfall(problem, state.best, state.bounds[0])
            return PooledPacking(status, None, None, (), bound, None, names, why)
        pool, offset = state.best
        value = self.objective.shown(state.values)
        status = "optimal" if value == bound else "feasible"
        return PooledPacking(status, pool, offset, value, bound, state.found_by, names)

    def _tell(self, state: LevelIncumbent[PoolLayout], source: str) -> None:
        shown = self.objective.shown
        self._report(shown(state.values) if state.fits else None, shown(state.least), source)

    def _run_heuristics(self) -> None:
        state, problem = self.state, self.small
        for name in heuristics.portfolio():
            if state.done:
                return
            self.deadline.check()
            layout = run_in_pools(name, problem, self.deadline)
            if layout is not None and state.offer(layout, name):
                self._check(layout, name)
        if len(problem) > tuning.active().pools_ordered_buffers:
            return
        for level in (None, self.levels[1]):
            fit = PoolFit(problem, level)
            for word in PREORDERS:
                if state.done:
                    return
                layout = fit.place(preorder(problem, word).tolist(), self.deadline)
                state.offer(layout, f"first fit in pools {word}")
        self._pack_assignment(state.best.pool, 0)

    def _check(self, layout: PoolLayout, name: str) -> None:
        for number in range(self.pools):
            rows = np.flatnonzero(layout.pool == number)
            check_offsets(self.small.in_pool(number, rows), layout.offset[rows], name)

    def _run_liquid(self, effort: int) -> bool:
        """Assign pools as if bytes were a liquid while that improves; then pack with full effort.

        Returns false if the problem is too large for it.
        """
        for _ in range(tuning.active().pools_liquid_runs * len(self.levels)):
            active = self.state.active
            if self.state.done or active is None:
                return True
            before = self.liquid.get(active)
            if before is not None and before.value <= self.state.bounds[active].value:
                break
            if not self._pour(active, effort):
                return False
            if self.state.active == active and self.liquid.get(active) is before:
                break
            self.deadline.check()
        active = self.state.active
        if active is not None and active in self.liquid:
            self._pack_assignment(self.liquid[active].pool, effort)
        return True

    def _pour(self, active: int, effort: int) -> bool:
        """Improve the best assignment by live bytes and pack it quickly; false if too large."""
        best = self.liquid.get(active)
        start, peaks = self.state.best, None
        if best is not None:
            start = PoolLayout(best.pool, np.zeros(len(best.pool), np.int64))
            peaks = self._liquid_peaks(best.pool)
        found: list[PoolLayout] = []
        if not self._search(active, effort, start, peaks, liquid=True, found=found.append):
            return False
        if found:
            pool = found[-1].pool
            value = self._liquid_value(active, pool)
            if best is None or value < best.value:
                self.liquid[active] = _Liquid(pool, value)
                self._pack_assignment(pool, 0)
        return True

    def _liquid_value(self, active: int, pool: Ints) -> int:
        """Lower bound on a level for an assignment, in its units."""
        level = self.levels[active]
        if level.rows is None:
            return level.value(self._liquid_peaks(pool), pool)
        return level.of(self.small, pool, np.zeros(len(pool), np.int64))

    def _liquid_peaks(self, pool: Ints) -> Ints:
        """Lower bound on every pool's peak for an assignment, bytes, shape ``(pools,)``."""
        parts = (self.small.in_pool(k, np.flatnonzero(pool == k)) for k in range(self.pools))
        return np.array([lower_bound(part).value for part in parts], np.int64)

    def _run_full(self, effort: int) -> bool:
        active = self.state.active
        assert active is not None
        return self._search(active, effort, self.state.best, None, liquid=False, found=self._take)

    def _take(self, layout: PoolLayout) -> None:
        from cpplan.packing.pools.cp_sat_pools import NAME

        self.state.offer(layout, NAME)

    def _search(
        self,
        active: int,
        effort: int,
        start: PoolLayout,
        peaks: Ints | None,
        *,
        liquid: bool,
        found: Callable[[PoolLayout], object],
    ) -> bool:
        from cpplan.packing.pools.cp_sat_pools import LIQUID_NAME, NAME, LevelProblem, search_level

        state = self.state
        name = LIQUID_NAME if liquid else NAME
        task = LevelProblem(
            self.small,
            self.levels[: active + 1],
            state.values[: active + 1],
            self.objective.limits(active, state.values),
            state.bounds[active].value,
            liquid,
        )
        return search_level(
            task,
            start,
            self.budget,
            work=(_POOLS_FIRST_LIQUID_WORK if liquid else _POOLS_FIRST_WORK) * effort,
            found=found,
            proved=lambda bound: state.offer_bound(active, bound, name),
            peaks=peaks,
        )

    def _pack_assignment(self, pool: Ints, effort: int) -> None:
        """Pack every pool of an assignment, and offer the layout.

        A pool whose peak costs nothing need only keep within its limit.
        """
        state = self.state
        active = state.active
        if state.done or active is None:
            return
        level, limits = self.levels[active], self.objective.limits(active, state.values)
        offset = np.zeros(len(pool), np.int64)
        name = state.found_by
        for number, limit in enumerate(limits):
            rows = np.flatnonzero(pool == number)
            part = self.small.in_pool(number, rows)
            enough = _ANY if limit is None else limit
            if level.weight[number] and level.rows is None:
                enough = level.beyond[number]
            incumbent = Incumbent(part, target=enough)
            pack(incumbent, self.budget, most_effort=effort)
            offset[rows] = incumbent.reduction.restore(incumbent.offsets, part)
            name = incumbent.found_by or name
        state.offer(PoolLayout(pool, offset), name)
