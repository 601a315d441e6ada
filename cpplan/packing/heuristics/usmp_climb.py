"""Hill climbing of TVM's Unified Static Memory Planner as it was published, with its defects.

The defects are listed in ``cpplan.packing.heuristics.usmp``.
"""

from __future__ import annotations

import math
import random

from cpplan.model.errors import InfeasibleError
from cpplan.packing.heuristics.usmp import (
    Allocations,
    PoolAllocation,
    UsmpProblem,
    choose,
    fits,
    pool_totals,
    round_up,
)
from cpplan.runtime.deadline import Deadline

ATTEMPTS = 500


def usmp_hill_climb(
    problem: UsmpProblem,
    memory_pressure: int = 0,
    seed: int = 0,
    deadline: Deadline | None = None,
) -> Allocations:
    """Start by size; up to 500 attempts to swap two buffers that lie near the peak.

    Ends at ``memory_pressure`` bytes, all pools together, or with ``TimeUpError``. TVM draws from
    the C library's ``rand_r``, this function from Python's generator: attempts differ in detail.

    Raises
    ------
    InfeasibleError
        If no attempt finds a place for every buffer.
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
