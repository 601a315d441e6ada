"""Minima of many ranges of one array."""

from __future__ import annotations

import numpy as np

from cpplan.model.problem import Ints


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
