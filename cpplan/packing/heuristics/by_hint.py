"""Packing by the hinted offsets of the problem, kept wherever they fit."""

from __future__ import annotations

import numpy as np

from cpplan.model.problem import Ints, Problem
from cpplan.packing.heuristics.layout import first_fit_in_order
from cpplan.runtime.deadline import Deadline


def follow_hint(problem: Problem, deadline: Deadline) -> Ints:
    """Place hinted buffers first, by increasing hint, each at or above its hint where it fits.

    Buffers without a hint follow by decreasing size, each at the lowest address. O(n²).
    """
    hinted = sorted(problem.hint, key=lambda row: (problem.hint[row], row))
    others = np.lexsort((problem.lower, -problem.size)).tolist()
    order = [*hinted, *(row for row in others if row not in problem.hint)]
    return first_fit_in_order(problem, order, deadline, at_least=problem.hint)
