"""Turns of the search for orders: the best order after each share of the time left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cpplan.model.certificates import Certificate
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph
from cpplan.model.order_problem import OrderProblem
from cpplan.model.problem import Ints
from cpplan.ordering.bounds import FORCED, order_bounds
from cpplan.ordering.cuts import NAME as MINIMUM_CUT
from cpplan.ordering.cuts import OrderCuts
from cpplan.ordering.problem import order_problem
from cpplan.ordering.solve import OrderSearch
from cpplan.packing.problem import as_program
from cpplan.packing.search.outcome import OrderOutcome
from cpplan.packing.tuning import PackingTuning
from cpplan.program.anf import Program
from cpplan.program.constraints import with_first_last
from cpplan.runtime.budget import Budget, tuned
from cpplan.runtime.deadline import Deadline
from cpplan.solving.run import Run, is_short

if TYPE_CHECKING:
    from cpplan.ordering.solve import OrderSearch

# If tensors may share bytes: share of the first turn for the search that knows the aliases, and
# share of its remaining time for a search that ignores them.
_SHARED_ORDER_SHARE = 0.5
_UNSHARED_ORDER_SHARE = 0.6
# Share of the time left for a bound on all orders and aliases, if the search for orders proves
# none.
_BOUND_SHARE = 0.3
# Share of the whole time; a turn of the search for orders that would leave less time takes all of
# it.
_LAST_TURN = 0.02
# Time for making, checking and writing the plan, as a multiple of the time for building the order
# problem.
_ORDER_CHECKED = 5.0
# Time to begin a search for orders, as a multiple of the time for building the order problem,
# without and with aliases. If less time is left, the given order is used.
_ORDER_READING = 2.0
# Least seconds for each op to build the order problem.
_ORDER_SECONDS = 2e-6
UNSHARED = "order without sharing"
NO_TIME_TO_ORDER = "too little time is left to search for orders"
# Name of bounds proved under the aliases that hold in every order, not by the relaxed problem.
ALIASED = "aliases in every order"


class OrderTurn(NamedTuple):
    """The best order after a turn, and another that may need fewer bytes without aliases."""

    outcome: OrderOutcome
    unshared: Ints | None = None


def search_in_turns(run: Run, source: Program) -> Iterator[OrderTurn]:
    """Yield the best order after each share of the time left, until the searches have ended."""
    from cpplan.ordering.solve import OrderSearch

    first, last = run.request.first, run.request.last
    graph = with_first_last(source.graph, first, last)
    if len(source.order) != len(graph.ops):
        raise InputError("order='search' needs a program that runs every op once")
    position = source.graph.columns.op_number
    given = source if not (first or last) else as_program(graph)
    assert isinstance(given, Program)
    begin, built = run.deadline.elapsed(), 0.0
    ordering = order_problem(graph, run.residency)
    if has_many_ops(source):
        built = run.deadline.elapsed() - begin
        run.deadline.reserve(_ORDER_CHECKED * built)
    start = np.array(given.order, np.int64)
    # With first and last, the graph numbers its ops anew: map them to the source's numbers.
    number = np.array([position[op.name] for op in graph.ops], np.int64)
    tuning = run.tuning
    needed = built * (tuning.order_reading_shared if run.sharing else _ORDER_READING)
    if is_short(run.deadline, needed):
        run.stop_early(NO_TIME_TO_ORDER)
        outcome = OrderOutcome(number[start], ordering.peak(start), 0, "given order", FORCED)
        yield OrderTurn(outcome)
        return
    proof, complete, apart = None, True, ordering
    if run.sharing:
        ordering, relaxed, complete = _shared_ordering(run, graph, ordering)
        proof = RelaxedBound(*relaxed, start, run.budget)
    given_order = OrderOutcome(start, ordering.peak(start), 0, "given order", FORCED)
    known = _Known(run, given_order, proof, complete=complete)
    search: OrderSearch | None = None
    unshared: Ints | None = None
    ended = False
    while not ended:
        turn = _turn(run)
        if search is None:
            budget, target = run.budget.until(turn), run.target or 0
            search = OrderSearch(ordering, start, budget, target=target, report=known.take)
            if run.sharing and not has_many_ops(source):
                search.run(turn.share(_SHARED_ORDER_SHARE))
                # Over several pools, an order of least live bytes need not be the best.
                if not search.done or len(run.request.pools or ()) > 1:
                    unshared = _search_unshared(run, apart, start, turn)
                    search.try_order(unshared, UNSHARED)
        search.run(turn)
        ended = search.done or search.exhausted
        ended &= known.prove()
        outcome = known.outcome._replace(order=number[known.outcome.order])
        yield OrderTurn(outcome, None if unshared is None else number[unshared])
    if run.sharing and unshared is None and not has_many_ops(source):
        # Of orders of as few live bytes, one that needs no sharing may be easier to pack.
        order = _search_unshared(run, apart, start, run.deadline)
        peak = ordering.peak(order)
        yield OrderTurn(outcome._replace(order=number[order], peak=peak, found_by=UNSHARED))


def _search_unshared(run: Run, ordering: OrderProblem, start: Ints, turn: Deadline) -> Ints:
    """The order of least live bytes without aliases, after a share of the turn."""
    from cpplan.ordering.solve import search_order

    budget = run.budget.until(turn.share(_UNSHARED_ORDER_SHARE))
    return search_order(ordering, start, budget, target=run.target or 0).order


class _Known:
    """The best outcome so far, with a bound that also holds if tensors share bytes.

    Until the search reports an outcome, it is the given order.
    """

    def __init__(
        self, run: Run, outcome: OrderOutcome, proof: RelaxedBound | None, *, complete: bool
    ):
        self.run, self.outcome, self.proof, self.complete = run, outcome, proof, complete
        self.changed = False

    def take(self, outcome: OrderOutcome) -> None:
        """Keep an outcome of the search, without a bound that does not hold for all aliases."""
        if not self.complete:
            # Other candidates may save more in other orders, so that the bound does not hold.
            outcome = outcome._replace(bound=0, bound_by=FORCED, certificate=None)
        elif self.proof is not None:
            outcome = self.proof.unproved(outcome)
        known, self.outcome = self.outcome, outcome
        first, self.changed = not self.changed, True
        if first or (outcome.peak, outcome.bound) != (known.peak, known.bound):
            self.run.record(None, outcome.bound, f"{outcome.found_by}: {outcome.peak} B live")

    def prove(self) -> bool:
        """Raise the bound for a share of the time left; true if more time would not raise it."""
        if self.proof is None:
            return True
        share, known = self.run.deadline.share(_BOUND_SHARE), self.outcome
        self.changed = True
        if self.complete:
            self.outcome = self.proof.proved(known, share)
            return True
        bound, name, flow = self.proof.run(share)
        if bound > known.bound:
            self.run.record(None, bound, f"{name}, for any aliases")
        self.outcome = known._replace(bound=bound, bound_by=name, certificate=flow)
        return self.proof.ended


def _turn(run: Run) -> Deadline:
    """Deadline of a turn of the search for orders; the last turn takes all time left."""
    left, tuning = run.deadline.remaining(), run.tuning
    last = left <= _LAST_TURN * run.deadline.seconds
    return run.deadline.share(1 if last else tuning.order_share)


def _shared_ordering(
    run: Run, graph: Graph, ordering: OrderProblem
) -> tuple[OrderProblem, tuple[OrderProblem, int], bool]:
    """The problem under the candidates that hold in any order, and a relaxed problem.

    The third value is true if no other candidates could save more. A bound of the first problem
    then holds for every order and all candidates.
    """
    from cpplan.aliasing.alias_candidates import find_candidates
    from cpplan.aliasing.segments import relax_sharing, share_in_any_order

    candidates = find_candidates(graph, run.residency, run.sharing)
    shared, complete = share_in_any_order(graph, ordering, run.residency, candidates)
    return shared, relax_sharing(ordering, candidates), complete


def is_late_to_order(run: Run, program: Program) -> bool:
    """True if the time left is too short even to begin a search for orders."""
    if not has_many_ops(program) or len(program.order) > len(program.graph.ops):
        return False
    tuning = run.tuning
    times = tuning.order_reading_shared if run.sharing else _ORDER_READING
    return is_short(run.deadline, (1 + times) * _ORDER_SECONDS * len(program.order))


def has_many_ops(program: Program) -> bool:
    """True if linear work on the program takes noticeable time, because it has many ops."""
    return len(program.order) >= tuned(PackingTuning).many_buffers


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
