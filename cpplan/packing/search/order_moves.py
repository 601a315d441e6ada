"""Moves of hill climbing over orders of buffers, after USMP's ``hill_climb``."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from cpplan.model.problem import Ints, Problem


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

    Examples
    --------
    >>> problem = Problem(("a", "b", "c"), lower=[0, 1, 2], upper=[2, 3, 4], size=[4, 8, 4])
    >>> moves = OrderMoves(problem, seed=0, together=0.5)
    >>> row, at_hand = moves.pick([2])
    >>> row, at_hand, moves.shift(np.arange(3), row, at_hand=at_hand).tolist()
    (2, True, [0, 2, 1])
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
