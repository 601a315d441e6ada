"""Greedy by size: the largest buffers choose first.

Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference" (2020); the planner
of TFLite and TFLite Micro.
"""

from __future__ import annotations

import numpy as np

from cpplan.model.problem import Ints, Problem
from cpplan.packing.heuristics.layout import best_fit_in_order, first_fit_in_order
from cpplan.packing.heuristics.registered import register
from cpplan.runtime.deadline import Deadline


@register("greedy_by_size")
def greedy_by_size(problem: Problem, deadline: Deadline) -> Ints:
    """By decreasing size, ties by first step; each in the tightest hole. O(n²)."""
    return best_fit_in_order(problem, np.lexsort((problem.lower, -problem.size)), deadline)


@register("first_fit_by_size")
def first_fit_by_size(problem: Problem, deadline: Deadline) -> Ints:
    """By decreasing size, each at the lowest address where it fits. O(n²)."""
    return first_fit_in_order(problem, np.lexsort((problem.lower, -problem.size)), deadline)


@register("first_fit_by_area")
def first_fit_by_area(problem: Problem, deadline: Deadline) -> Ints:
    """By decreasing size × lifespan, each at the lowest address where it fits. O(n²)."""
    area = problem.size.astype(float) * (problem.upper - problem.lower)
    return first_fit_in_order(problem, np.lexsort((problem.lower, -area)), deadline)


@register("first_fit_by_lifetime")
def first_fit_by_lifetime(problem: Problem, deadline: Deadline) -> Ints:
    """By decreasing lifespan, ties by size, each at the lowest address where it fits. O(n²)."""
    lifetime = problem.upper - problem.lower
    order = np.lexsort((problem.lower, -problem.size, -lifetime))
    return first_fit_in_order(problem, order, deadline)
