"""TVM's Unified Static Memory Planner as published, registered under separate names.

Every buffer lists all buffers that are live together with it. The offsets may be invalid: the
published algorithms round to the neighbour's alignment (see ``cpplan.packing.heuristics.usmp``)
and ignore fixed offsets. The caller checks them.

Hill climbing of TVM's Unified Static Memory Planner as it was published, with its defects.

The defects are listed in ``cpplan.packing.heuristics.usmp``.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import numpy as np

from cpplan.model.errors import InfeasibleError
from cpplan.model.pool import Pool
from cpplan.model.problem import Ints, Problem
from cpplan.packing.heuristics.registered import register
from cpplan.packing.heuristics.usmp import (
    Allocations,
    PoolAllocation,
    UsmpBuffer,
    UsmpProblem,
    choose,
    fits,
    pool_totals,
    round_up,
    usmp_greedy_by_conflicts,
    usmp_greedy_by_size,
)
from cpplan.runtime.deadline import Deadline

ATTEMPTS = 500


@register("usmp_greedy_by_size", as_published=True)
def greedy_by_size(problem: Problem, deadline: Deadline) -> Ints:
    """By decreasing size, each above all placed buffers live together with it. O(n²)."""
    return _run(problem, deadline, usmp_greedy_by_size)


@register("usmp_greedy_by_conflicts", as_published=True)
def greedy_by_conflicts(problem: Problem, deadline: Deadline) -> Ints:
    """By decreasing number of conflicts, each above all placed conflicting buffers. O(n²)."""
    return _run(problem, deadline, usmp_greedy_by_conflicts)


@register("usmp_hill_climb", as_published=True)
def hill_climb(problem: Problem, deadline: Deadline) -> Ints:
    """Start by size; 500 attempts to swap two buffers near the peak. O(n²) an attempt."""
    target = int(problem.live_profile()[1].max(initial=0))
    return _run(
        problem, deadline, lambda listed: usmp_hill_climb(listed, target, deadline=deadline)
    )


def _run(
    problem: Problem, deadline: Deadline, algorithm: Callable[[UsmpProblem], Allocations]
) -> Ints:
    listed = UsmpProblem(tuple(_buffers(problem, deadline)), (Pool(),))
    placed = algorithm(listed)
    return np.array([placed[name].offset for name in problem.names], np.int64)


def _buffers(problem: Problem, deadline: Deadline) -> list[UsmpBuffer]:
    spans, first = problem.spans, problem.first_span
    buffers = []
    for row, name in enumerate(problem.names):
        deadline.check(1e-8 * len(problem))
        together = np.zeros(len(spans.buffer), bool)
        for k in range(first[row], first[row + 1]):
            together |= (spans.lower < spans.upper[k]) & (spans.upper > spans.lower[k])
        others = np.unique(spans.buffer[together]).tolist()
        conflicts = tuple(problem.names[other] for other in others if other != row)
        size, alignment = int(problem.size[row]), int(problem.alignment[row])
        buffers.append(UsmpBuffer(name, size, conflicts, alignment=alignment))
    return buffers


def usmp_hill_climb(
    problem: UsmpProblem,
    memory_pressure: int = 0,
    seed: int = 0,
    deadline: Deadline | None = None,
) -> Allocations:
    """Start by size; up to 500 attempts to swap two buffers that lie near the peak.

    Ends at ``memory_pressure`` bytes, all pools together, or with ``TimeUpError``. TVM draws from
    the C library's ``rand_r``, this function from Python's generator: attempts differ in detail.
    """
    return _HillClimb(problem, seed).climb(memory_pressure, deadline or Deadline(math.inf))


class _HillClimb:
    def __init__(self, problem: UsmpProblem, seed: int):
        self.problem = problem
        self.pools = {pool.name: pool for pool in problem.pools}
        self.by_name = {buffer.name: buffer for buffer in problem.buffers}
        self.random = random.Random(seed)
        by_name = sorted(problem.buffers, key=lambda b: b.name, reverse=True)
        self.order = sorted(by_name, key=lambda b: (-b.size, -len(b.conflicts)))

    def climb(self, target: int, deadline: Deadline) -> Allocations:
        best: int | None = None
        accepted: Allocations = {}
        current: Allocations = {}
        swapped = (0, 0)
        for attempt in range(ATTEMPTS):
            deadline.check(1e-6 * len(self.order))
            before, current = current, self._place()
            total = sum(pool_totals(self.problem, current).values())
            fits = len(current) == len(self.order)
            if best is None or (fits and self._accepts(total, best, attempt)):
                accepted = current
                best = total if fits else best
                if fits and total <= target:
                    break
            else:
                self._swap(swapped)
                current = before
            move = self._next_swap(current)
            if move is not None:
                swapped = move
                self._swap(swapped)
        for buffer in self.order:
            if buffer.name not in accepted:
                choose(buffer, {})
        return accepted

    def _accepts(self, total: int, best: int, attempt: int) -> bool:
        """True for a smaller total; for a larger one, with decreasing probability."""
        worse = 50 * (total - best) // max(1, total) // attempt
        return total < best or self.random.randrange(100) < worse

    def _swap(self, places: tuple[int, int]) -> None:
        one, other = places
        self.order[one], self.order[other] = self.order[other], self.order[one]

    def _place(self) -> Allocations:
        """Place each buffer in the lowest gap between the placed conflicts that it lists."""
        placed: Allocations = {}
        for buffer in self.order:
            free = {name: 0 for name in buffer.pools if fits(self.pools[name], 0, buffer.size)}
            others = [self.by_name[name] for name in buffer.conflicts if name in placed]
            for other in sorted(others, key=lambda b: placed[b.name].offset):
                pool, offset = placed[other.name]
                if pool not in free:
                    continue
                above = round_up(offset + other.size, other.alignment)
                if not fits(self.pools[pool], above, buffer.size):
                    del free[pool]
                elif above > free[pool] and free[pool] + buffer.size > offset:
                    free[pool] = above
            chosen = next((name for name in buffer.pools if name in free), None)
            if chosen is not None:
                placed[buffer.name] = PoolAllocation(chosen, free[chosen])
        return placed

    def _next_swap(self, current: Allocations) -> tuple[int, int] | None:
        """Positions in the order of two buffers to swap; ``None`` if there are no two.

        Both conflict with a buffer at the peak of a pool, directly or through a third one, and
        come before it in the order. TVM draws the second until it differs from the first, and
        never ends if it cannot differ.
        """
        at = {buffer.name: k for k, buffer in enumerate(self.order)}
        totals = pool_totals(self.problem, current)
        top = [
            buffer
            for buffer in self.order
            if buffer.name in current
            and current[buffer.name].offset + buffer.size == totals[current[buffer.name].pool]
        ]
        if not top:
            raise InfeasibleError("the space in the pools is exceeded by every buffer")
        node = self.random.choice(top)
        first = sorted(at[name] for name in node.conflicts if at[name] < at[node.name])
        second = sorted(
            at[name]
            for between in node.conflicts
            for name in self.by_name[between].conflicts
            if at[name] < at[between]
        )
        if not first:
            return None
        one = self.random.choice(first)
        if not {*first, *second} - {one}:
            return None
        other = one
        while other == one:
            far = bool(second) and self.random.randrange(100) > 25
            other = self.random.choice(second if far else first)
        return one, other
