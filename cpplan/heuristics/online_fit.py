"""What an allocator would do that sees one request at a time, in order of execution."""

from __future__ import annotations

import numpy as np

from cpplan.deadline import Deadline
from cpplan.heuristics import register
from cpplan.heuristics.layout import best_fit_in_order, first_fit_in_order
from cpplan.problem import Ints, Problem


@register("first_fit")
def first_fit(problem: Problem, deadline: Deadline) -> Ints:
    """By first step, then size; each at the lowest address where it fits. O(n²)."""
    return first_fit_in_order(problem, np.lexsort((-problem.size, problem.lower)), deadline)


@register("best_fit")
def best_fit(problem: Problem, deadline: Deadline) -> Ints:
    """By first step, then size; each into the hole that it fills best. O(n²)."""
    return best_fit_in_order(problem, np.lexsort((-problem.size, problem.lower)), deadline)
