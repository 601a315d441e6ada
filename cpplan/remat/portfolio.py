"""The searches for a schedule within a limit on live bytes, or on the cost, in turns.

First come orders without repetitions: the given order, then a searched one. Then values are
dropped, and local search follows; if there are few units, also CP-SAT on all of them. In between,
bounds are proved: on the bytes of every schedule, and on the cost of those within the limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain

import numpy as np

from cpplan.model.costs import sum_costs
from cpplan.ordering import heuristics as order_rules
from cpplan.ordering.solve import search_order
from cpplan.remat.cut_bounds import cut_bound
from cpplan.remat.cut_floor import cut_floor
from cpplan.remat.footprint import CHAIN, CUTS, REACH, Footprint, reach_bound
from cpplan.remat.heuristics.chain import as_chain, solve_chain
from cpplan.remat.heuristics.dropping import NAME as DROPPING
from cpplan.remat.heuristics.dropping import drop, without_unread_runs
from cpplan.remat.heuristics.starts import (
    first_schedules,
    smallest_by_cuts,
    smallest_by_dropping,
)
from cpplan.remat.known_schedules import KnownSchedules, RematOutcome, better
from cpplan.remat.peak_bounds import PeakBound, PeakSearch
from cpplan.remat.relaxed import relax_repetition
from cpplan.remat.search.descent import Descent
from cpplan.remat.search.local_search import NAME as LOCAL
from cpplan.remat.search.local_search import search_schedules
from cpplan.remat.tuning import active
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline, TimeUpError

# Share of a schedule's time for orders without repetition.
_LIVE_ORDER_SHARE = 0.5
# Share for starts. They end by themselves, mostly within a second. A busy machine must not cut
# them short, since no later search makes up for them.
_START_SHARE = 0.8
# Share for a proof that there is no schedule.
_REACH_SHARE = 0.05
# Share for CP-SAT on the whole schedule, if there are few units.
_WHOLE_SHARE = 0.3
# Share for a bound on the cost.
_BOUND_SHARE = 0.2
# Share for local search.
_LOCAL_SHARE = 0.6
# Least peak: share of the time of starts for minimum cuts.
_CUT_SHARE = 0.5
# Largest live bytes of a start, as a multiple of the limit, that may be brought below it.
_START_NEAR = 1.15
# Least bytes at first runs: share of the time for a proof.
_FLOOR_SHARE = 0.1


class ScheduleSearch:
    """The searches for schedules of one problem: each continues where its last turn ended.

    Parameters
    ----------
    known
        Record of schedules and bounds that the searches write to.
    joint
        True if the order may change; else first runs keep the given one.
    """

    def __init__(self, known: KnownSchedules, *, joint: bool = True):
        self.known, self.problem, self.joint = known, known.problem, joint
        problem, self.given = known.problem, known.outcomes[0].schedule
        # Bounds must hold for all repetitions, also those that the searches do not try.
        self._relaxed = relax_repetition(problem)
        self._complete = self._relaxed is problem
        self._chain = as_chain(problem) if known.exact and self._complete else None
        self._orders = [self.given]
        # The smallest peak for which orders have been searched.
        self._order_target: float = math.inf if joint else 0
        # The largest bound for which ways to reach a unit have been searched.
        self._reach_target: float = 0
        # Limit -> schedules made for it, the best of each order, the best first.
        self._starts: dict[int, list[RematOutcome]] = {}
        # True once values were dropped for the least peak.
        self._began_below = False
        # Limits for which local search has begun.
        self._walked: set[int] = set()
        self._descents: dict[float, Descent] = {}
        self._peaks: dict[float, PeakSearch] = {}
        self._turns = 0

    @property
    def few(self) -> bool:
        """True if CP-SAT may find more than local search."""
        return self.known.exact and len(self.problem) <= active().cp_sat_units

    @property
    def is_chain(self) -> bool:
        """True if :meth:`within` solves the problem exactly."""
        return self._chain is not None

    def take_order(self, order: Sequence[int], name: str) -> RematOutcome:
        """Add an order found elsewhere, instead of a search for an order here."""
        outcome = self.known.measure(order, name)
        self.known.add(outcome)
        self._orders.append(outcome.schedule)
        self._order_target = 0
        return outcome

    def within(self, limit: int, budget: Budget, target: int | float = 0) -> RematOutcome:
        """The cheapest schedule with at most ``limit`` live bytes; of least peak if none is found.

        Another call continues the search. A cost of ``target`` is good enough.
        """
        known = self.known
        with suppress(TimeUpError):  # schedules found until then are kept
            for _ in self._stages(limit, target, budget):
                best = known.best(limit)
                proved = best.peak <= limit and best.cost <= max(target, best.bound)
                if proved or known.none_within(limit) or budget.deadline.expired():
                    break
        return known.best(limit)

    def _stages(self, limit: int, target: int | float, budget: Budget) -> Iterator[None]:
        """Run the stages one by one; local search repeats until it finds no improvement."""
        known = self.known
        yield
        self.search_order(limit, budget.share(_LIVE_ORDER_SHARE))
        yield
        if self._chain is not None:
            self._solve_chain(limit, budget)
            yield
            return
        if limit not in self._starts:
            self.start(limit, budget.share(_START_SHARE))
            yield
            self._look_for_reach(limit + 1, budget)
            yield
            if known.best(limit).peak > limit:
                # Where nothing fits after all starts, often no schedule does.
                self._prove_floor(limit, budget.share(_FLOOR_SHARE))
                yield
                self.bound_cost(limit, budget.share(_BOUND_SHARE))
                yield
        if self.few:
            self._solve_whole(limit, budget.share(_WHOLE_SHARE))
            yield
        if not known.is_bounded(limit) and known.best(limit).peak <= limit:
            self.bound_cost(limit, budget.share(_BOUND_SHARE))
            yield
        before = None
        while before is None or before != known.best(limit) or before.peak > limit:
            before = known.best(limit)
            # If nothing fits yet, no later stage applies, and only long walks may find something.
            share = _LOCAL_SHARE if before.peak <= limit else 1.0
            self._search(limit, target, budget.share(share))
            yield
        if self.few:
            self._solve_whole(limit, budget)
        if known.exact and known.best(limit).peak <= limit:
            self.bound_cost(limit, budget)
        yield

    def below(self, most: float, budget: Budget) -> RematOutcome:
        """The schedule of least peak found that costs at most ``most``.

        Another call continues the search.
        """
        if most not in self._descents:
            self._descents[most] = Descent(
                self.known, most, joint=self.joint, seed=budget.seed + self._turns
            )
            self._turns += 1
        self._descents[most].run(budget.deadline, target=self.known.least.bytes)
        return self.known.smallest(most)

    def ended(self, most: float) -> bool:
        """True if :meth:`below` can find no improvement, even with more time."""
        descent = self._descents[most]
        return descent.exhausted or descent.best.peak <= self.known.least.bytes

    def cuts_lead(self, most: float) -> bool:
        """True if minimum cuts find the lowest starts: at any cost, or if repetitions are free.

        A cut frees all values at once that only together save bytes. Of values that cost something,
        dropping chooses the better ones.
        """
        return math.isinf(most) or not self.known.affords(most, free=False)

    def start_below(self, most: float, budget: Budget) -> RematOutcome:
        """The schedule of least peak by heuristics that costs at most ``most``.

        First come minimum cuts, where the cost is not limited or repetitions must be free; then
        values are dropped along ever more orders.
        """
        known = self.known
        self._look_for_reach(None, budget)
        least = known.least.bytes
        if self.cuts_lead(most):
            slot = budget.share(_CUT_SHARE).deadline
            cut = smallest_by_cuts(
                self.problem, least, self._orders, slot, most_cost=most, reorder=self.joint
            )
            if cut is not None:
                known.add(self._measure(*cut))
        best = known.smallest(most)
        first, others = known.once, self._every_order(None, budget.deadline)
        if self._began_below:
            first, others = best, iter(self._orders)
        self._began_below = True
        dropped = smallest_by_dropping(
            self.problem,
            least,
            best.peak,
            chain([tuple(dict.fromkeys(first.schedule))], others),
            budget.deadline,
            most_cost=most,
            reorder=self.joint,
        )
        if dropped is not None:
            known.add(known.measure(*dropped))
        return known.smallest(most)

    def has_begun(self, limit: int) -> bool:
        """True if schedules within this limit have been searched for."""
        return limit in self._walked

    def started(self, limit: int) -> RematOutcome | None:
        """The schedule that :meth:`start` made within a limit, if it made one."""
        made = self._starts.get(limit, [])
        return made[0] if made and made[0].peak <= limit else None

    def start(self, limit: int, budget: Budget) -> RematOutcome:
        """The best schedule made from known orders by dropping values, once a limit."""
        if limit not in self._starts:
            best = self.known.best(limit) if self._starts else None
            made = first_schedules(
                self.problem,
                limit,
                self._every_order(best, budget.deadline),
                budget.deadline,
                reorder=self.joint,
            )
            self._starts[limit] = [self._measure(*start) for start in made]
            self.known.add(self._starts[limit][0])
        return self._starts[limit][0]

    def _every_order(
        self, best: RematOutcome | None, deadline: Deadline
    ) -> Iterator[tuple[int, ...]]:
        """The known orders, then that of the best schedule, else orders by all rules.

        The best order without repetitions need not be the best one with repetitions, so that all
        are starts. The best schedule later has the order that turned out best.
        """
        if not self.joint:
            yield self.given
            return
        yield from self._orders
        if best is not None:
            yield tuple(dict.fromkeys(best.schedule))
            return
        for name in order_rules.names():
            order = order_rules.get(name)(self.problem.ordering, deadline)
            yield tuple(order.tolist())

    def _measure(self, schedule: Sequence[int], name: str) -> RematOutcome:
        """Outcome of a heuristic's schedule, without runs that nothing reads."""
        shorter = without_unread_runs(self.problem, schedule, joint=self.joint)
        return self.known.measure(shorter, name)

    def lower(self, limit: int, budget: Budget) -> RematOutcome:
        """The best schedule for a limit after dropping values from it, which is quick if near."""
        best = self.known.best(limit)
        if best.peak > limit:
            with suppress(TimeUpError):
                schedule = drop(self.problem, best.schedule, limit, budget.deadline, retain=False)
                self.known.add(self._measure(schedule, DROPPING))
        return self.known.best(limit)

    def search_order(self, limit: int, budget: Budget) -> None:
        """Search for an order of at most ``limit`` live bytes, unless one is known or ruled out."""
        once = self.known.once
        if once.peak <= limit or limit >= self._order_target:
            return
        found = search_order(
            self.problem.ordering,
            # What costs nothing may run again in it.
            np.array(list(dict.fromkeys(once.schedule)), np.int64),
            budget.on_one_thread(),
            target=limit,
        )
        # A search that met its target ended early, and may find lower peaks later.
        self._order_target = limit if found.peak <= limit else 0
        if found.peak < once.peak:
            self._orders.append(tuple(found.order.tolist()))
            self.known.add(self.known.measure(self._orders[-1], found.found_by))

    def bound_cost(self, limit: int, budget: Budget) -> None:
        """Search for a bound on the cost within a limit, or a proof that no schedule is within."""
        known = self.known
        if not known.exact:
            return
        best = known.best(limit)
        relaxed = self._relaxed if self.joint else relax_repetition(self.problem, views=False)
        # Costs that the relaxation leaves out still arise once.
        once = known.base - sum_costs(relaxed.cost)
        proof = cut_bound(
            relaxed,
            limit,
            budget,
            order=None if self.joint else self.given,
            target=best.cost - once if best.peak <= limit else None,
            schedule=best.schedule,
        )
        if proof.infeasible:
            unit = known.least.unit if known.least.bytes > limit else None
            known.prove_bytes(Footprint(limit + 1, unit), CUTS, proof.certificate)
        else:
            cost = known.cost_with(proof.extra) if proof.extra else known.base
            known.prove_cost(limit, cost, proof.name, proof.certificate)

    def bound_peak(self, most: float, budget: Budget) -> PeakBound | None:
        """A bound on the live bytes of every schedule that costs at most ``most``, if found."""
        known = self.known
        if not known.exact:
            return None
        relaxed = self._relaxed if self.joint else relax_repetition(self.problem, views=False)
        if most not in self._peaks:
            # Costs that the relaxation leaves out still arise once.
            once = known.base - sum_costs(relaxed.cost)
            self._peaks[most] = PeakSearch(
                relaxed,
                most - once,
                order=None if self.joint else self.given,
                exceeds=lambda extra: known.cost_with(extra) > most,
            )
        best = known.smallest(most)
        return self._peaks[most].run(known.least.bytes, best.peak, budget, schedule=best.schedule)

    def _prove_floor(self, limit: int, budget: Budget) -> None:
        """Search for a proof that every schedule exceeds a limit, at the first run of one unit."""
        known = self.known
        if not known.exact:
            return
        floor = cut_floor(
            self._relaxed if self.joint else relax_repetition(self.problem, views=False),
            limit,
            budget,
            most=known.smallest(math.inf).peak,
            order=None if self.joint else self.given,
        )
        if floor is not None:
            known.prove_bytes(Footprint(floor.bytes, floor.unit), CUTS, floor.certificate)

    def _look_for_reach(self, target: int | None, budget: Budget) -> None:
        """Raise the bound on every schedule's bytes by the reach of its units, up to ``target``."""
        wanted = math.inf if target is None else target
        known = self.known
        # The target only decides when the search ends.
        if known.exact and known.least.bytes < wanted and self._reach_target < wanted:
            self._reach_target = wanted
            slot = budget.deadline.share(_REACH_SHARE)
            known.prove_bytes(reach_bound(self.problem, slot, target=target), REACH)

    def _solve_chain(self, limit: int, budget: Budget) -> None:
        assert self._chain is not None
        found = solve_chain(self.problem, self._chain, limit, budget.deadline)
        if found is None:
            self.known.prove_bytes(Footprint(limit + 1, None), CHAIN)
        else:
            self.known.add(found)
            self.known.prove_cost(limit, found.bound, found.bound_by)

    def _search(self, limit: int, target: int | float, budget: Budget) -> None:
        """Search locally from the best schedule.

        If no schedule fits yet, first from a cheaper one found for another limit, if that exceeds
        this one only a little.
        """
        known = self.known
        best = known.best(limit)
        near = [o for o in known.outcomes if o.cost < best.cost and o.peak <= _START_NEAR * limit]
        turns: list[RematOutcome | None] = [None]
        if best.peak > limit:
            turns[:0] = sorted(near, key=better(limit))[:1]
        self._walked.add(limit)
        for left, begin in zip(range(len(turns), 0, -1), turns, strict=True):
            best = known.best(limit)
            found = search_schedules(
                self.problem,
                limit,
                (begin or best).schedule,
                budget.share(1 / left).reseeded(self._turns),
                target_cost=max(target, best.bound),
                joint=self.joint,
                report=lambda outcome: known.add(self._measure(outcome.schedule, LOCAL)),
            )
            self._turns += 1
            known.add(self._measure(found.schedule, LOCAL))

    def _solve_whole(self, limit: int, budget: Budget) -> None:
        """Run CP-SAT with at most two runs of each unit, then with three."""
        from cpplan.remat.search.cp_sat_remat import improve_schedule

        for copies in (2, 3):
            best = self.known.best(limit)
            if best.peak <= limit and best.cost <= best.bound:
                break
            found = improve_schedule(
                self.problem,
                limit,
                best.schedule,
                budget.share(0.5),
                copies=copies,
                free_order=self.joint,
                report=self.known.add,
            )
            if found is not None:
                self.known.add(found)
                if self._complete:
                    self.known.prove_cost(limit, found.bound, found.bound_by)
