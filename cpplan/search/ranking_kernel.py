"""Compiled ``place_lowest_first`` for problems without gaps and fixed offsets."""

from __future__ import annotations

from numba import njit


@njit(cache=True)
def place_lowest_first(ranked, lower, upper, size, alignment, limit, waiting, floor, offset):
    """Offsets into ``offset``; ``False`` as soon as a buffer would end above ``limit``.

    ``waiting`` and ``floor`` are scratch, shape ``(n,)``.
    """
    left = len(ranked)
    for k in range(left):
        waiting[k] = ranked[k]
        floor[k] = 0
    while left > 0:
        # ``waiting`` keeps the ranking: the first of the lowest is the one ranked first.
        at, row = 0, waiting[0]
        for k in range(1, left):
            if floor[waiting[k]] < floor[row]:
                at, row = k, waiting[k]
        top = floor[row] + size[row]
        if top > limit:
            return False
        offset[row] = floor[row]
        left -= 1
        for k in range(at, left):
            waiting[k] = waiting[k + 1]
        for k in range(left):
            other = waiting[k]
            if floor[other] < top and lower[other] < upper[row] and upper[other] > lower[row]:
                step = alignment[other]
                floor[other] = (top + step - 1) // step * step
    return True
