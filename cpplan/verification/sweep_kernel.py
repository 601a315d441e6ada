"""Compiled sweep over very many rectangles; imports numba. Shares no code with any planner."""

# The compiler gives these functions their types.
# mypy: ignore-errors

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def sweep(lower, begin, end, upper, begin_of_ended):
    """True if no two rectangles have a byte in common at a step.

    The rectangles that are live lie in an array, sorted by address: while they are disjoint, a new
    one can only meet its two neighbours.

    Parameters
    ----------
    lower, begin, end
        First step and addresses of every rectangle, sorted by ``lower``.
    upper, begin_of_ended
        Step after the last and first address of every rectangle, sorted by ``upper``.
    """
    begins, ends = np.empty(64, np.int64), np.empty(64, np.int64)
    count = ended = 0
    for new in range(len(lower)):
        while upper[ended] <= lower[new]:
            at = np.searchsorted(begins[:count], begin_of_ended[ended])
            count -= 1
            for k in range(at, count):
                begins[k], ends[k] = begins[k + 1], ends[k + 1]
            ended += 1
        at = np.searchsorted(begins[:count], begin[new])
        if at > 0 and ends[at - 1] > begin[new]:
            return False
        if at < count and begins[at] < end[new]:
            return False
        if count == len(begins):
            begins = np.concatenate((begins, np.empty(count, np.int64)))
            ends = np.concatenate((ends, np.empty(count, np.int64)))
        for k in range(count, at, -1):
            begins[k], ends[k] = begins[k - 1], ends[k - 1]
        begins[at], ends[at] = begin[new], end[new]
        count += 1
    return True
