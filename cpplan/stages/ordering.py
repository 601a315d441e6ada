"""``search_order``: the stages that look for the order with the least pressure.

Bound, constructive orders, minimum cuts, then the pieces between ops with a fixed place: downset
search, exact as far as its states reach, and window search, in turns on the highest piece. The
given order is always a candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cpplan import orders
from cpplan.deadline import Deadline, TimeUpError
from cpplan.ordering import OrderProblem
from cpplan.orders.by_subtree import tree_order
from cpplan.orders.reversal import reverse_time
from cpplan.problem import Ints
from cpplan.search.cp_sat_ordering import NAME as CP_SAT
from cpplan.search.cp_sat_ordering import prove_order
from cpplan.search.cut_division import divide_by_cuts
from cpplan.search.downset_search import search_downsets
from cpplan.search.order_bounds import FORCED, OrderBounds, order_bounds
from cpplan.search.order_cuts import NAME as MINIMUM_CUT
from cpplan.search.order_cuts import OrderCuts
from cpplan.search.order_pieces import OrderPiece, cut_into_pieces, join_pieces
from cpplan.search.outcome import OrderOutcome
from cpplan.search.window_search import NAME as WINDOWS

EXACT, LIU = "downset search", "Liu's algorithm"
# Of the first turn: states of the exact search; windows, and states for each of them.
FIRST_STATES, FIRST_WINDOWS, WINDOW_STATES = 20_000, 10, 20_000
MOST_STATE_BYTES = 1 << 30
# Without a time limit, the search ends here, so that packing has its turn.
MOST_EFFORT = 1024
# CP-SAT gets so much deterministic time in the first turn; on more ops than that, windows only.
FIRST_CP_SAT, CP_SAT_OPS = 0.2, 400
# Of what is left, for minimum cuts: milliseconds each, of which a few mostly do.
CUTS_SHARE = 0.2
# The order is divided by them so many times, within the same share.
DIVISIONS = 8
# The first use of these compiles for seconds; few ops CP-SAT has mostly settled before.
COMPILED = ("beam", "beam_backward")
FEW_OPS, FEW_OPS_WORK = 150, 0.3


def search_order(
    problem: OrderProblem,
    given: Ints,
    deadline: Deadline,
    *,
    goal: int = 0,
    seed: int = 0,
    report: Callable[[OrderOutcome], None] = lambda outcome: None,
) -> OrderOutcome:
    """The order with the smallest peak found, and a bound on every order's peak.

    Parameters
    ----------
    problem
        Ops and storages.
    given
        A valid order; the result is never worse.
    deadline
        When it passes, the best so far is returned.
    goal
        A peak that is good enough, bytes.
    seed
        Of the local search.
    report
        Called at every improvement of either side; what it was told last is what Ctrl-C leaves.

    Examples
    --------
    >>> two_chains = OrderProblem(
    ...     predecessors=((), (), (0,), (1,)), extra=np.zeros(4, np.int64),
    ...     size=np.array([8, 8, 1, 1]), touched_by=((0, 2), (1, 3), (2,), (3,)),
    ...     present=np.zeros(4, bool), kept=np.array([False, False, True, True]),
    ... )
    >>> outcome = search_order(two_chains, np.arange(4), Deadline(10))
    >>> outcome.peak, outcome.bound
    (10, 10)
    """
    bounds = order_bounds(problem)
    best = OrderOutcome(given, problem.peak(given), bounds.bound, "given order", FORCED)
    report(best)
    if best.peak <= max(goal, best.bound):
        return best
    try:
        best, least = _construct(problem, bounds, best, goal, deadline, report)
        if best.peak <= max(goal, best.bound):
            return best
        pieces = cut_into_pieces(problem, best.order, bounds, best.found_by, seed)
        for piece in pieces:
            piece.offer_bound(int(least[piece.ops].max()), MINIMUM_CUT)
        effort = 1
        while best.peak > max(goal, best.bound) and effort <= MOST_EFFORT:
            deadline.check()
            piece = max(pieces, key=lambda piece: piece.peak)
            below = (other.peak for other in pieces if other.peak < piece.peak)
            _improve(piece, max(goal, best.bound, *below, 0), effort, deadline)
            highest = max(pieces, key=lambda piece: piece.peak)
            proof = max(pieces, key=lambda piece: piece.bound)
            if highest.peak < best.peak or proof.bound > best.bound:
                best = best._replace(
                    order=join_pieces(pieces),
                    peak=highest.peak,
                    bound=proof.bound,
                    found_by=highest.found_by,
                    bound_by=proof.bound_by,
                )
                report(best)
            elif highest is piece:
                effort *= 2
    except TimeUpError:
        pass
    return best


def _construct(
    problem: OrderProblem,
    bounds: OrderBounds,
    best: OrderOutcome,
    goal: int,
    deadline: Deadline,
    report: Callable[[OrderOutcome], None],
) -> tuple[OrderOutcome, Ints]:
    """Forests exactly; else constructive orders and minimum cuts, until one meets the bound.

    With the best order, the bytes that are live at least while each op runs, shape ``(ops,)``.
    """
    least = bounds.forced
    tree = tree_order(problem)
    if tree is not None:
        peak = problem.peak(tree)
        best = OrderOutcome(tree, peak, peak, LIU, LIU)
        report(best)
        return best, least
    plain = [name for name in orders.names() if name not in COMPILED]
    try:
        best = _construct_by(plain, problem, best, goal, deadline, report)
        if best.peak > max(goal, best.bound):
            deadline.check()
            cuts = OrderCuts(problem, least, best.order)
            cuts.run(deadline.share(CUTS_SHARE))
            least = cuts.bounds
            if cuts.peak < best.peak:
                best = best._replace(order=cuts.order, peak=cuts.peak, found_by=MINIMUM_CUT)
            if cuts.bound > best.bound:
                best = best._replace(
                    bound=cuts.bound, bound_by=MINIMUM_CUT, certificate=cuts.certificate()
                )
            report(best)
            best = _divide(problem, best, goal, deadline.share(CUTS_SHARE), report)
        if best.peak > max(goal, best.bound) and len(problem) <= FEW_OPS:
            proof = prove_order(problem, best.order, deadline, bound=best.bound, work=FEW_OPS_WORK)
            if proof.peak < best.peak:
                best = best._replace(order=proof.best, peak=proof.peak, found_by=CP_SAT)
            if proof.bound > best.bound:
                best = best._replace(bound=proof.bound, bound_by=CP_SAT)
            report(best)
        if best.peak > max(goal, best.bound):
            best = _construct_by(COMPILED, problem, best, goal, deadline, report)
    except TimeUpError:
        pass  # the loop that follows sees it too
    return best, least


def _construct_by(
    names: Sequence[str],
    problem: OrderProblem,
    best: OrderOutcome,
    goal: int,
    deadline: Deadline,
    report: Callable[[OrderOutcome], None],
) -> OrderOutcome:
    """The best of these constructive orders, until one meets the bound."""
    try:
        for name in names:
            order = np.asarray(orders.get(name)(problem, deadline), np.int64)
            peak = problem.peak(order)
            if peak < best.peak:
                best = best._replace(order=order, peak=peak, found_by=name)
                report(best)
            if best.peak <= max(goal, best.bound):
                break
    except TimeUpError:
        pass  # the loop that follows sees it too
    return best


def _divide(
    problem: OrderProblem,
    best: OrderOutcome,
    goal: int,
    deadline: Deadline,
    report: Callable[[OrderOutcome], None],
) -> OrderOutcome:
    """The best of orders made by dividing at minimum cuts, each from the one before."""
    order = best.order
    for _ in range(DIVISIONS):
        least = max(goal, best.bound)
        if best.peak <= least or deadline.expired():
            break
        # Half way: at the bound itself, parts are divided that are better left alone.
        order = divide_by_cuts(problem, order, (least + best.peak) // 2, deadline)
        peak = problem.peak(order)
        if peak < best.peak:
            best = best._replace(order=order, peak=peak, found_by=MINIMUM_CUT)
            report(best)
    return best


def _improve(piece: OrderPiece, goal: int, effort: int, deadline: Deadline) -> None:
    """One turn on one piece: exact search, windows, CP-SAT, each longer than in the last turn."""
    _search_exactly(piece, effort, deadline)
    if piece.peak < piece.windows.peak:
        piece.windows.restart(piece.order)
    target = max(goal, piece.bound)
    piece.windows.run(FIRST_WINDOWS * effort, goal=target, states=WINDOW_STATES, deadline=deadline)
    if len(piece.problem) > CP_SAT_OPS:
        piece.windows.run_cp_sat(effort, goal=target, deadline=deadline)
    piece.offer(piece.windows.order, WINDOWS)
    if target < piece.peak and len(piece.problem) <= CP_SAT_OPS:
        work = FIRST_CP_SAT * effort
        proof = prove_order(piece.problem, piece.order, deadline, bound=piece.bound, work=work)
        piece.offer(proof.best, CP_SAT)
        piece.offer_bound(proof.bound, CP_SAT)


def _search_exactly(piece: OrderPiece, effort: int, deadline: Deadline) -> None:
    """Downset search in both directions: which of them meets the fewest states, nothing tells."""
    most = MOST_STATE_BYTES // (48 + len(piece.problem) // 8)
    states = FIRST_STATES * effort
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
