"""Orders in which a search considers buffers; there are several, since no single one wins.

A preorder is a word of letters, each a key to sort by, decreasing, the first letter first:
``T`` is the most bytes live at one step of the lifespan, ``W`` (width) its length, ``A`` the area
width × size, ``S`` the size.
"""

from __future__ import annotations

import numpy as np

from cpplan.model.problem import Ints, Problem
from cpplan.packing.heuristics.layout import range_minimum

PREORDERS = ("TWA", "TAW", "WAT", "ATW", "AWT", "WTA", "SWT")


def preorder(problem: Problem, word: str) -> Ints:
    """Rows of the problem in the order of a word; ties by row. O(n log n)."""
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
