"""First sequences for a search: the best by eviction and checkpoints from some orders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cpplan.model.problem import Ints
from cpplan.remat.heuristics.checkpoints import checkpoint
from cpplan.remat.heuristics.eviction import DTR, FARTHEST_USE, NAMES, RULES, Evictions, Rule
from cpplan.remat.problem import RematProblem
from cpplan.runtime.deadline import Deadline, TimeUpError

# How often the way from a limit that a rule cannot keep to the order's peak is halved.
_HALVINGS = 8


def first_sequence(
    problem: RematProblem,
    limit: int,
    orders: Iterable[Sequence[int] | Ints],
    deadline: Deadline,
) -> tuple[tuple[int, ...], str]:
    """The cheapest sequence within ``limit`` bytes, and the name of the rule that made it.

    If none fits, it is the sequence of least peak. Each order is a candidate itself. When the
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
    >>> first_sequence(problem, 12, [range(4)], Deadline(10))
    ((0, 1, 2, 0, 3), 'farthest_use')
    """
    tried = [tuple(int(unit) for unit in order) for order in orders]
    found = [(order, "order") for order in tried]
    try:
        evictions = Evictions(problem)
        for order in tried:
            if problem.peak(order) <= limit:
                continue
            for name, rule in zip(NAMES, RULES, strict=True):
                deadline.check()
                sequence = evictions.run(order, limit, rule, deadline)
                if sequence is not None:
                    found.append((sequence, name))
            sequence = checkpoint(problem, limit, deadline, order)
            if sequence is not None:
                found.append((sequence, "chen"))
        if all(problem.peak(sequence) > limit for sequence, _ in found):
            for order in tried:
                for name, rule in (("farthest_use", FARTHEST_USE), ("dtr", DTR)):
                    near = _close_by(problem, evictions, rule, order, limit, deadline)
                    found += [(sequence, name) for sequence in near]
    except TimeUpError:
        pass  # what was made until then stands
    return min(found, key=lambda made: _rank(problem, made[0], limit))


def _close_by(
    problem: RematProblem,
    evictions: Evictions,
    rule: Rule,
    order: tuple[int, ...],
    limit: int,
    deadline: Deadline,
) -> list[tuple[int, ...]]:
    """Sequences by a rule, their limits bisected between ``limit`` and the order's peak."""
    low, high = limit, problem.peak(order)
    found: list[tuple[int, ...]] = []
    for _ in range(_HALVINGS):
        if deadline.expired() or high - low < 2:
            break
        middle = (low + high) // 2
        sequence = evictions.run(order, middle, rule, deadline)
        if sequence is not None and problem.peak(sequence) <= middle:
            found.append(sequence)
            high = middle
        else:
            low = middle
    return found


def _rank(
    problem: RematProblem, sequence: tuple[int, ...], limit: int
) -> tuple[int, int | float, int]:
    """Sort key of a sequence: bytes beyond the limit, then cost, then peak."""
    peak = problem.peak(sequence)
    return max(peak - limit, 0), problem.total_cost(sequence), peak
