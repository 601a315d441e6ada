"""Spilling if ops may run again: the schedule and the moves of least time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from cpplan.model.errors import InputError
from cpplan.model.pool import Pool
from cpplan.model.residency import Residency
from cpplan.program.anf import Program
from cpplan.program.timeline import run_time
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import TimeUpError
from cpplan.spilling.bounds import MovedBound
from cpplan.spilling.outcome import Spilled, find_shortfall
from cpplan.spilling.search.again import NAME, Estimate, Schedules
from cpplan.spilling.search.one_order import FIRST_SHARE, SEARCH_SHARE
from cpplan.spilling.solve import spill
from cpplan.spilling.tuning import active
from cpplan.verification.bound_table import EVERY_OP_ONCE

# If ops may run again: share of the time left for each single change of the best schedule.
_CHANGE_SHARE = 0.2
# If ops may run again: share of the time for moves alone at the given order.
_ALONE_SHARE = 0.2
# Number of schedules in which ops run again for which moves are planned first.
_SCHEDULES_PLANNED = 3


class Start(NamedTuple):
    """A schedule to start from: names of its ops, and offsets if it fits without moves."""

    ops: tuple[str, ...]
    places: Mapping[str, int] = {}


Report = Callable[[int | None, int, str], None]


def spill_or_recompute(
    program: Program,
    residency: Residency,
    pools: tuple[Pool, Pool],
    budget: Budget,
    *,
    share: bool = False,
    schedules: Iterable[Start] = (),
    once: bool = False,
    report: Report = lambda paid, bound, source: None,
) -> Spilled:
    """The plan of least time found within the budget, in which ops may run again.

    The first plans are the given order with moves, and the schedules that fit without moves. Then
    the given order and the schedules are improved by estimates of their time. Moves and offsets are
    searched for at the best schedules, whose moves lead to further schedules, and at the starts; in
    the end at the best schedule after each single change.
    """
    if once:
        found = spill(program, residency, pools, budget, share=share, time=True, report=report)
        return _bounded(replace(found, origin={}))
    known = Schedules(program.graph, residency, pools, share=share)
    search = _Search(known, program, budget, report)
    with suppress(TimeUpError):
        search.run(schedules)
    return search.outcome()


class _Search:
    """The best plan so far, and the schedules tried."""

    def __init__(self, known: Schedules, program: Program, budget: Budget, report: Report):
        self.known, self.program, self.budget, self.report = known, program, budget, report
        self.best: Spilled | None = None
        self.first: Spilled | None = None
        self.schedule = program.names
        self.tried: set[tuple[str, ...]] = set()

    def run(self, schedules: Iterable[Start]) -> None:
        """Search until the deadline, or until no change improves the plan."""
        tuning, budget = active(), self.budget
        given = self.program.names
        self._plan(given, budget.share(_ALONE_SHARE))
        starts = [given]
        for start in schedules:
            starts.append(start.ops)
            if start.places:
                self._plan(start.ops, budget.share(FIRST_SHARE), start.places)
        climbed = [self._climbed(start, budget.share(tuning.climb_share)) for start in starts]
        found = [estimate for estimate in climbed if estimate is not None]
        found.sort(key=lambda estimate: estimate.time)
        for estimate in found[:_SCHEDULES_PLANNED]:
            follows: Estimate | None = estimate
            while follows is not None and not budget.deadline.expired():
                follows = self._followed(follows)
        for schedule in starts:
            self._plan(schedule, budget.share(SEARCH_SHARE))
        while self._improved():
            pass

    def _climbed(self, schedule: tuple[str, ...], budget: Budget) -> Estimate | None:
        start = self.known.estimate(schedule, self.budget.deadline)
        return None if start is None else self.known.climb(start, budget.deadline)

    def _followed(self, estimate: Estimate) -> Estimate | None:
        """A better schedule derived from the moves planned for one, or ``None``."""
        planned = self._plan(estimate.schedule, self.budget.share(SEARCH_SHARE))
        if planned is None or planned.choice is None:
            return None
        exact = self.known.known(
            estimate.schedule, estimate.runs, estimate.problem, planned.choice.kept
        )
        share = self.budget.share(active().climb_share)
        better = self.known.climb(exact, share.deadline)
        return better if better.time < exact.time else None

    def _improved(self) -> bool:
        """Plan the best schedule after each change by itself; true if one takes less time.

        Eviction rules mostly move more than a change saves, where the search for moves does not.
        """
        best, deadline = self.best, self.budget.deadline
        estimate = None if best is None else self.known.estimate(self.schedule, deadline)
        if best is None or estimate is None:
            return False
        if best.choice is not None:
            estimate = replace(estimate, kept=best.choice.kept)
        for schedule in self.known.changed(estimate):
            if deadline.expired():
                return False
            with suppress(InputError):  # an op would run before its inputs
                self._plan(schedule, self.budget.share(_CHANGE_SHARE))
            if self.best is not best:
                return True
        return False

    def _plan(
        self, schedule: Sequence[str], budget: Budget, places: Mapping[str, int] | None = None
    ) -> Spilled | None:
        """Plan a schedule's moves and offsets, and keep the best; ``None`` if it was tried."""
        if tuple(schedule) in self.tried or budget.deadline.expired():
            return None
        self.tried.add(tuple(schedule))
        known = self.known
        runs = known.runs(schedule)
        program = Program(runs.graph, tuple(range(len(runs.graph.ops))))
        found = spill(
            program, known.residency, known.pools, budget, share=known.share, time=True,
            places=places or {},
        )  # fmt: skip
        found = replace(found, origin=runs.origin)
        self.first = self.first or found
        if found.layout is not None and (self.best is None or self._time(found) < self._time()):
            again = len(schedule) > len(known.graph.ops)
            self.best = replace(found, order_by=NAME if again else None)
            self.schedule = tuple(schedule)
            cost = self._time()
            self.report(round(cost), 0, str(self.best.found_by))
        return found

    def _time(self, found: Spilled | None = None) -> float:
        found = found or self.best
        assert found is not None
        assert found.layout is not None
        layout = found.layout
        return run_time(found.program.graph, layout.order, layout.moves, self.known.pools[1])

    def outcome(self) -> Spilled:
        """The best plan; its bound holds for every schedule."""
        found = self.best or self.first
        if found is None:
            empty = spill(
                self.program, self.known.residency, self.known.pools, self.budget,
                share=self.known.share, time=True,
            )  # fmt: skip
            found = replace(empty, origin={})
        return _bounded(found)


def _bounded(found: Spilled) -> Spilled:
    """The outcome with a bound that holds for every schedule; no op may fit in any of them."""
    short = None
    if found.layout is None and found.shortfall is not None:
        assert found.problem is not None
        short = find_shortfall(found.problem, alone=True)
    return replace(
        found,
        bound=MovedBound(0, EVERY_OP_ONCE),
        every_order=True,
        shortfall=short,
        exhausted=False,
    )
