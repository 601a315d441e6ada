"""Known schedules of one problem, and proved bounds on all its schedules.

A schedule found for one limit may solve the problem for another limit, or be a start for it. So all
searches write to one record, for all limits on bytes and on cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from cpplan.aliasing.alias_candidates import AliasCandidate
from cpplan.model.certificates import CutDuals, ForcedAt
from cpplan.model.remat_problem import RematProblem
from cpplan.ordering.bounds import MANY_OPS
from cpplan.remat.cut_bounds import RUNS_ONCE
from cpplan.remat.footprint import FOOTPRINT, Footprint, least_footprint, shared_footprint
from cpplan.runtime.deadline import Deadline

GIVEN = "given order"


class CostBound(NamedTuple):
    """A lower bound on the cost of every schedule within a limit, and its proof.

    Attributes
    ----------
    cost
        The bound.
    name
        Name of the proof.
    certificate
        Duals that prove it, if the proof is a linear program.
    """

    cost: int | float
    name: str
    certificate: CutDuals | None = None


class KnownSchedules:
    """Known schedules of one problem, and proved bounds on all its schedules.

    Parameters
    ----------
    problem
        The rematerialization problem.
    given
        An order of all units.
    candidates
        Alias candidates, if storages may share bytes. Bounds on live bytes then do not hold.
    report
        Called with every new schedule.
    deadline
        Ends the search for the bytes that every schedule needs, if there are many units.

    Attributes
    ----------
    report
        Called with every new schedule.
    outcomes
        All schedules, the given order first.
    base
        Cost of running every unit once.
    exact
        True if there are no aliases, so that a packing needs at least the live bytes.
    least, least_by, least_certificate
        Bytes that every schedule needs, the name of the proof, and its certificate if it has one.
    """

    def __init__(
        self,
        problem: RematProblem,
        given: Sequence[int],
        *,
        candidates: Sequence[AliasCandidate] = (),
        report: Callable[[RematOutcome], None] = lambda outcome: None,
        deadline: Deadline | None = None,
    ):
        self.problem, self.report = problem, report
        self.base = problem.total_cost(range(len(problem)))
        self.exact = not candidates
        if candidates:
            self.least = shared_footprint(problem, candidates)
        elif len(problem) > MANY_OPS:
            self.least = least_footprint(problem, given, deadline)
        else:
            self.least = least_footprint(problem)
        self.least_by = FOOTPRINT
        # With few units the checker finds the unit quickly.
        self.least_certificate: CutDuals | ForcedAt | None = None
        if len(problem) > MANY_OPS and self.least.unit is not None:
            self.least_certificate = ForcedAt(problem.ordering.names[self.least.unit])
        # Limit -> the least cost of a schedule within it.
        self._bounds: dict[int, CostBound] = {}
        self.outcomes = [self.measure(given, GIVEN)]

    def measure(self, schedule: Sequence[int], name: str) -> RematOutcome:
        """Outcome of a schedule from a source of this name."""
        schedule = tuple(schedule)
        peak, cost = self.problem.peak(schedule), self.problem.total_cost(schedule)
        return RematOutcome(schedule, peak, cost, self.base, name, RUNS_ONCE)

    def add(self, outcome: RematOutcome) -> None:
        """Record a schedule, if it is new; report it, if none needs as few bytes for its cost."""
        if all(outcome.schedule != other.schedule for other in self.outcomes):
            known = [(other.peak, other.cost) for other in self.outcomes]
            self.outcomes.append(outcome)
            if all(peak > outcome.peak or cost > outcome.cost for peak, cost in known):
                self.report(outcome)

    @property
    def once(self) -> RematOutcome:
        """The schedule of least peak that costs no more than running every unit once."""
        return min((o for o in self.outcomes if o.cost <= self.base), key=lambda o: o.peak)

    def best(self, limit: int) -> RematOutcome:
        """The cheapest schedule within a limit, with its bound; of least peak if none is."""
        found = min(self.outcomes, key=better(limit))
        bound = self.cost_bound(limit)
        return found._replace(bound=bound.cost, bound_by=bound.name)

    def smallest(self, most: float) -> RematOutcome:
        """The schedule of least peak that costs at most ``most``."""
        return min((o for o in self.outcomes if o.cost <= most), key=lambda o: (o.peak, o.cost))

    def affords(self, most: float, *, free: bool = True) -> bool:
        """True if some unit may run again at a total cost of at most ``most``.

        With ``free=False``, units that cost nothing do not count.
        """
        problem = self.problem
        again = [cost for cost, may in zip(problem.cost, problem.repeatable, strict=True) if may]
        return any(self.base + cost <= most and (free or cost > 0) for cost in again)

    def none_within(self, limit: int) -> bool:
        """True if every schedule is proved to have more than ``limit`` live bytes."""
        return self.least.bytes > limit and self.exact

    def cost_bound(self, limit: int) -> CostBound:
        """Lower bound on the cost of every schedule within the limit, and its proof.

        A bound proved for a larger limit holds for a smaller one.
        """
        proofs = [proof for proved, proof in self._bounds.items() if proved >= limit]
        return max(proofs, key=lambda proof: proof.cost, default=CostBound(self.base, RUNS_ONCE))

    def is_bounded(self, limit: int) -> bool:
        """True if a bound was proved for exactly this limit."""
        return limit in self._bounds

    def prove_bytes(self, least: Footprint, name: str, certificate: CutDuals | None = None) -> None:
        """Take a bound on the live bytes of every schedule, if it is larger."""
        if least.bytes > self.least.bytes:
            self.least, self.least_by, self.least_certificate = least, name, certificate

    def prove_cost(
        self, limit: int, bound: int | float, name: str, certificate: CutDuals | None = None
    ) -> None:
        """Take a bound on the cost of every schedule within a limit, if it is larger."""
        if bound > self.cost_bound(limit).cost or limit not in self._bounds:
            self._bounds[limit] = CostBound(bound, name, certificate)

    def cost_with(self, extra: Fraction) -> int | float:
        """Cost of every op once plus an extra cost, rounded like the costs of schedules."""
        exact = self._exact_base + extra
        return float(exact) if isinstance(self.base, float) else math.ceil(exact)

    @cached_property
    def _exact_base(self) -> Fraction:
        """Cost of every op once; floating-point costs of units are rounded sums."""
        return sum((Fraction(op.cost) for op in self.problem.graph.ops), Fraction(0))


def better(limit: int) -> Callable[[RematOutcome], tuple[int, int | float]]:
    """Sort key of outcomes for a limit: bytes beyond it, then cost."""
    return lambda outcome: (max(0, outcome.peak - limit), outcome.cost)


class RematOutcome(NamedTuple):
    """The cheapest schedule within a memory limit, and a bound on every such schedule's cost.

    Attributes
    ----------
    schedule
        Units in order of execution, some of them repeated.
    peak
        The most bytes live at a position of it, within the limit.
    cost
        Cost of running it.
    bound
        Lower bound on the cost of every schedule within the limit.
    found_by, bound_by
        Names of the search that found the schedule, and of the bound's proof.
    """

    schedule: tuple[int, ...]
    peak: int
    cost: int | float
    bound: int | float
    found_by: str
    bound_by: str
