"""Local search over the order in which lowest-offset-first breaks its ties.

A packing is described by a ranking of the buffers; ``place_lowest_first`` turns it into offsets.
A move takes a buffer at the peak, or a buffer live together with it, and changes its rank, mostly
to an earlier one. The new ranking is kept unless its peak is higher. (TVM's ``hill_climb`` searches
orders of first fit in this way; lowest-offset-first needs far fewer moves.) Unlike the compiled
searches, it supports gaps that cover only part of a buffer's bytes.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from cpplan.model.problem import Ints, Problem
from cpplan.packing.heuristics.by_lowest_offset import PREORDERS, place_lowest_first, preorder
from cpplan.packing.search.local_search import LocalSearch
from cpplan.packing.search.outcome import Outcome
from cpplan.runtime.deadline import Deadline

NAME = "ranking search"


class RankingSearch(LocalSearch):
    """The ranking search; it keeps its ranking, so that it can be continued.

    Parameters
    ----------
    problem
        A reduced problem.
    seed
        Seed of the random moves.
    """

    name = NAME

    def __init__(self, problem: Problem, seed: int):
        super().__init__(problem)
        self._moves = OrderMoves(problem, seed, together=0.5)
        self._starts = list(PREORDERS)
        self._ranked: Ints | None = None

    def run(self, state: Outcome, *, moves: int, target: int, deadline: Deadline) -> Outcome:
        """Try the preorders, then ``moves`` moves, or until the peak is at most ``target``.

        O(n²) a move. Raises ``TimeUpError`` during a move; :meth:`best` then has the best packing
        reached.
        """
        while self._starts and not self._reached(target):
            self._try(preorder(self.problem, self._starts.pop(0)), deadline)
        for _ in range(moves):
            if self._reached(target):
                break
            self._try(self._neighbour(), deadline)
        return self.best(state)

    def _try(self, ranked: Ints, deadline: Deadline) -> None:
        offsets = self._place(ranked, deadline)
        if offsets is not None:
            self._ranked, self._offsets = ranked, offsets
            self._peak = int((offsets + self.problem.size).max(initial=0))

    def _place(self, ranked: Ints, deadline: Deadline) -> Ints | None:
        deadline.check()
        return place_lowest_first(self.problem, ranked, deadline, limit=self._peak)

    def _neighbour(self) -> Ints:
        assert self._ranked is not None
        assert self._offsets is not None
        at_peak = np.flatnonzero(self._offsets + self.problem.size >= (self._peak or 0))
        row, at_hand = self._moves.pick(at_peak.tolist())
        return self._moves.shift(self._ranked, row, at_hand=at_hand)


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
