"""Exact search in canonical order: every buffer as low as it can lie, from the lowest offset up.

If a packing fits, so does one in which no buffer can be moved to a lower offset. It is found by
taking, again and again, a buffer that no other unplaced one can lie below (the one with the lowest
floor), and deciding: it lies at its floor, or it does not. If not, one that is not placed yet must
take part of that place, and the buffer lies above that one. Each such packing is reached once.
(Moffitt's MiniMalloc, ASPLOS 2023, searches these packings; the second half of the decision is the
postponing of Le Pape's "set times" for schedules, with its dominance made local.)

What keeps the tree small:

* a section fails once its lowest floor and what is left to place there exceed the limit;
* every floor carries the set of placements that raised it. What fails goes back to the last
  placement to blame, and not to the last one made (conflict-directed backjumping, Prosser 1993);
* where no unplaced buffer is live across a boundary, the sides are filled one after the other;
* of equal buffers, the earlier row lies lower.

Running time varies widely over the orders that break ties, so that many take turns: words over
total, width, area and size, then perturbed ones, each round with twice the nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpplan.deadline import Deadline
from cpplan.heuristics.preorders import preorder
from cpplan.reduction import address_unit
from cpplan.search.canonical_tables import NODES
from cpplan.search.outcome import Outcome
from cpplan.search.tie_orders import TieOrders

if TYPE_CHECKING:
    from cpplan.problem import Ints, Problem
    from cpplan.search.canonical_tables import Search

NAME = "canonical search"
WORDS = ("TWA", "WAT", "WTA", "TAW", "WST", "ATW")
# A node looks at every buffer of its component: with more, other methods do better.
MOST_BUFFERS, MOST_ENTRIES = 5_000, 1_000_000
_FIRST_NODES = 500
# Bytes of the trees that are kept: all take turns, so that the first ones serve as well as any.
_KEPT_BYTES = 1 << 28
# Limits to try, from the smallest worth seeking (0) to the largest that would be news (1).
_SHARES = (0.0, 0.25, 0.5, 0.75)
# Buffers looked at between two looks at the clock, and about how long one takes, seconds.
_WORK_A_SLICE, _SECONDS_A_LOOK = 1_000_000, 2e-8


def applies_to(problem: Problem) -> bool:
    """Whether the canonical order loses nothing: no fixed offsets, no windows, and not too large.

    Something that holds only its upper bytes at some step can lie above a buffer that it is lower
    than at another.

    Examples
    --------
    >>> from cpplan.problem import Problem
    >>> applies_to(Problem(("a", "b"), lower=[0, 1], upper=[2, 3], size=[4, 8]))
    True
    """
    spans = problem.spans
    whole = (spans.begin == 0) & (spans.end == problem.size[spans.buffer])
    entries = int((spans.upper - spans.lower).sum())
    small = 0 < len(problem) <= MOST_BUFFERS and entries <= MOST_ENTRIES
    return small and not problem.fixed and bool(whole.all())


@dataclass(eq=False, slots=True)
class _Attempt:
    """One order of ties at one limit, in bytes, and the nodes it may take."""

    limit: int
    ranked: Ints
    search: Search
    nodes: int

    @property
    def bytes(self) -> int:
        """Of its tree."""
        return sum(column.nbytes for column in self.search)


class CanonicalSearch:
    """A search that can be continued: it keeps the trees it is in the middle of.

    Only the first ones where they are large: at 5,000 buffers, one takes over 100 MB. The others
    start afresh, with twice the nodes each time.

    Parameters
    ----------
    problem
        A reduced part to which the search applies.
    seed
        Of the perturbed orders.

    Examples
    --------
    >>> from cpplan.problem import Problem
    >>> problem = Problem(("a", "b", "c"), lower=[0, 1, 2], upper=[2, 3, 4], size=[4, 8, 4])
    >>> import numpy as np
    >>> start = Outcome(np.array([0, 4, 12]), 16, 12)
    >>> search = CanonicalSearch(problem, seed=0)
    >>> search.run(start, nodes=100, goal=0, ceiling=None, deadline=Deadline(60)).peak
    12
    """

    def __init__(self, problem: Problem, seed: int):
        from cpplan.search.canonical_arrays import make_board, margin

        self.problem = problem
        self._ties = TieOrders(problem, seed)
        self._unit = address_unit(problem)
        self._grain = 1 if (problem.size % self._unit).any() else self._unit
        self._board = make_board(problem, self._unit)
        self._margin = margin(self._board)
        self._slice = max(1, _WORK_A_SLICE // len(problem))
        self._words = {word: preorder(problem, word) for word in WORDS}
        self._begun: dict[tuple[int, str], _Attempt] = {}
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
            Buffers placed or postponed.
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
            deadline.spend(spent * len(self.problem) * _SECONDS_A_LOOK)
            if outcome is not state:
                state = outcome
                report(state)
        return state

    def _continue(self, attempt: _Attempt, nodes: int, state: Outcome) -> tuple[int, Outcome]:
        """One slice of an attempt; the nodes it took."""
        from cpplan.search import canonical_kernel as kernel
        from cpplan.search.canonical_arrays import with_more_room

        problem, unit, board = self.problem, self._unit, self._board
        board.limit[0] = -(-attempt.limit // unit)
        board.highest[:] = (attempt.limit - problem.size) // unit
        before = int(attempt.search.counter[NODES])
        status = kernel.explore(
            board, attempt.search, attempt.ranked, min(nodes, attempt.nodes), self._margin
        )
        spent = int(attempt.search.counter[NODES]) - before
        attempt.nodes -= spent
        if status == kernel.ROOM_SPENT:
            attempt.search = with_more_room(attempt.search)
        elif status == kernel.NODES_SPENT:
            if attempt.nodes <= 0:
                self._attempt = None
        else:
            self._attempt = None
            if status == kernel.FOUND:
                offsets = attempt.search.floor * unit
                peak = int((offsets + problem.size).max())
                state = state._replace(offsets=offsets, peak=peak, found_by=NAME)
            else:
                # A peak is the end of a buffer, and so a multiple of the grain.
                bound = (attempt.limit // self._grain + 1) * self._grain
                state = state._replace(bound=bound, bound_by=NAME)
        return spent, state

    def _in_turns(self) -> Iterator[_Attempt]:
        """Every order for every limit, in rounds; the limits follow what is known when they start.

        The smallest limit comes first: what fits there needs no other proof. A tree once begun is
        continued; perturbed orders start afresh. Just below the largest, there is little to gain.
        """
        nodes = _FIRST_NODES
        while True:
            for words, begin in ((WORDS, self._attempt_at), (WORDS[:4], self._perturbed)):
                for share in _SHARES:
                    for word in words:
                        limit = self._limit(share)
                        if share == 0.0 or limit > self._low:
                            yield begin(limit, word, nodes)
            nodes *= 2

    def _limit(self, share: float) -> int:
        limit = self._low + int(share * (self._high - self._low))
        return max(self._low, limit // self._grain * self._grain)

    def _attempt_at(self, limit: int, word: str, nodes: int) -> _Attempt:
        from cpplan.search.canonical_arrays import start

        key = limit, word
        self._begun = {k: a for k, a in self._begun.items() if self._low <= k[0] <= self._high}
        attempt = self._begun.get(key)
        if attempt is None:
            attempt = _Attempt(limit, self._words[word], start(self._board), 0)
            if sum(a.bytes for a in (*self._begun.values(), attempt)) <= _KEPT_BYTES:
                self._begun[key] = attempt
        attempt.nodes = nodes
        return attempt

    def _perturbed(self, limit: int, word: str, nodes: int) -> _Attempt:
        from cpplan.search.canonical_arrays import start

        return _Attempt(limit, self._ties.perturbed(word), start(self._board), nodes)
