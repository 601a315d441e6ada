"""Greedy by breadth: the steps with the most live bytes choose first.

Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference" (2020).
"""

from __future__ import annotations

import numpy as np

from cpplan.model.problem import Ints, Problem
from cpplan.packing.heuristics.layout import best_fit_in_order, range_minimum
from cpplan.packing.heuristics.registered import register
from cpplan.runtime.deadline import Deadline


@register("greedy_by_breadth")
def greedy_by_breadth(problem: Problem, deadline: Deadline) -> Ints:
    """Steps by decreasing live bytes; at each, its buffers by decreasing size, best fit. O(n²)."""
    times, live = problem.live_profile()
    # A buffer's turn is the rank of the fullest step at which it is live.
    rank = np.empty(len(times), np.int64)
    rank[np.argsort(-live, kind="stable")] = np.arange(len(times))
    turn = np.full(len(problem), len(times), np.int64)
    spans = problem.spans
    first = np.searchsorted(times, spans.lower)
    last = np.searchsorted(times, spans.upper)
    best = range_minimum(rank, first, last)
    np.minimum.at(turn, spans.buffer, best)
    return best_fit_in_order(problem, np.lexsort((problem.lower, -problem.size, turn)), deadline)
