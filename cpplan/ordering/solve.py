"""``search_order``: the stages of the search for the order of least peak.

The stages are a bound, constructive orders and minimum cuts; then the order is cut at the ops with
a fixed step, and the piece of largest peak is improved in turns: by downset search, exact unless it
runs out of states, window search and CP-SAT. The given order is always a candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cpplan.model.order_problem import OrderProblem
from cpplan.model.problem import Ints
from cpplan.ordering import heuristics as orders
from cpplan.ordering.bounds import FORCED, OrderBounds, order_bounds
from cpplan.ordering.cuts import NAME as MINIMUM_CUT
from cpplan.ordering.cuts import OrderCuts
from cpplan.ordering.heuristics.by_subtree import tree_order
from cpplan.ordering.heuristics.reversal import reverse_time
from cpplan.ordering.loops import BEAM, DOWNSETS
from cpplan.ordering.search.cp_sat_ordering import NAME as CP_SAT
from cpplan.ordering.search.cp_sat_ordering import order_model
from cpplan.ordering.search.cut_division import divide_by_cuts
from cpplan.ordering.search.downset_search import search_downsets
from cpplan.ordering.search.order_pieces import OrderPiece, cut_into_pieces, join_pieces
from cpplan.ordering.search.window_search import NAME as WINDOWS
from cpplan.ordering.tuning import active
from cpplan.packing.search.outcome import OrderOutcome
from cpplan.runtime.budget import Budget
from cpplan.runtime.compiled import COMPILING_SHARE, prepare_all
from cpplan.runtime.cp_sat_proof import prove_peak
from cpplan.runtime.deadline import Deadline, TimeUpError
from cpplan.runtime.turns import Turn, Turns

# Share of the time left for the bytes live in every order; it is reached only with very many ops.
_BOUND_SHARE = 0.1
# CP-SAT's deterministic time before the loops are compiled, with few ops.
_FEW_OPS_WORK = 0.3
# Largest share of the time left for that: loops often find more in less time.
_FEW_OPS_SHARE = 0.5
# Most states of the exact search in the first turn.
_FIRST_STATES = 40_000
# Most states of the search of one window.
_WINDOW_STATES = 20_000
# Number of ops above which CP-SAT improves windows only.
_CP_SAT_OPS = 400

EXACT, LIU = "downset search", "Liu's algorithm"
# Their first use compiles for seconds; CP-SAT, which runs before, mostly solves problems of few
# ops.
COMPILED = ("beam", "beam_backward")


def search_order(
    problem: OrderProblem,
    given: Ints,
    budget: Budget,
    *,
    target: int = 0,
    report: Callable[[OrderOutcome], None] = lambda outcome: None,
) -> OrderOutcome:
    """The order with the smallest peak found, and a bound on every order's peak."""
    search = OrderSearch(problem, given, budget, target=target, report=report)
    search.run(budget.deadline)
    return search.best


