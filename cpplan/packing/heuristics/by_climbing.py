"""Hill climbing over orders of first fit, after TVM's Unified Static Memory Planner."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from cpplan.model.problem import Ints, Problem
from cpplan.packing.bounds import lower_bound
from cpplan.packing.heuristics.greedy import conflict_counts
from cpplan.packing.heuristics.layout import first_fit_in_order
from cpplan.packing.heuristics.registered import register
from cpplan.runtime.deadline import Deadline, TimeUpError

# USMP makes the same number.
MOVES = 500
# Share of the moves that take a buffer live together with one at the peak.
_TOGETHER = 0.6


@register("hill_climb")
def hill_climb(problem: Problem, deadline: Deadline) -> Ints:
    """Start with the order by size, ties by conflicts; 500 moves, or until the bound is met.

    A move takes a buffer at the peak, or one live together with it, to another place in the order;
    it is kept unless the peak is higher. If the deadline passes, the best layout so far is
    returned, if there is one. O(n²) a move.
    """
    order = np.lexsort((problem.lower, -conflict_counts(problem), -problem.size))
    moves, least = OrderMoves(problem, seed=0, together=_TOGETHER), lower_bound(problem).value
    offsets = first_fit_in_order(problem, order.tolist(), deadline)
    with suppress(TimeUpError):
        for _ in range(MOVES):
            ends = offsets + problem.size
            peak = int(ends.max(initial=0))
            if peak <= least:
                break
            row, at_hand = moves.pick(np.flatnonzero(ends == peak).tolist())
            moved = moves.shift(order, row, at_hand=at_hand)
            placed = first_fit_in_order(problem, moved.tolist(), deadline)
            if int((placed + problem.size).max()) <= peak:
                order, offsets = moved, placed
    return offsets


class OrderMoves:
    """Moves of a critical buffer, or of a buffer live together with it, in an order.

    Parameters
    ----------
    problem
        The buffers.
    seed
        Seed of the random choices.
    together
        Share of the moves that take a buffer live together with a critical one.
    earlier
        Share of the moves to an earlier place, for critical buffers and for others; other moves go
        to any place.
    """

    def __init__(
        self,
        problem: Problem,
        seed: int,
        *,
        together: float,
        earlier: tuple[float, float] = (0.7, 0.7),
    ):
        self.random = random.Random(seed)
        self._problem, self._together, self._earlier = problem, together, earlier

    def pick(self, rows: Sequence[int]) -> tuple[int, bool]:
        """Row to move, and true if it is one of ``rows``."""
        problem, row = self._problem, self.random.choice(rows)
        if self.random.random() >= self._together:
            return row, True
        together = (problem.lower < problem.upper[row]) & (problem.upper > problem.lower[row])
        return self.random.choice(np.flatnonzero(together).tolist()), False

    def shift(self, order: Ints, row: int, *, at_hand: bool = True) -> Ints:
        """The order with a row moved to a random place."""
        rank = int(np.flatnonzero(order == row)[0])
        earlier = self.random.random() < self._earlier[0 if at_hand else 1]
        to = self.random.randint(0, max(0, rank - 1 if earlier else len(order) - 1))
        moved: Ints = order.copy()
        if to <= rank:
            moved[to + 1 : rank + 1] = order[to:rank]
        else:
            moved[rank:to] = order[rank + 1 : to + 1]
        moved[to] = row
        return moved
