"""Orders in which a search considers buffers: no single one wins, so there are several.

A preorder is a word over ``T`` (the most bytes live at one step of the lifespan), ``W`` (the length
of the lifespan), ``A`` (width × size) and ``S`` (size); each decreasing, the first letter first.
"""

from __future__ import annotations

import numpy as np

from cpplan.problem import Ints, Problem

PREORDERS = ("TWA", "TAW", "WAT", "ATW", "AWT", "WTA", "SWT")


def preorder(problem: Problem, word: str) -> Ints:
    """Rows of the problem in that order; ties by row. O(n log n).

    Examples
    --------
    >>> problem = Problem(("a", "b", "c"), lower=[0, 1, 2], upper=[2, 3, 5], size=[4, 8, 4])
    >>> preorder(problem, "WS").tolist()
    [2, 1, 0]
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


def range_minimum(values: Ints, first: Ints, last: Ints) -> Ints:
    """``values[f:l].min()`` for every pair ``f < l``, by doubling: O((n + m) log n).

    Examples
    --------
    >>> range_minimum(np.array([3, 1, 2]), np.array([0, 2]), np.array([3, 3])).tolist()
    [1, 2]
    """
    length = last - first
    result = np.empty(len(first), np.int64)
    level, power = values, 1
    while True:
        here = (length >= power) & (length < 2 * power)
        result[here] = np.minimum(level[first[here]], level[last[here] - power])
        if not (length >= 2 * power).any():
            return result
        level, power = np.minimum(level[:-power], level[power:]), 2 * power
