"""Orders by CP-SAT: a proof of the best peak, or a better order for a window of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cpplan.deadline import Deadline
from cpplan.ordering import OrderProblem
from cpplan.search.cp_sat_run import run_model
from cpplan.search.order_window import OrderWindows

if TYPE_CHECKING:
    from cpplan.problem import Ints

NAME = "CP-SAT order"


class OrderProof(NamedTuple):
    """The best order known, its peak, and a bound on every order's peak, bytes."""

    order: Ints
    peak: int
    bound: int


def prove_order(
    problem: OrderProblem,
    order: Sequence[int] | Ints,
    deadline: Deadline,
    *,
    bound: int = 0,
    work: float | None = None,
    workers: int = 1,
    seed: int = 0,
    report: Callable[[OrderProof], None] = lambda proof: None,
) -> OrderProof:
    """Look for a smaller peak than an order's until there is provably none.

    Parameters
    ----------
    problem
        Ops and storages.
    order
        A valid order to start from.
    deadline
        When it passes, the best so far is returned.
    bound
        A proved bound on every order's peak, bytes.
    work
        Units of CP-SAT's deterministic time to spend at most.
    workers
        Threads. With one, and enough time, the same input and seed give the same order.
    seed
        For CP-SAT's random choices.
    report
        Called, in the calling thread, at every improvement of either side.

    Examples
    --------
    >>> two_chains = OrderProblem(
    ...     predecessors=((), (), (0,), (1,)), extra=np.zeros(4, np.int64),
    ...     size=np.array([8, 8, 1, 1]), touched_by=((0, 2), (1, 3), (2,), (3,)),
    ...     present=np.zeros(4, bool), kept=np.array([False, False, True, True]),
    ... )
    >>> proof = prove_order(two_chains, [0, 1, 2, 3], Deadline(60))
    >>> two_chains.peak(proof.order), proof.peak, proof.bound
    (10, 10, 10)
    """
    start = np.asarray(order, np.int64)
    peak = problem.peak(start)
    state = OrderProof(start, peak, min(bound, peak))
    if len(problem) == 0:
        return state._replace(bound=peak)
    if state.bound == peak or deadline.expired():
        return state
    from formulations.ordering import build

    ordering = build(problem, upper=peak, lower=state.bound)
    ordering.hint(start)

    def found(order: Ints) -> None:
        nonlocal state
        peak = problem.peak(order)
        if peak < state.peak:
            state = state._replace(order=order, peak=peak)
            report(state)

    def proved(bound: int) -> None:
        nonlocal state
        if bound > state.bound:
            state = state._replace(bound=bound)
            report(state)

    run_model(ordering, deadline, found=found, proved=proved, work=work, workers=workers, seed=seed)
    return state


def improve_window(
    windows: OrderWindows,
    begin: int,
    end: int,
    deadline: Deadline,
    *,
    goal: int = 0,
    work: float = 0.1,
    seed: int = 0,
) -> bool:
    """Let the ops of the window ``[begin, end)`` change places if that lowers the peak within it.

    Parameters
    ----------
    windows
        The order; changed in place.
    begin, end
        Steps.
    deadline
        When it passes, the best so far is taken.
    goal
        A peak within the window that is good enough, bytes.
    work
        Units of CP-SAT's deterministic time to spend at most.
    seed
        For CP-SAT's random choices.

    Returns
    -------
    bool
        Whether the window's peak has fallen.

    Examples
    --------
    >>> two_chains = OrderProblem(
    ...     predecessors=((), (), (0,), (1,)), extra=np.zeros(4, np.int64),
    ...     size=np.array([8, 8, 1, 1]), touched_by=((0, 2), (1, 3), (2,), (3,)),
    ...     present=np.zeros(4, bool), kept=np.array([False, False, True, True]),
    ... )
    >>> windows = OrderWindows(two_chains, [0, 1, 2, 3])
    >>> improve_window(windows, 1, 3, Deadline(60)), windows.order
    (True, [0, 2, 1, 3])
    """
    problem = windows.window(begin, end)
    order = np.arange(end - begin)
    proof = prove_order(problem, order, deadline, bound=goal, work=work, seed=seed)
    better = proof.peak < problem.peak(order)
    if better:
        windows.put_back(begin, end, proof.order)
    return better
