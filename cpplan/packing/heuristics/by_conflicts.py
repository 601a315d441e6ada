"""Greedy by conflicts: the buffer live together with the most others is placed first.

After TVM's Unified Static Memory Planner (``greedy_by_conflicts``), but with each buffer aligned by
its own alignment, and with gaps filled.
"""

from __future__ import annotations

import numpy as np

from cpplan.model.problem import Ints, Problem
from cpplan.packing.heuristics.layout import first_fit_in_order
from cpplan.packing.heuristics.registered import register
from cpplan.runtime.deadline import Deadline


@register("greedy_by_conflicts")
def greedy_by_conflicts(problem: Problem, deadline: Deadline) -> Ints:
    """By decreasing number of conflicts, ties by size, each at the lowest address. O(n²)."""
    order = np.lexsort((problem.lower, -problem.size, -conflict_counts(problem)))
    return first_fit_in_order(problem, order, deadline)


def conflict_counts(problem: Problem) -> Ints:
    """Number of other buffers live together with each buffer, shape ``(n,)``.

    O(n log n) without gaps, O(n²) with gaps.
    """
    if not problem.gaps:
        ended = np.searchsorted(np.sort(problem.upper), problem.lower, side="right")
        begun = np.searchsorted(np.sort(problem.lower), problem.upper, side="left")
        return (begun - ended - 1).astype(np.int64)
    spans, first = problem.spans, problem.first_span
    counts = np.zeros(len(problem), np.int64)
    for row in range(len(problem)):
        together = np.zeros(len(spans.buffer), bool)
        for k in range(first[row], first[row + 1]):
            together |= (spans.lower < spans.upper[k]) & (spans.upper > spans.lower[k])
        counts[row] = max(0, len(np.unique(spans.buffer[together])) - 1)
    return counts
