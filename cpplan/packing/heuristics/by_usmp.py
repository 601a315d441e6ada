"""TVM's Unified Static Memory Planner as published, registered under separate names.

Every buffer lists all buffers that are live together with it. The offsets may be invalid: the
published algorithms round to the neighbour's alignment (see ``cpplan.packing.heuristics.usmp``)
and ignore fixed offsets. The caller checks them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cpplan.model.pool import Pool
from cpplan.model.problem import Ints, Problem
from cpplan.packing.heuristics.registered import register
from cpplan.packing.heuristics.usmp import (
    Allocations,
    UsmpBuffer,
    UsmpProblem,
    usmp_greedy_by_conflicts,
    usmp_greedy_by_size,
)
from cpplan.packing.heuristics.usmp_climb import usmp_hill_climb
from cpplan.runtime.deadline import Deadline


@register("usmp_greedy_by_size", as_published=True)
def greedy_by_size(problem: Problem, deadline: Deadline) -> Ints:
    """By decreasing size, each above all placed buffers live together with it. O(n²)."""
    return _run(problem, deadline, usmp_greedy_by_size)


@register("usmp_greedy_by_conflicts", as_published=True)
def greedy_by_conflicts(problem: Problem, deadline: Deadline) -> Ints:
    """By decreasing number of conflicts, each above all placed conflicting buffers. O(n²)."""
    return _run(problem, deadline, usmp_greedy_by_conflicts)


@register("usmp_hill_climb", as_published=True)
def hill_climb(problem: Problem, deadline: Deadline) -> Ints:
    """Start by size; 500 attempts to swap two buffers near the peak. O(n²) an attempt."""
    target = int(problem.live_profile()[1].max(initial=0))
    return _run(
        problem, deadline, lambda listed: usmp_hill_climb(listed, target, deadline=deadline)
    )


def _run(
    problem: Problem, deadline: Deadline, algorithm: Callable[[UsmpProblem], Allocations]
) -> Ints:
    listed = UsmpProblem(tuple(_buffers(problem, deadline)), (Pool(),))
    placed = algorithm(listed)
    return np.array([placed[name].offset for name in problem.names], np.int64)


def _buffers(problem: Problem, deadline: Deadline) -> list[UsmpBuffer]:
    spans, first = problem.spans, problem.first_span
    buffers = []
    for row, name in enumerate(problem.names):
        deadline.check(1e-8 * len(problem))
        together = np.zeros(len(spans.buffer), bool)
        for k in range(first[row], first[row + 1]):
            together |= (spans.lower < spans.upper[k]) & (spans.upper > spans.lower[k])
        others = np.unique(spans.buffer[together]).tolist()
        conflicts = tuple(problem.names[other] for other in others if other != row)
        size, alignment = int(problem.size[row]), int(problem.alignment[row])
        buffers.append(UsmpBuffer(name, size, conflicts, alignment=alignment))
    return buffers
