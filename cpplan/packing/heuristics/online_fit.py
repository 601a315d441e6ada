"""Online fit: offsets by an allocator that serves one request at a time, in order of execution.

Only buffers live at that step occupy memory, so that a list of free holes is enough:
O(n × holes).
"""

from __future__ import annotations

from bisect import bisect_left, insort

import numpy as np

from cpplan.model.problem import Ints, Problem
from cpplan.packing.heuristics.layout import best_fit_in_order, first_fit_in_order
from cpplan.packing.heuristics.registered import register
from cpplan.runtime.deadline import Deadline

_CHECK_EVERY = 4096
_SECONDS_PER_REQUEST = 5e-6


@register("first_fit")
def first_fit(problem: Problem, deadline: Deadline) -> Ints:
    """By first step, then size; each at the lowest address where it fits."""
    order = np.lexsort((-problem.size, problem.lower))
    if problem.gaps or problem.fixed:
        return first_fit_in_order(problem, order, deadline)
    return _allocate(problem, order, deadline, tightest=False)


@register("best_fit")
def best_fit(problem: Problem, deadline: Deadline) -> Ints:
    """By first step, then size; each in the tightest hole."""
    order = np.lexsort((-problem.size, problem.lower))
    if problem.gaps or problem.fixed:
        return best_fit_in_order(problem, order, deadline)
    return _allocate(problem, order, deadline, tightest=True)


def _allocate(problem: Problem, order: Ints, deadline: Deadline, *, tightest: bool) -> Ints:
    """Serve the requests in order; each buffer is freed when its lifespan ends."""
    lower, upper = problem.lower.tolist(), problem.upper.tolist()
    size, alignment = problem.size.tolist(), problem.alignment.tolist()
    ending = np.argsort(problem.upper, kind="stable").tolist()
    offset = [0] * len(problem)
    memory = _Holes()
    ended = 0
    for count, row in enumerate(order.tolist()):
        if count % _CHECK_EVERY == 0:
            deadline.check(min(_CHECK_EVERY, len(problem) - count) * _SECONDS_PER_REQUEST)
        while upper[ending[ended]] <= lower[row]:
            freed = ending[ended]
            memory.free(offset[freed], offset[freed] + size[freed])
            ended += 1
        if size[row]:
            offset[row] = memory.take(size[row], alignment[row], tightest=tightest)
    return np.array(offset, np.int64)


class _Holes:
    """Free address ranges, ascending and disjoint; the last range has no end."""

    _ENDLESS = 1 << 62

    def __init__(self) -> None:
        self._begin = [0]
        self._end = {0: self._ENDLESS}

    def take(self, size: int, alignment: int, *, tightest: bool) -> int:
        """Take ``size`` bytes at the lowest address of the first or the tightest hole."""
        best, place, room = 0, -1, self._ENDLESS
        for k, begin in enumerate(self._begin):
            start = -(-begin // alignment) * alignment
            left = self._end[begin] - start - size
            if left >= 0 and (place < 0 or left < room):
                best, place, room = k, start, left
                if not tightest:
                    break
        begin = self._begin.pop(best)
        end = self._end.pop(begin)
        for low, high in ((begin, place), (place + size, end)):
            if low < high:
                insort(self._begin, low)
                self._end[low] = high
        return place

    def free(self, begin: int, end: int) -> None:
        """Give back a range and join it with adjacent holes."""
        if begin == end:
            return
        k = bisect_left(self._begin, begin)
        if k < len(self._begin) and self._begin[k] == end:
            end = self._end.pop(self._begin.pop(k))
        if k and self._end[self._begin[k - 1]] == begin:
            begin = self._begin[k - 1]
        else:
            self._begin.insert(k, begin)
        self._end[begin] = end
