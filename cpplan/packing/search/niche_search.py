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
* what fails names the sections it depends on, and goes back to the last decision in any of them,
  not to the last one made (conflict-directed backjumping, Prosser 1993);
* where no unplaced buffer is live across a boundary, the sides are independent: each fails alone;
* a part that has failed is remembered by its floors and by what is left to place there;
* of equal buffers, the earlier row lies lower.

In a full section, the first way is what ends level with the floor beside it: edges rarely line up
by chance. Where little is to spare, few corners have two ways; where much is, ``canonical_search``
is quicker.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cpplan.packing.reduction import address_unit
from cpplan.packing.search.niche_state import NODES, Fill, make_shape, start, with_more_room
from cpplan.packing.search.rounds import ROOM_SPENT, Rounds
from cpplan.packing.search.tie_orders import TieOrders
from cpplan.packing.tuning import active

if TYPE_CHECKING:
    from cpplan.model.problem import Ints, Problem

NAME = "niche search"
WORDS = ("TWA", "WAT", "ATW", "SWT")
# Parts of the way from the smallest limit to the largest that are tried in every round.
_SHARES = (0.0, 0.5)
_FIRST_NODES = 1_000
# In the first turns, weights learned and failures remembered make new trees of the same orders.
_LEARNED_TURNS = 8
# Sections and buffers looked at between two looks at the clock; about how long one takes, seconds.
_WORK_A_SLICE, _SECONDS_A_LOOK = 2_000_000, 1e-8


def applies_to(problem: Problem) -> bool:
    """True if the search can represent the problem: one whole rectangle a buffer, one alignment.

    Examples
    --------
    >>> from cpplan.model.problem import Problem
    >>> applies_to(Problem(("a", "b"), lower=[0, 1], upper=[2, 3], size=[4, 8]))
    True
    """
    if problem.gaps or problem.fixed or not 0 < len(problem) <= active().niche_buffers:
        return False
    entries = int((problem.upper - problem.lower).sum())
    return (
        entries <= active().niche_entries and not (address_unit(problem) % problem.alignment).any()
    )


@dataclass(eq=False, slots=True)
class _Attempt:
    """One order of ways at one limit, in bytes, and the nodes it may take."""

    limit: int
    rank: Ints
    fill: Fill
    nodes: int


class NicheSearch(Rounds[_Attempt]):
    """A search that can be continued: it remembers what has failed.

    Parameters
    ----------
    problem
        A reduced part to which the search applies.
    seed
        Of the orders in which ways are tried.

    Examples
    --------
    >>> from cpplan.runtime.deadline import Deadline
    >>> from cpplan.model.problem import Problem
    >>> from cpplan.packing.search.outcome import Outcome
    >>> problem = Problem(("a", "b", "c"), lower=[0, 1, 2], upper=[2, 3, 4], size=[4, 8, 4])
    >>> start = Outcome(np.array([0, 4, 12]), 16, 12)
    >>> search = NicheSearch(problem, seed=0)
    >>> search.run(start, nodes=100, target=0, limit=None, deadline=Deadline(60)).peak
    12
    """

    name = NAME

    def __init__(self, problem: Problem, seed: int):
        looks = len(problem) + int(problem.upper.max())
        super().__init__(
            problem,
            nodes_a_slice=max(1, _WORK_A_SLICE // looks),
            seconds_a_node=looks * _SECONDS_A_LOOK,
        )
        self._ties = TieOrders(problem, seed)
        self._shape = make_shape(problem, self._unit)
        live = problem.live_bytes()
        self._full = bool(live.min() == live.max())
        self._known: dict[int, Fill] = {}

    def _explore(self, attempt: _Attempt, nodes: int) -> tuple[int, int]:
        from cpplan.packing.search import niche_kernel as kernel

        limit, unit, fill = attempt.limit, self._unit, attempt.fill
        before = int(fill.counter[NODES])
        highest = (limit - self.problem.size) // unit
        ended_by = kernel.explore(
            self._shape, fill, -(-limit // unit), highest, attempt.rank, nodes
        )
        if ended_by == ROOM_SPENT:
            attempt.fill = with_more_room(fill)
        return ended_by, int(fill.counter[NODES]) - before

    def _found(self, attempt: _Attempt) -> Ints:
        return attempt.fill.offset

    def _in_turns(self) -> Iterator[_Attempt]:
        """Every word for every limit, in rounds of twice the nodes; later ones perturbed.

        Every attempt starts afresh, but knows what has failed at its limit.
        """
        nodes, turn = _FIRST_NODES, 0
        while True:
            for share in self._shares():
                for word in WORDS:
                    limit = self._limit(share)
                    if limit is not None:
                        yield self._attempt_at(limit, word, nodes, perturbed=turn >= _LEARNED_TURNS)
            nodes, turn = 2 * nodes, turn + 1

    def _shares(self) -> tuple[float, ...]:
        """Parts of the way that are tried: only the lowest, quickest one in a perfect packing."""
        return _SHARES[:1] if self._full else _SHARES

    def _attempt_at(self, limit: int, word: str, nodes: int, *, perturbed: bool) -> _Attempt:
        if limit not in self._known:
            self._known = {k: f for k, f in self._known.items() if self._low <= k <= self._high}
            self._known[limit] = start(self._shape)
        fill = start(self._shape, self._known[limit])
        ranked = self._ties.perturbed(word) if perturbed else self._ties.exact(word)
        rank = np.empty(len(ranked), np.int64)
        rank[ranked] = np.arange(len(ranked))
        return _Attempt(limit, rank, fill, nodes)
