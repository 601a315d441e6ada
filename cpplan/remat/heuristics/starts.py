"""First schedules for a search: by dropping values, or by eviction and checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cpplan.model.problem import Ints
from cpplan.remat.heuristics.checkpoints import checkpoint
from cpplan.remat.heuristics.dropping import NAME as DROPPING
from cpplan.remat.heuristics.dropping import drop
from cpplan.remat.heuristics.eviction import NAMES, RULES, Evictions
from cpplan.remat.problem import RematProblem
from cpplan.runtime.deadline import Deadline, TimeUpError


def first_schedule(
    problem: RematProblem,
    limit: int,
    orders: Iterable[Sequence[int] | Ints],
    deadline: Deadline,
) -> tuple[tuple[int, ...], str]:
    """The cheapest schedule within ``limit`` bytes, and the name of the heuristic that made it.

    If none fits, it is the schedule of least peak. Each order is a candidate itself. When the
    deadline passes, the best one made so far is returned.

    Parameters
    ----------
    orders
        Orders of the units, at least one.

    Examples
    --------
    >>> from cpplan.model.graph import Graph, Op, Tensor
    >>> from cpplan.remat.problem import remat_problem
    >>> tensors = Tensor("a", 4), Tensor("b", 8), Tensor("c", 2), Tensor("y", 1, kind="output")
    >>> ops = (
    ...     Op("f", outputs=("a",)),
    ...     Op("g", inputs=("a",), outputs=("b",)),
    ...     Op("h", inputs=("b",), outputs=("c",)),
    ...     Op("k", inputs=("a", "c"), outputs=("y",)),
    ... )
    >>> problem = remat_problem(Graph("g", tensors, ops))
    >>> first_schedule(problem, 12, [range(4)], Deadline(10))
    ((0, 1, 2, 0, 3), 'greedy dropping')
    """
    tried = [tuple(int(unit) for unit in order) for order in orders]
    found = [(order, "order") for order in tried]
    try:
        for order in tried:
            if problem.peak(order) > limit:
                found.append((drop(problem, order, limit, deadline), DROPPING))
                schedule = checkpoint(problem, limit, deadline, order)
                if schedule is not None:
                    found.append((schedule, "chen"))
        if all(problem.peak(schedule) > limit for schedule, _ in found):
            evictions = Evictions(problem)
            for order in tried:
                for name, rule in zip(NAMES, RULES, strict=True):
                    deadline.check()
                    schedule = evictions.run(order, limit, rule, deadline)
                    if schedule is not None:
                        found.append((schedule, name))
    except TimeUpError:
        pass  # what was made until then stands
    return min(found, key=lambda made: _rank(problem, made[0], limit))


def _rank(
    problem: RematProblem, schedule: tuple[int, ...], limit: int
) -> tuple[int, int | float, int]:
    """Sort key of a schedule: bytes beyond the limit, then cost, then peak."""
    peak = problem.peak(schedule)
    return max(peak - limit, 0), problem.total_cost(schedule), peak
