"""The search for the cheapest schedule within a limit on live bytes, for many limits in turn.

First come orders without repetitions: the given order, then a searched one. Then come schedules by
eviction and checkpoints, local search, windows and, where there are few units, CP-SAT on all of
them; schedules found for one limit are starts for others. Meanwhile bounds are proved: on the bytes
that every schedule needs, and on the cost of every schedule within the limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from cpplan.aliasing.alias_candidates import AliasCandidate
from cpplan.model.costs import sum_costs
from cpplan.ordering.solve import search_order
from cpplan.remat.bound_names import CHAIN, CUTS, FOOTPRINT, REACH
from cpplan.remat.cut_bounds import RUNS_ONCE, cut_bound
from cpplan.remat.footprint import Footprint, least_footprint, shared_footprint
from cpplan.remat.heuristics.chain import as_chain, solve_chain
from cpplan.remat.heuristics.dropping import NAME as DROPPING
from cpplan.remat.heuristics.dropping import drop
from cpplan.remat.heuristics.starts import first_schedule
from cpplan.remat.problem import RematProblem
from cpplan.remat.reach import reach_bound
from cpplan.remat.relaxed import relax_repetition
from cpplan.remat.search.descent import Descent
from cpplan.remat.search.local_search import NAME as LOCAL
from cpplan.remat.search.local_search import search_schedules
from cpplan.remat.search.outcome import RematOutcome
from cpplan.remat.tuning import active
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline, TimeUpError

GIVEN = "given order"


class ScheduleSearch:
    """A search for schedules of one problem.

    Parameters
    ----------
    problem
        The rematerialization problem.
    given
        An order of all units.
    joint
        True if the order may change; else first runs keep the given one.
    candidates
        Alias candidates, if storages may share bytes. Bounds on live bytes then do not hold, and
        only the plainest bounds are computed.
    workers, seed
        For the searches.
    report
        Called with everything found.

    Attributes
    ----------
    least, least_by
        Bytes that every schedule needs, and the name of the proof.
    known
        All outcomes found, the given order first.
    """

    def __init__(
        self,
        problem: RematProblem,
        given: Sequence[int],
        *,
        joint: bool = True,
        candidates: Sequence[AliasCandidate] = (),
        workers: int = 1,
        seed: int = 0,
        report: Callable[[RematOutcome], None] = lambda outcome: None,
    ):
        self.problem, self.given, self.joint = problem, tuple(given), joint
        self.workers, self.seed, self._report = workers, seed, report
        self.base = problem.total_cost(range(len(problem)))
        self._exact = not candidates
        # What is proved must hold for repetitions too that are not looked for.
        self._relaxed = relax_repetition(problem)
        self._complete = self._relaxed is problem
        self._chain = as_chain(problem) if self._exact and self._complete else None
        self.least = (
            shared_footprint(problem, candidates) if candidates else least_footprint(problem)
        )
        self.least_by = FOOTPRINT
        self._orders = [self.given]
        # A smaller peak than this has not been looked for among orders.
        self._order_target: float = math.inf if joint else 0
        # So large a bound was looked for among ways to reach a unit.
        self._reach_target: float = 0
        # For every limit, what no schedule within it costs less than.
        self._bounds: dict[int, tuple[int | float, str]] = {}
        self._starts: dict[int, RematOutcome] = {}
        self._descents: dict[float, Descent] = {}
        self._turns = 0
        costs = np.array(problem.cost, np.float64)
        self._skewed = (
            costs.max(initial=0) > active().skewed * np.median(costs) if len(costs) else False
        )
        self.known = [self._outcome(self.given, GIVEN)]

    @property
    def few(self) -> bool:
        """True if CP-SAT may find more than local search."""
        return self._exact and len(self.problem) <= active().cp_sat_units

    @property
    def descends(self) -> bool:
        """True if :meth:`below` is of use, which it is not for chains: they are solved exactly."""
        return self._chain is None

    @property
    def once(self) -> RematOutcome:
        """Outcome of least peak among those that cost no more than running every unit once."""
        return min((o for o in self.known if o.cost <= self.base), key=lambda o: o.peak)

    def affords(self, most: float, *, free: bool = True) -> bool:
        """True if some unit may run again at a total cost of at most ``most``.

        With ``free=False``, units that cost nothing do not count.
        """
        problem = self.problem
        again = [cost for cost, may in zip(problem.cost, problem.repeatable, strict=True) if may]
        return any(self.base + cost <= most and (free or cost > 0) for cost in again)

    def take_order(self, order: Sequence[int], name: str) -> RematOutcome:
        """Add an order found elsewhere, so that none of fewer live bytes is searched for."""
        outcome = self._outcome(order, name)
        self._add(outcome)
        self._orders.append(outcome.schedule)
        self._order_target = 0
        return outcome

    def take_schedule(self, schedule: Sequence[int], name: str) -> RematOutcome:
        """Add a schedule found elsewhere, so that the searches begin with it."""
        outcome = self._outcome(schedule, name)
        self._add(outcome)
        return outcome

    def none_within(self, limit: int) -> bool:
        """True if every schedule is proved to have more than ``limit`` live bytes."""
        return self.least.bytes > limit and self._exact

    def within(self, limit: int, deadline: Deadline, target: int | float = 0) -> RematOutcome:
        """The cheapest schedule with at most ``limit`` live bytes; of least peak if none is found.

        Another call continues the search. A cost of ``target`` is good enough.
        """
        try:
            for _ in self._stages(limit, target, deadline):
                best = self.best(limit)
                proved = best.peak <= limit and best.cost <= max(target, best.bound)
                if proved or self.none_within(limit) or deadline.expired():
                    break
        except TimeUpError:
            pass  # what was found until then stands
        return self.best(limit)

    def below(self, most: float, deadline: Deadline) -> RematOutcome:
        """The schedule of least peak found that costs at most ``most``.

        Local search from the best known; another call continues it.
        """
        descent = self._descents.get(most)
        best = self._cheap(most)
        if descent is None or best.peak < descent.best.peak:
            descent = self._descents[most] = Descent(
                self.problem,
                most,
                best.schedule,
                joint=self.joint,
                seed=self.seed + self._turns,
                report=self._add,
            )
            self._turns += 1
        descent.run(deadline, target=self.least.bytes)
        return self._cheap(most)

    def ended(self, most: float) -> bool:
        """True if :meth:`below` finds nothing more, however long it goes on."""
        descent = self._descents[most]
        return descent.exhausted or descent.best.peak <= self.least.bytes

    def start_below(self, most: float, deadline: Deadline) -> RematOutcome:
        """The schedule of least peak by eviction and checkpoints that costs at most ``most``.

        Their limits are found by bisection between a bound and the best peak that is cheap enough.
        """
        self._look_for_reach(None, deadline)
        low = self.least.bytes
        for _ in range(active().halvings):
            high = self._cheap(most).peak
            if low >= high or deadline.expired():
                break
            limit = (low + high) // 2
            start = self.start(limit, deadline.share(0.5))
            if start.peak > limit or start.cost > most:
                low = limit + 1
        return self._cheap(most)

    def _cheap(self, most: float) -> RematOutcome:
        """Outcome of least peak among the known ones that cost at most ``most``."""
        return min((o for o in self.known if o.cost <= most), key=lambda o: (o.peak, o.cost))

    def start(self, limit: int, deadline: Deadline) -> RematOutcome:
        """The best schedule by eviction and checkpoints from known orders, made once a limit."""
        if limit not in self._starts:
            orders = [o for o in self._orders if self.joint or o == self.given]
            self._starts[limit] = self._outcome(
                *first_schedule(self.problem, limit, orders, deadline)
            )
            self._add(self._starts[limit])
        return self._starts[limit]

    def lower(self, limit: int, deadline: Deadline) -> RematOutcome:
        """The best known for a limit after dropping values from it: quick if it is near."""
        best = self.best(limit)
        if best.peak > limit:
            with suppress(TimeUpError):
                schedule = drop(self.problem, best.schedule, limit, deadline)
                self._add(self._outcome(schedule, DROPPING))
        return self.best(limit)

    def best(self, limit: int) -> RematOutcome:
        """The best known for a limit."""
        found = min(self.known, key=better(limit))
        bound, name = self.cost_bound(limit)
        return found._replace(bound=bound, bound_by=name)

    def cost_bound(self, limit: int) -> tuple[int | float, str]:
        """Lower bound on the cost of every schedule within the limit, and the name of its proof.

        A bound proved for a larger limit holds for a smaller one.
        """
        proofs = [proof for proved, proof in self._bounds.items() if proved >= limit]
        return max(proofs, key=lambda proof: proof[0], default=(self.base, RUNS_ONCE))

    def bound_cost(self, limit: int, deadline: Deadline) -> None:
        """Search for a bound on the cost within a limit, or a proof that nothing is within it."""
        if not self._exact:
            return
        best = self.best(limit)
        # Costs nothing again, but is run once.
        once = self.base - sum_costs(self._relaxed.cost)
        proof = cut_bound(
            self._relaxed,
            limit,
            deadline,
            order=None if self.joint else self.given,
            target=best.cost - once if best.peak <= limit else None,
            workers=self.workers,
            seed=self.seed,
        )
        if proof.infeasible:
            unit = self.least.unit if self.least.bytes > limit else None
            self._needs(Footprint(limit + 1, unit), CUTS)
        else:
            self._prove(limit, proof.cost + once, proof.name)

    def _stages(self, limit: int, target: int | float, deadline: Deadline) -> Iterator[None]:
        """Run the stages one by one, to the last or until local search finds nothing more."""
        yield
        self.search_order(limit, deadline.share(active().live_order_share))
        yield
        if self._chain is not None:
            self._solve_chain(limit, deadline)
            yield
            return
        if limit not in self._starts:
            self.start(
                limit,
                deadline.share(active().quick_start_share if target else active().start_share),
            )
            yield
            self._look_for_reach(limit + 1, deadline)
            yield
        if self.few:
            self._solve_whole(limit, deadline.share(active().whole_share))
            yield
        if limit not in self._bounds and self.best(limit).peak <= limit:
            self.bound_cost(limit, deadline.share(active().bound_share))
            yield
        before = None
        while before is None or before != self.best(limit) or before.peak > limit:
            before = self.best(limit)
            self._search(limit, target, deadline.share(active().local_share))
            yield
            if self._exact and self.joint and self.best(limit).peak <= limit:
                self._improve_windows(limit, deadline.share(active().windows_share))
                yield
        if self.few:
            self._solve_whole(limit, deadline)
        if self._exact and self.best(limit).peak <= limit:
            self.bound_cost(limit, deadline)
        yield

    def search_order(self, limit: int, deadline: Deadline) -> None:
        """Search for an order of at most ``limit`` live bytes, unless done before or known."""
        once = self.once
        if once.peak <= limit or limit >= self._order_target:
            return
        found = search_order(
            self.problem.ordering,
            np.array(once.schedule, np.int64),
            Budget(deadline, seed=self.seed),
            target=limit,
        )
        # Where the target was met the search has ended there, and may find more.
        self._order_target = limit if found.peak <= limit else 0
        if found.peak < once.peak:
            self._orders.append(tuple(found.order.tolist()))
            self._add(self._outcome(self._orders[-1], found.found_by))

    def _look_for_reach(self, target: int | None, deadline: Deadline) -> None:
        """Raise the bound on every schedule's bytes by the reach of its units, up to ``target``."""
        wanted = math.inf if target is None else target
        # What was looked for does not depend on the target, but for where it ends.
        if self._exact and self.least.bytes < wanted and self._reach_target < wanted:
            self._reach_target = wanted
            found = reach_bound(self.problem, deadline.share(active().reach_share), target=target)
            self._needs(found, REACH)

    def _solve_chain(self, limit: int, deadline: Deadline) -> None:
        assert self._chain is not None
        found = solve_chain(self.problem, self._chain, limit, deadline)
        if found is None:
            self._needs(Footprint(limit + 1, None), CHAIN)
        else:
            self._add(found)
            self._prove(limit, found.bound, found.bound_by)

    def _search(self, limit: int, target: int | float, deadline: Deadline) -> None:
        """Search locally from the best schedule, first from those found for another limit.

        Where costs differ much, the search first counts runs instead: repetitions far cheaper than
        the mean would all look alike.
        """
        best = self.best(limit)
        near = [
            o for o in self.known if o.cost < best.cost and o.peak <= active().start_near * limit
        ]
        begins = [*sorted(near, key=better(limit))[:1], best]
        turns = [(begin, False) for begin in begins]
        if self._skewed:
            turns.insert(-1, (best, True))
        for left, (begin, count) in zip(range(len(turns), 0, -1), turns, strict=True):
            best, problem = self.best(limit), self.problem
            if count:
                problem = replace(problem, cost=(1,) * len(problem))
            found = search_schedules(
                problem,
                limit,
                (best if best.peak <= limit else begin).schedule,
                deadline.share(1 / left),
                target_cost=0 if count else max(target, best.bound),
                joint=self.joint,
                seed=self.seed + self._turns,
                report=lambda outcome: self._add(self._outcome(outcome.schedule, LOCAL)),
            )
            self._turns += 1
            self._add(self._outcome(found.schedule, LOCAL))

    def _improve_windows(self, limit: int, deadline: Deadline) -> None:
        from cpplan.remat.search.remat_windows import improve_windows

        best = self.best(limit)
        bound = best.bound, best.bound_by
        improve_windows(
            self.problem, limit, best.schedule, deadline,
            bound=bound, seed=self.seed + self._turns, report=self._add,
        )  # fmt: skip

    def _solve_whole(self, limit: int, deadline: Deadline) -> None:
        """Run CP-SAT with at most two runs of each unit, and then three."""
        from cpplan.remat.search.cp_sat_remat import improve_schedule

        for copies in (2, 3):
            best = self.best(limit)
            if best.peak <= limit and best.cost <= best.bound:
                break
            found = improve_schedule(
                self.problem,
                limit,
                best.schedule,
                deadline.share(0.5),
                copies=copies,
                free_order=self.joint,
                workers=self.workers,
                seed=self.seed,
                report=self._add,
            )
            if found is not None:
                self._add(found)
                if self._complete:
                    self._prove(limit, found.bound, found.bound_by)

    def _outcome(self, schedule: Sequence[int], name: str) -> RematOutcome:
        schedule = tuple(schedule)
        problem = self.problem
        peak, cost = problem.peak(schedule), problem.total_cost(schedule)
        return RematOutcome(schedule, peak, cost, self.base, name, RUNS_ONCE)

    def _add(self, outcome: RematOutcome) -> None:
        if all(outcome.schedule != other.schedule for other in self.known):
            self.known.append(outcome)
            self._report(outcome)

    def _needs(self, least: Footprint, name: str) -> None:
        if least.bytes > self.least.bytes:
            self.least, self.least_by = least, name

    def _prove(self, limit: int, bound: int | float, name: str) -> None:
        if bound > self.cost_bound(limit)[0] or limit not in self._bounds:
            self._bounds[limit] = (bound, name)


def better(limit: int) -> Callable[[RematOutcome], tuple[int, int | float]]:
    """Sort key of outcomes for a limit: bytes beyond it, then cost."""
    return lambda outcome: (max(0, outcome.peak - limit), outcome.cost)
