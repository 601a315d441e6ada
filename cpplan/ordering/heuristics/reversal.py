"""The ordering problem in reversed time."""

from __future__ import annotations

from dataclasses import replace

from cpplan.model.order_problem import OrderProblem


def reverse_time(problem: OrderProblem) -> OrderProblem:
    """The problem in which every order of this one runs backwards, with the same bytes live.

    A storage is live from its first access to its last in both directions; a storage present at
    the start is now kept to the end, and the reverse. Only ``entry``, which belongs to the first
    step, is left out.
    """
    return replace(
        problem,
        predecessors=problem.successors,
        present=problem.kept,
        kept=problem.present,
        entry=0,
    )