class OrderSearch:
    """A search for orders that can be continued; see :func:`search_order` for the parameters.

    Attributes
    ----------
    best
        The order with the smallest peak so far, and the bound.
    """

    def __init__(
        self,
        problem: OrderProblem,
        given: Ints,
        budget: Budget,
        *,
        target: int = 0,
        report: Callable[[OrderOutcome], None] = lambda outcome: None,
    ):
        # Models of orders are small: more threads only add time at the start.
        self._problem, self._target, self._budget = problem, target, budget.on_one_thread()
        self._report = report
        self._bounds = order_bounds(
            problem, order=given, deadline=budget.deadline.share(_BOUND_SHARE)
        )
        peak = problem.peak(given)
        self.best = OrderOutcome(
            given,
            peak,
            self._bounds.bound,
            "given order",
            FORCED,
            self._bounds.certificate(problem),
        )
        self._pieces: list[OrderPiece] = []
        self._cuts: OrderCuts | None = None
        self._turns = Turns(2 * active().most_effort, last=active().most_effort, growth=2)
        report(self.best)

    @property
    def done(self) -> bool:
        """True if the best order is good enough, or proved to be of least peak."""
        return self.best.peak <= max(self._target, self.best.bound)

    @property
    def exhausted(self) -> bool:
        """True if the longest turn has been taken."""
        return self._turns.exhausted

    def run(self, deadline: Deadline) -> None:
        """Continue until done, exhausted or out of time."""
        try:
            if not self.done:
                self._begin(deadline) if not self._pieces else self._cut_again(deadline)
            budget = self._budget.until(deadline)
            self._turns.run(lambda effort: self._turn(effort, budget), lambda: self.done, deadline)
        except TimeUpError:
            pass  # the next run continues

    def try_order(self, order: Ints, name: str) -> None:
        """Go on from an order found elsewhere, if its peak is smaller."""
        peak = self._problem.peak(order)
        if peak < self.best.peak:
            self.best = self.best._replace(order=order, peak=peak, found_by=name)
            self._report(self.best)
            if self._pieces:
                self._cut_into_pieces()

    def _begin(self, deadline: Deadline) -> None:
        """Run the constructive orders and the minimum cuts, then make the pieces for the turns."""
        problem, bounds = self._problem, self._bounds
        self.best, self._cuts = _construct(
            problem, bounds, self.best, self._target, self._budget.until(deadline), self._report
        )
        if not self.done:
            deadline.check()  # the next run begins with the heuristics that had no time
            self._cut_into_pieces()

    def _cut_again(self, deadline: Deadline) -> None:
        """Continue the minimum cuts that the last run had no time for."""
        cuts = self._cuts
        if cuts is None:
            return
        cuts.run(deadline.share(active().cuts_share))
        if cuts.peak < self.best.peak or cuts.bound > self.best.bound:
            self.best = _merged(self.best, cuts)
            self._report(self.best)
            self._cut_into_pieces()

    def _cut_into_pieces(self) -> None:
        best = self.best
        self._pieces = cut_into_pieces(
            self._problem, best.order, self._bounds, best.found_by, self._budget.seed
        )
        least = self._bounds.forced if self._cuts is None else self._cuts.bounds
        for piece in self._pieces:
            piece.offer_bound(int(least[piece.ops].max()), MINIMUM_CUT)

    def _turn(self, effort: int, budget: Budget) -> Turn:
        """Take a turn on the piece of largest peak; if it gains nothing, the next is longer."""
        pieces, best = self._pieces, self.best
        piece = max(pieces, key=lambda piece: piece.peak)
        below = (other.peak for other in pieces if other.peak < piece.peak)
        target = max(self._target, best.bound, *below, 0)
        _improve(piece, target, effort, budget)
        highest = max(pieces, key=lambda piece: piece.peak)
        proof = max(pieces, key=lambda piece: piece.bound)
        if highest.peak < best.peak or proof.bound > best.bound:
            order = join_pieces(pieces)
            best = best._replace(order=order, peak=highest.peak, found_by=highest.found_by)
            if proof.bound > best.bound:
                best = best._replace(bound=proof.bound, bound_by=proof.bound_by, certificate=None)
            self.best = best
            self._report(self.best)
            return Turn.AGAIN
        return Turn.LONGER if highest is piece else Turn.AGAIN


def _construct(
    problem: OrderProblem,
    bounds: OrderBounds,
    best: OrderOutcome,
    target: int,
    budget: Budget,
    report: Callable[[OrderOutcome], None],
) -> tuple[OrderOutcome, OrderCuts | None]:
    """The best order by Liu's algorithm, constructive orders, cuts and CP-SAT, and the cuts.

    A forest is solved exactly; otherwise the methods run until the peak meets the bound.
    """
    cuts: OrderCuts | None = None
    deadline = budget.deadline
    tree = tree_order(problem)
    if tree is not None:
        peak = problem.peak(tree)
        best = OrderOutcome(tree, peak, peak, LIU, LIU)
        report(best)
        return best, cuts
    plain = [name for name in orders.names() if name not in COMPILED]
    try:
        best = _construct_by(plain, problem, best, target, deadline, report)
        if best.peak > max(target, best.bound):
            deadline.check()
            cuts = OrderCuts(problem, bounds.forced, best.order)
            cuts.run(deadline.share(active().cuts_share))
            best = _merged(best, cuts)
            report(best)
            best = _divide(problem, best, target, deadline.share(active().cuts_share), report)
        if best.peak > max(target, best.bound) and len(problem) <= active().few_ops:
            proof = prove_peak(
                order_model(problem),
                best.order,
                budget.share(_FEW_OPS_SHARE),
                bound=best.bound,
                work=_FEW_OPS_WORK,
            )
            if proof.peak < best.peak:
                best = best._replace(order=proof.best, peak=proof.peak, found_by=CP_SAT)
            if proof.bound > best.bound:
                best = best._replace(bound=proof.bound, bound_by=CP_SAT, certificate=None)
            report(best)
        if best.peak > max(target, best.bound) and _compiled(deadline):
            best = _construct_by(COMPILED, problem, best, target, deadline, report)
    except TimeUpError:
        pass  # the loop that follows sees it too
    return best, cuts


