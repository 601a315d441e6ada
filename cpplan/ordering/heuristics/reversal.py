"""The ordering problem in reversed time."""

from __future__ import annotations

from dataclasses import replace

from cpplan.model.order_problem import OrderProblem


def reverse_time(problem: OrderProblem) -> OrderProblem:
    """The problem in which every order of this one runs backwards, with the same bytes live.

    A storage is live from its first access to its last in both directions; a storage present at
    the start is now kept to the end, and the reverse. Only ``entry``, which belongs to the first
    step, is left out.

    Examples
    --------
    >>> import numpy as np
    >>> fork = OrderProblem(
    ...     predecessors=((), (0,), (0,)), extra=np.zeros(3, np.int64),
    ...     size=np.array([4, 8]), accessed_by=((0, 1, 2), (1,)),
    ...     present=np.array([False, False]), kept=np.array([False, True]),
    ... )
    >>> fork.pressure([0, 1, 2]).tolist()
    [4, 12, 12]
    >>> reverse_time(fork).pressure([2, 1, 0]).tolist()
    [12, 12, 4]
    """
    return replace(
        problem,
        predecessors=problem.successors,
        present=problem.kept,
        kept=problem.present,
        entry=0,
    )
