"""Segment checkpointing: values that cross segments are kept, and segments run again when needed.

Chen, Xu, Zhang and Guestrin, "Training Deep Nets with Sublinear Memory Cost" (2016): every √n-th
result of a chain of n layers is kept; the backward pass computes each segment once more. For any
graph, the forward part is taken as the units before the fullest position of an order. A value is
*far* if it is read at or after that position.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from cpplan.model.remat_problem import RematProblem
from cpplan.ordering.bounds import topological_order
from cpplan.runtime.deadline import Deadline

# Ratio of each number of segments tried to the one before.
_SEGMENTS_GROWTH = 1.25


def checkpoint(
    problem: RematProblem, limit: int, deadline: Deadline, order: Sequence[int] | None = None
) -> tuple[int, ...] | None:
    """The cheapest schedule by segments within ``limit`` bytes, or ``None`` if none fits.

    It tries √units segments, and numbers from 1 to all units, each a quarter larger than the one
    before. O(accesses) each.

    Parameters
    ----------
    order
        Order of the units; by default the given one.

    Raises
    ------
    TimeUpError
        If the deadline passes.
    """
    units = given_order(problem) if order is None else tuple(order)
    parts = _Parts(problem, units)
    counts = {parts.root}
    count, growth = 1.0, _SEGMENTS_GROWTH
    while count <= len(units):
        counts.add(int(count))
        count = max(count + 1, count * growth)
    best: tuple[int, ...] | None = None
    cost: int | float = math.inf
    for segments in sorted(counts):
        deadline.check()
        schedule = parts.schedule(segments)
        total = problem.total_cost(schedule)
        if total < cost and problem.peak(schedule) <= limit:
            best, cost = schedule, total
    return best


def square_root_segments(problem: RematProblem) -> tuple[int, ...]:
    """The schedule by √units segments of the given order, without a limit: Chen et al. (2016)."""
    parts = _Parts(problem, given_order(problem))
    return parts.schedule(parts.root)


def given_order(problem: RematProblem) -> tuple[int, ...]:
    """The units as numbered if that is a valid order, else some valid order."""
    numbered = range(len(problem))
    if problem.ordering.is_order(numbered):
        return tuple(numbered)
    return tuple(topological_order(problem.ordering))


class _Parts:
    """An order with its fullest position, and flags of the values read from there on."""

    def __init__(self, problem: RematProblem, order: tuple[int, ...]):
        self._problem, self._order = problem, order
        self.turn = int(problem.pressure(order).argmax()) if order else 0
        self.root = math.isqrt(max(1, self.turn))
        self._position = {unit: k for k, unit in enumerate(order)}
        self._readers: list[list[int]] = [[] for _ in problem.ordering.size]
        for unit in order:
            for storage in problem.reads[unit]:
                self._readers[storage].append(self._position[unit])
        self._far = [bool(r) and r[-1] >= self.turn for r in self._readers]
        forward = order[: self.turn]
        size = problem.ordering.size
        weight = [sum(int(size[s]) for s in problem.writes[u] if self._far[s]) for u in forward]
        self._filled = np.cumsum(weight, dtype=np.float64)

    def schedule(self, segments: int) -> tuple[int, ...]:
        """The schedule whose forward part is cut into segments of equal bytes of far values."""
        problem, order = self._problem, self._order
        if not self.turn or not self._filled[-1]:
            return order
        part = np.minimum(segments * self._filled / (self._filled[-1] + 1), segments - 1)
        segment = part.astype(np.int64).tolist()
        dropped: dict[int, int] = {}
        for k, unit in enumerate(order[: self.turn]):
            # The last segment is needed at once, and some values cannot be computed again.
            if segment[k] == segments - 1 or not problem.repeatable[unit]:
                continue
            for s in problem.writes[unit]:
                crosses = any(r < self.turn and segment[r] > segment[k] for r in self._readers[s])
                if self._far[s] and not crosses and not problem.ordering.kept[s]:
                    dropped[s] = k
        again = self._run_again(segment, dropped)
        schedule: list[int] = []
        restored: set[int] = set()
        for k, unit in enumerate(order):
            for s in problem.reads[unit] if k >= self.turn else ():
                if s in dropped and segment[dropped[s]] not in restored:
                    restored.add(segment[dropped[s]])
                    schedule += again[segment[dropped[s]]]
            schedule.append(unit)
        return tuple(schedule)

    def _run_again(self, segment: list[int], dropped: dict[int, int]) -> dict[int, list[int]]:
        """For every segment, the units that run again to restore its dropped values, in order."""
        problem, order = self._problem, self._order
        needed = set(dropped)
        again: dict[int, list[int]] = {}
        for k in range(self.turn - 1, -1, -1):
            unit = order[k]
            if not problem.repeatable[unit] or needed.isdisjoint(problem.writes[unit]):
                continue
            again.setdefault(segment[k], []).append(unit)
            for s in problem.reads[unit]:
                # An input that is read only in its own segment must be computed there again.
                inside = all(segment[r] == segment[k] for r in self._readers[s] if r < self.turn)
                if inside and not self._far[s] and not problem.ordering.kept[s]:
                    needed.add(s)
        return {number: units[::-1] for number, units in again.items()}
