"""Exact search that fills the narrowest place first.

What is placed, each buffer on top of what it covers, has an upper edge: a floor for every section.
A *niche* is a stretch of it that is lower than what is beside it. In the first section of a niche,
the next thing can only be a buffer that starts there and ends within the niche, lying on its floor;
or nothing, up to where something could rest: on a neighbour, or on another buffer in the niche. The
same holds for the last section. So every niche has two corners, each with a list of ways, mostly
short ones, and waste among them only where the section has bytes to spare. The search takes the
corner that has the fewest, first where it often failed before (Boussemart, Hemery, Lecoutre and
Saïs, 2004, weigh constraints so). Every packing pushed down is reached in exactly one way.

What keeps the tree small:

* a corner without a way out fails at once, wherever it is;
* where no unplaced buffer is live across a boundary, the sides are independent: each fails alone,
  and only decisions in the part that fails are taken back;
* a part that has failed is remembered by its floors and by what is left to place there;
* of equal buffers, the earlier row lies lower.

Where little is to spare, few corners have two ways; where much is, ``canonical_search`` is quicker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cpplan.deadline import Deadline
from cpplan.reduction import address_unit
from cpplan.search.outcome import Outcome
from cpplan.search.tie_orders import TieOrders

if TYPE_CHECKING:
    from cpplan.problem import Ints, Problem
    from cpplan.search.niche_state_kernel import Fill

NAME = "niche search"
WORDS = ("TWA", "WAT", "ATW", "SWT")
MOST_BUFFERS, MOST_ENTRIES = 5_000, 1_000_000
# Parts of the way from the smallest limit to the largest that are tried in every round.
_SHARES = (0.0, 0.5)
_FIRST_NODES = 1_000
# In the first turns, weights learned and failures remembered make new trees of the same orders.
_LEARNED_TURNS = 8
# Sections and buffers looked at between two looks at the clock; about how long one takes, seconds.
_WORK_A_SLICE, _SECONDS_A_LOOK = 2_000_000, 1e-8


def applies_to(problem: Problem) -> bool:
    """Whether the search can represent the problem: one whole rectangle a buffer, one alignment.

    Examples
    --------
    >>> from cpplan.problem import Problem
    >>> applies_to(Problem(("a", "b"), lower=[0, 1], upper=[2, 3], size=[4, 8]))
    True
    """
    if problem.gaps or problem.fixed or not 0 < len(problem) <= MOST_BUFFERS:
        return False
    entries = int((problem.upper - problem.lower).sum())
    return entries <= MOST_ENTRIES and not (address_unit(problem) % problem.alignment).any()


@dataclass(eq=False, slots=True)
class _Attempt:
    """One order of ways at one limit, in bytes, and the nodes it may take."""

    limit: int
    rank: Ints
    fill: Fill
    nodes: int


class NicheSearch:
    """A search that can be continued: it remembers what has failed.

    Parameters
    ----------
    problem
        A reduced part to which the search applies.
    seed
        Of the orders in which ways are tried.

    Examples
    --------
    >>> from cpplan.problem import Problem
    >>> problem = Problem(("a", "b", "c"), lower=[0, 1, 2], upper=[2, 3, 4], size=[4, 8, 4])
    >>> start = Outcome(np.array([0, 4, 12]), 16, 12)
    >>> search = NicheSearch(problem, seed=0)
    >>> search.run(start, nodes=100, goal=0, ceiling=None, deadline=Deadline(60)).peak
    12
    """

    def __init__(self, problem: Problem, seed: int):
        from cpplan.search.niche_arrays import make_shape

        self.problem = problem
        self._ties = TieOrders(problem, seed)
        self._unit = address_unit(problem)
        self._grain = 1 if (problem.size % self._unit).any() else self._unit
        self._shape = make_shape(problem, self._unit)
        self._slice = max(1, _WORK_A_SLICE // (len(problem) + int(problem.upper.max())))
        self._known: dict[int, Fill] = {}
        self._low = self._high = 0
        self._attempts = self._in_turns()
        self._attempt: _Attempt | None = None

    def run(
        self,
        state: Outcome,
        *,
        nodes: int,
        goal: int,
        ceiling: int | None,
        deadline: Deadline,
        report: Callable[[Outcome], object] = lambda outcome: None,
    ) -> Outcome:
        """Continue for so many nodes: lower the peak, raise the bound, or end with proof.

        Parameters
        ----------
        state
            A packing and a proved bound to start from.
        nodes
            Ways tried.
        goal
            A peak that is good enough, bytes.
        ceiling
            A peak above this is of no use.
        deadline
            When it passes, what was reached is returned.
        report
            Called at every improvement of either side.
        """
        while nodes > 0 and not deadline.expired():
            self._low = max(goal, state.bound)
            self._high = state.peak - 1 if ceiling is None else min(state.peak - 1, ceiling)
            if self._low > self._high:
                break
            attempt = self._attempt
            if attempt is None or not self._low <= attempt.limit <= self._high:
                self._attempt = next(self._attempts)
                continue
            spent, outcome = self._continue(attempt, min(nodes, self._slice), state)
            nodes -= spent
            deadline.spend(spent * _WORK_A_SLICE / self._slice * _SECONDS_A_LOOK)
            if outcome is not state:
                state = outcome
                report(state)
        return state

    def _continue(self, attempt: _Attempt, nodes: int, state: Outcome) -> tuple[int, Outcome]:
        """One slice of an attempt; the nodes it took."""
        from cpplan.search import niche_kernel as kernel
        from cpplan.search.niche_arrays import with_more_room
        from cpplan.search.niche_state_kernel import NODES

        problem, unit, fill = self.problem, self._unit, attempt.fill
        before = int(fill.counter[NODES])
        status = kernel.explore(
            self._shape,
            fill,
            -(-attempt.limit // unit),
            (attempt.limit - problem.size) // unit,
            attempt.rank,
            min(nodes, attempt.nodes),
        )
        spent = int(fill.counter[NODES]) - before
        attempt.nodes -= spent
        if status == kernel.ROOM_SPENT:
            attempt.fill = with_more_room(fill)
        elif status == kernel.NODES_SPENT:
            if attempt.nodes <= 0:
                self._attempt = None
        else:
            self._attempt = None
            if status == kernel.FOUND:
                offsets = fill.offset * unit
                peak = int((offsets + problem.size).max())
                state = state._replace(offsets=offsets, peak=peak, found_by=NAME)
            else:
                # A peak is the end of a buffer, and so a multiple of the grain.
                bound = (attempt.limit // self._grain + 1) * self._grain
                state = state._replace(bound=bound, bound_by=NAME)
        return spent, state

    def _in_turns(self) -> Iterator[_Attempt]:
        """Every word for every limit, in rounds of twice the nodes; later ones perturbed.

        The smallest limit comes first: what fits there needs no other proof. Every attempt starts
        afresh, but knows what has failed at its limit.
        """
        nodes, turn = _FIRST_NODES, 0
        while True:
            for share in _SHARES:
                for word in WORDS:
                    limit = self._limit(share)
                    if share == 0.0 or limit > self._low:
                        yield self._attempt_at(limit, word, nodes, perturbed=turn >= _LEARNED_TURNS)
            nodes, turn = 2 * nodes, turn + 1

    def _limit(self, share: float) -> int:
        limit = self._low + int(share * (self._high - self._low))
        return max(self._low, limit // self._grain * self._grain)

    def _attempt_at(self, limit: int, word: str, nodes: int, *, perturbed: bool) -> _Attempt:
        from cpplan.search.niche_arrays import start

        if limit not in self._known:
            self._known = {k: f for k, f in self._known.items() if self._low <= k <= self._high}
            self._known[limit] = start(self._shape)
        fill = start(self._shape, self._known[limit])
        ranked = self._ties.perturbed(word) if perturbed else self._ties.exact(word)
        rank = np.empty(len(ranked), np.int64)
        rank[ranked] = np.arange(len(ranked))
        return _Attempt(limit, rank, fill, nodes)
