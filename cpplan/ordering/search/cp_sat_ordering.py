"""Orders by CP-SAT: a proof of the best peak, or a better order for a window of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from cpplan.ordering.problem import OrderProblem
from cpplan.ordering.search.order_window import OrderWindows
from cpplan.runtime.build_in_time import build_in_time
from cpplan.runtime.cp_sat_proof import Proof, improve_peak
from cpplan.runtime.deadline import Deadline

if TYPE_CHECKING:
    from cpplan.model.problem import Ints

NAME = "CP-SAT order"


def prove_order(
    problem: OrderProblem,
    order: Sequence[int] | Ints,
    deadline: Deadline,
    *,
    bound: int = 0,
    work: float | None = None,
    workers: int = 1,
    seed: int = 0,
    report: Callable[[Proof[Ints]], None] = lambda proof: None,
) -> Proof[Ints]:
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
    >>> two_chains.peak(proof.best), proof.peak, proof.bound
    (10, 10, 10)
    """
    start = np.asarray(order, np.int64)
    peak = problem.peak(start)
    if len(problem) == 0:
        return Proof(start, peak, peak)
    known = Proof(start, peak, min(bound, peak))
    if known.settled or deadline.expired():
        return known
    from formulations.ordering import build

    model = build_in_time(lambda: build(problem, upper=peak, lower=known.bound), deadline)
    if model is None:
        return known
    model.hint(start)
    return improve_peak(
        model, known, deadline, peak_of=problem.peak,
        work=work, workers=workers, seed=seed, report=report,
    )  # fmt: skip


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
        windows.put_back(begin, end, proof.best)
    return better
