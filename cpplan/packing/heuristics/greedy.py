"""Greedy packings: buffers choose their offsets one after another, in an order fixed beforehand.

By size and by breadth: Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net
Inference" (2020); by size is also the planner of TFLite and TFLite Micro. By conflicts: TVM's
Unified Static Memory Planner, here with each buffer aligned by its own alignment, and gaps filled.
"""

from __future__ import annotations

import numpy as np

from cpplan.model.problem import Ints, Problem
from cpplan.packing.heuristics.layout import (
    Layout,
    best_fit_in_order,
    first_fit_in_order,
    range_minimum,
)
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


def follow_hint(problem: Problem, deadline: Deadline) -> Ints:
    """Place hinted buffers first, by increasing hint, each at or above its hint where it fits.

    Buffers without a hint follow by decreasing size, each at the lowest address. O(n²).
    """
    hinted = sorted(problem.hint, key=lambda row: (problem.hint[row], row))
    others = np.lexsort((problem.lower, -problem.size)).tolist()
    order = [*hinted, *(row for row in others if row not in problem.hint)]
    return first_fit_in_order(problem, order, deadline, at_least=problem.hint)


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