def _merged(best: OrderOutcome, cuts: OrderCuts) -> OrderOutcome:
    """Outcome with the better order and the better bound of both."""
    if cuts.peak < best.peak:
        best = best._replace(order=cuts.order, peak=cuts.peak, found_by=MINIMUM_CUT)
    if cuts.bound > best.bound:
        best = best._replace(bound=cuts.bound, bound_by=MINIMUM_CUT, certificate=cuts.certificate())
    return best


def _construct_by(
    names: Sequence[str],
    problem: OrderProblem,
    best: OrderOutcome,
    target: int,
    deadline: Deadline,
    report: Callable[[OrderOutcome], None],
) -> OrderOutcome:
    """The best outcome after these constructive orders, tried until one meets the bound."""
    try:
        for name in names:
            deadline.check()
            order = np.asarray(orders.get(name)(problem, deadline), np.int64)
            peak = problem.peak(order)
            if peak < best.peak:
                best = best._replace(order=order, peak=peak, found_by=name)
                report(best)
            if best.peak <= max(target, best.bound):
                break
    except TimeUpError:
        pass  # the loop that follows sees it too
    return best


def _divide(
    problem: OrderProblem,
    best: OrderOutcome,
    target: int,
    deadline: Deadline,
    report: Callable[[OrderOutcome], None],
) -> OrderOutcome:
    """The best outcome after orders made by dividing at minimum cuts, each from the one before."""
    order = best.order
    for _ in range(active().divisions):
        least = max(target, best.bound)
        if best.peak <= least or deadline.expired():
            break
        # A target half way to the bound: with the bound itself, too many parts would be divided.
        order = divide_by_cuts(problem, order, (least + best.peak) // 2, deadline)
        peak = problem.peak(order)
        if peak < best.peak:
            best = best._replace(order=order, peak=peak, found_by=MINIMUM_CUT)
            report(best)
    return best


def _improve(piece: OrderPiece, target: int, effort: int, budget: Budget) -> None:
    """Take a turn on one piece: exact search, windows and CP-SAT, for longer at more effort."""
    deadline = budget.deadline
    compiled = _compiled(deadline)
    if compiled:
        _search_exactly(piece, effort, deadline)
    if piece.peak < piece.windows.peak:
        piece.windows.restart(piece.order)
    enough = max(target, piece.bound)
    if compiled:
        piece.windows.run(
            active().first_windows * effort,
            target=enough,
            states=_WINDOW_STATES,
            deadline=deadline,
        )
    if len(piece.problem) > _CP_SAT_OPS:
        piece.windows.run_cp_sat(effort, target=enough, budget=budget)
    piece.offer(piece.windows.order, WINDOWS)
    if enough < piece.peak and len(piece.problem) <= _CP_SAT_OPS:
        work = active().first_cp_sat_work * effort
        model = order_model(piece.problem)
        proof = prove_peak(model, piece.order, budget, bound=piece.bound, work=work)
        piece.offer(proof.best, CP_SAT)
        piece.offer_bound(proof.bound, CP_SAT)


def _compiled(deadline: Deadline) -> bool:
    """True if the loops are compiled, after waiting a share of the time; else only CP-SAT runs."""
    return prepare_all((BEAM, DOWNSETS), deadline.share(COMPILING_SHARE))


def _search_exactly(piece: OrderPiece, effort: int, deadline: Deadline) -> None:
    """Downset search forward and in reversed time: no rule tells which needs fewer states."""
    most = active().most_state_bytes // (48 + len(piece.problem) // 8)
    states = _FIRST_STATES * effort
    if states // 2 > most:
        return
    for backward in (False, True):
        if piece.peak <= piece.bound:
            return
        problem = reverse_time(piece.problem) if backward else piece.problem
        order = piece.order[::-1] if backward else piece.order
        found = search_downsets(
            problem, order, deadline, level=piece.bound, states=min(states, most)
        )
        piece.offer(np.ascontiguousarray(found.order[::-1] if backward else found.order), EXACT)
        piece.offer_bound(found.peak if found.complete else found.level, EXACT)
