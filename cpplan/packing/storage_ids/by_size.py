"""Shared objects, the largest buffers first.

Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference" (2020), as in
TFLite's GPU delegate. Without groups the problem is *max-coloring* (Pemmaraju, Raman and
Varadarajan, SODA 2004): buffers live together get different colours, and each colour costs its
largest buffer.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from cpplan.model.problem import Ints, Problem
from cpplan.packing.storage_ids.rank_bound import positional_maxima
from cpplan.runtime.deadline import Deadline

_CHECK_EVERY = 64
_SECONDS_PER_TRY = 5e-7
_SECONDS_PER_CELL = 1e-8


def shared_objects(problem: Problem, group: Ints, deadline: Deadline) -> Ints:
    """By decreasing size, each into the smallest storage that is free during its lifespan.

    Ties by first step. No storage ever grows. O(n × storages × log n).
    """
    storage = np.zeros(len(problem), np.int64)
    first, spans = problem.first_span.tolist(), problem.spans
    held = (spans.end > spans.begin).tolist()
    pairs = list(zip(spans.lower.tolist(), spans.upper.tolist(), strict=True))
    labels, used = group.tolist(), 0
    of_group: dict[int, list[tuple[int, _Timeline]]] = {label: [] for label in labels}
    tries = 0
    for count, row in enumerate(np.lexsort((problem.lower, -problem.size)).tolist()):
        if count % _CHECK_EVERY == 0:
            deadline.check(tries * _SECONDS_PER_TRY)
            tries = 0
        wanted = [pairs[k] for k in range(first[row], first[row + 1]) if held[k]]
        storages = of_group[labels[row]]
        tries += len(storages)
        # Storages were made by decreasing size, so that the last one is the smallest.
        number, timeline = next(
            (one for one in reversed(storages) if one[1].is_free(wanted)), (used, None)
        )
        if timeline is None:
            timeline = _Timeline()
            storages.append((number, timeline))
            used += 1
        timeline.fill(wanted)
        storage[row] = number
    return storage


def shared_objects_improved(problem: Problem, group: Ints, deadline: Deadline) -> Ints:
    """In stages by size; within a stage, the buffer that leaves a storage idle least comes first.

    The *positional maxima* (see ``rank_bound``) cut the sizes into stages. In each stage, the next
    buffer is the one with the fewest idle steps between it and another buffer of some free storage;
    ties go to the larger buffer. If no storage is free, the largest buffer gets a new one. Gaps are
    not used. At worst O(n² × storages) numpy work, mostly O(n²).
    """
    storage = np.zeros(len(problem), np.int64)
    used = 0
    for label in np.unique(group).tolist():
        rows = np.flatnonzero(group == label)
        numbers = _by_idle_time(problem.subset(rows), deadline)
        storage[rows] = numbers + used
        used += int(numbers.max()) + 1
    return storage


_NEVER = np.iinfo(np.int64).max


def _by_idle_time(problem: Problem, deadline: Deadline) -> Ints:
    count = len(problem)
    storage = np.zeros(count, np.int64)
    maxima = np.unique(positional_maxima(problem))
    stage = len(maxima) - np.searchsorted(maxima, problem.size)
    # Ties of idle times are broken by this order.
    order = np.lexsort((problem.lower, -problem.size, stage))
    end_of_stage = np.searchsorted(stage[order], stage, side="right")
    waiting = np.ones(count, bool)
    # Steps between a buffer and the nearest buffer of each storage; _NEVER if two overlap.
    idle: list[Ints] = []
    least = np.full(count, _NEVER)
    begin = 0
    for done in range(count):
        if done % _CHECK_EVERY == 0:
            deadline.check(min(_CHECK_EVERY, count - done) * count * _SECONDS_PER_CELL)
        while not waiting[order[begin]]:
            begin += 1
        candidates = order[begin : end_of_stage[order[begin]]]
        candidates = candidates[waiting[candidates]]
        row = int(candidates[np.argmin(least[candidates])])
        steps = np.maximum(problem.lower - problem.upper[row], problem.lower[row] - problem.upper)
        steps[steps < 0] = _NEVER
        if least[row] == _NEVER:
            number = len(idle)
            idle.append(steps)
            least = np.minimum(least, steps)
        else:
            number = next(k for k, known in enumerate(idle) if known[row] == least[row])
            before = idle[number]
            met = (before == _NEVER) | (steps == _NEVER)
            idle[number] = np.where(met, _NEVER, np.minimum(before, steps))
            least = np.minimum(least, idle[number])
            lost = np.flatnonzero(waiting & met & (before == least) & (before != _NEVER))
            if len(lost):
                least[lost] = np.min([known[lost] for known in idle], axis=0)
        waiting[row] = False
        storage[row] = number
    return storage


class _Timeline:
    """The steps at which a storage is in use: ascending, disjoint ranges."""

    def __init__(self) -> None:
        self._lower: list[int] = []
        self._upper: list[int] = []

    def is_free(self, ranges: list[tuple[int, int]]) -> bool:
        for lower, upper in ranges:
            k = bisect_left(self._lower, upper)
            if k and self._upper[k - 1] > lower:
                return False
        return True

    def fill(self, ranges: list[tuple[int, int]]) -> None:
        for lower, upper in ranges:
            k = bisect_left(self._lower, lower)
            self._lower.insert(k, lower)
            self._upper.insert(k, upper)
