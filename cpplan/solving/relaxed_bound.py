"""Lower bounds for every order if tensors may share bytes, from a relaxed problem."""

from __future__ import annotations

from cpplan.model.certificates import Certificate
from cpplan.model.order_problem import OrderProblem
from cpplan.model.problem import Ints
from cpplan.ordering.bounds import FORCED, order_bounds
from cpplan.ordering.cuts import NAME as MINIMUM_CUT
from cpplan.ordering.cuts import OrderCuts
from cpplan.ordering.solve import OrderSearch
from cpplan.packing.search.outcome import OrderOutcome
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline

# Name of bounds proved under the aliases that hold in every order, not by the relaxed problem.
ALIASED = "aliases in every order"


class RelaxedBound:
    """Lower bound on every order and all alias candidates, from a relaxed problem.

    Parameters
    ----------
    problem, more
        The relaxed problem, and the bytes to subtract from its bounds.
    start
        A valid order.
    budget
        Workers and seed; each run has its own deadline.
    """

    def __init__(self, problem: OrderProblem, more: int, start: Ints, budget: Budget):
        self._problem, self._more = problem, more
        self._start, self._budget = start, budget
        self._search: OrderSearch | None = None
        self._known: tuple[int, str, Certificate | None] | None = None

    @property
    def ended(self) -> bool:
        """True if a longer search cannot raise the bound."""
        return self._search is not None and (self._search.done or self._search.exhausted)

    def run(self, deadline: Deadline) -> tuple[int, str, Certificate | None]:
        """The best bound after a search until the deadline, bytes; its name and certificate."""
        if self._search is None:
            self._search = OrderSearch(self._problem, self._start, self._budget.until(deadline))
        self._search.run(deadline)
        best = self._search.best
        return max(0, best.bound - self._more), best.bound_by, best.certificate

    def unproved(self, outcome: OrderOutcome) -> OrderOutcome:
        """An outcome under aliases that hold in every order, without its certificate.

        The certificate proves the bound of the problem with these aliases, which the checker does
        not know. So the bound gets a name of its own.
        """
        if outcome.bound_by not in (FORCED, MINIMUM_CUT):
            return outcome
        return outcome._replace(bound_by=ALIASED, certificate=None)

    def proved(self, outcome: OrderOutcome, deadline: Deadline) -> OrderOutcome:
        """The outcome with a proof by the relaxed problem, if that proves its bound in time."""
        if outcome.bound_by != ALIASED:
            return outcome
        if self._known is None or self._known[0] != outcome.bound:
            self._known = outcome.bound, *self._prove(outcome, deadline)
        _, name, certificate = self._known
        return outcome._replace(bound_by=name, certificate=certificate)

    def _prove(self, outcome: OrderOutcome, deadline: Deadline) -> tuple[str, Certificate | None]:
        """Name and certificate of a proof of the outcome's bound."""
        problem, wanted = self._problem, outcome.bound + self._more
        bounds = order_bounds(problem, order=outcome.order, deadline=deadline)
        if bounds.bound >= wanted:
            return FORCED, bounds.certificate(problem)
        if not deadline.expired():
            cuts = OrderCuts(problem, bounds.forced, outcome.order)
            cuts.run(deadline, enough=wanted)
            if cuts.bound >= wanted:
                return MINIMUM_CUT, cuts.certificate()
        return ALIASED, None
