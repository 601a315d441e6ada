"""Packing without reuse: every buffer gets bytes of its own. The baseline of comparisons."""

from __future__ import annotations

import numpy as np

from cpplan.model.problem import Ints, Problem
from cpplan.packing.heuristics.layout import Layout
from cpplan.packing.heuristics.registered import register
from cpplan.runtime.deadline import Deadline


@register("bump")
def bump_within(problem: Problem, deadline: Deadline) -> Ints:
    """:func:`bump` as a heuristic among others."""
    deadline.check()
    return bump(problem)


def bump(problem: Problem) -> Ints:
    """Stack the buffers in order of their first step, each aligned. O(n log n).

    Buffers whose offset is fixed stay there; the others go above them.
    """
    order = np.argsort(problem.lower, kind="stable")
    if not problem.fixed and len(problem) and (problem.alignment == problem.alignment[0]).all():
        step = problem.alignment[0]
        padded = -(-problem.size[order] // step) * step
        offset = np.empty(len(problem), np.int64)
        offset[order] = np.cumsum(padded) - padded
        return offset
    offset = Layout(problem).offset
    free = np.ones(len(problem), bool)
    free[list(problem.fixed)] = False
    top = max((at + int(problem.size[row]) for row, at in problem.fixed.items()), default=0)
    for row in order:
        if free[row]:
            alignment = int(problem.alignment[row])
            offset[row] = -(-top // alignment) * alignment
            top = int(offset[row] + problem.size[row])
    return offset
