"""Lowest offset first: always place the buffer that can lie lowest.

This is the canonical order of MiniMalloc's search (Moffitt, ASPLOS 2023), without backtracking.
Ties are broken by a preorder over Total (the most bytes live at one step of the lifespan), Width
(its length) and Area (width × size), all decreasing.
"""

from __future__ import annotations

import numpy as np

from cpplan.model.problem import Ints, Problem
from cpplan.packing.heuristics.layout import Layout, placement_seconds, range_minimum
from cpplan.packing.heuristics.registered import register
from cpplan.runtime.deadline import Deadline

PREORDERS = ("TWA", "TAW", "WAT", "ATW", "AWT", "WTA", "SWT")
_CHECK_EVERY = 64


def preorder(problem: Problem, word: str) -> Ints:
    """Rows of the problem in the order of a word; ties by row. O(n log n).

    Each letter is a key to sort by, decreasing, the first letter first: ``T`` is the most bytes
    live at one step of the lifespan, ``W`` (width) its length, ``A`` the area width × size, ``S``
    the size.
    """
    width = problem.upper - problem.lower
    keys = {
        "A": width.astype(float) * problem.size,
        "S": problem.size,
        "T": largest_total(problem) if "T" in word else width,
        "W": width,
    }
    return np.lexsort(tuple(-keys[letter] for letter in reversed(word)))


def largest_total(problem: Problem) -> Ints:
    """For every buffer, the most bytes live at one step of its lifespan; shape ``(n,)``."""
    times, live = problem.live_profile()
    first, last = np.searchsorted(times, problem.lower), np.searchsorted(times, problem.upper)
    return -range_minimum(-live, first, last)


@register("lowest_offset_first")
def lowest_offset_first(problem: Problem, deadline: Deadline) -> Ints:
    """Ties by total, width, area (TWA). O(n²)."""
    offsets = place_lowest_first(problem, preorder(problem, "TWA"), deadline)
    assert offsets is not None  # without a limit, everything finds a place
    return offsets


def place_lowest_first(
    problem: Problem, ranked: Ints, deadline: Deadline, *, limit: int | None = None
) -> Ints | None:
    """Place repeatedly the buffer with the lowest possible offset; ties by ``ranked``.

    Offsets never decrease, so that each placement only raises the floors of buffers live with it.
    Returns ``None`` as soon as a buffer would end above ``limit``.
    """
    fixed = Layout(problem)
    offset: Ints = fixed.offset.copy()
    floor = _starting_floors(problem, fixed)
    waiting = ranked[~fixed.placed[ranked]]
    work = min(_CHECK_EVERY, len(problem)) * placement_seconds(len(problem))
    for count in range(len(waiting)):
        if count % _CHECK_EVERY == 0:
            deadline.check(work)
        at = int(np.argmin(floor[waiting]))
        row = int(waiting[at])
        if limit is not None and floor[row] + problem.size[row] > limit:
            return None
        offset[row] = floor[row]
        waiting = np.delete(waiting, at)
        _raise_floors(problem, row, int(floor[row]), floor, fixed)
    return offset


def _starting_floors(problem: Problem, fixed: Layout) -> Ints:
    floor = np.zeros(len(problem), np.int64)
    if problem.fixed:
        for row in np.flatnonzero(~fixed.placed):
            floor[row] = fixed.lowest(int(row))
    return floor


def _raise_floors(problem: Problem, row: int, offset: int, floor: Ints, fixed: Layout) -> None:
    """Raise buffers live together with ``row`` above it, aligned and clear of fixed buffers."""
    spans, first = problem.spans, problem.first_span
    before = floor.copy() if problem.fixed else floor
    for k in range(first[row], first[row + 1]):
        top = offset + spans.end[k]
        together = (spans.lower < spans.upper[k]) & (spans.upper > spans.lower[k])
        if problem.gaps:
            np.maximum.at(floor, spans.buffer[together], top - spans.begin[together])
        else:
            floor[together] = np.maximum(floor[together], top)
    np.multiply(-(-floor // problem.alignment), problem.alignment, out=floor)
    if problem.fixed:
        for other in np.flatnonzero((floor > before) & ~fixed.placed):
            floor[other] = fixed.lowest(int(other), at_least=int(floor[other]))
