"""Exact search in canonical order: every buffer as low as it can lie, from the lowest offset up.

If any packing fits, then so does a packing in which no buffer can move to a lower offset. The
search takes repeatedly the unplaced buffer with the lowest floor, and decides: the buffer lies at
its floor, or it does not. If it does not, then another unplaced buffer must occupy part of that
place, and the first one lies above it. Each such packing is reached once. MiniMalloc (Moffitt,
ASPLOS 2023) searches these packings too; the second branch is the postponing of Le Pape's "set
times" for schedules, with a local dominance rule.

Pruning:

* A section fails if its lowest floor plus the bytes left to place there exceed the limit.
* Every floor has a conflict set: the placements that raised it. A failure goes back to the last
  placement in its conflict set, not to the last one made (conflict-directed backjumping, Prosser
  1993).
* If no unplaced buffer is live across a boundary, the two sides are filled one after the other.
* Among equal buffers, the earlier row lies lower.

Running time varies widely with the order that breaks ties. So many orders take turns: words over
total, width, area and size, then perturbed words, each round with twice the nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpplan.packing.heuristics.preorders import preorder
from cpplan.packing.search.canonical_state import (
    NODES,
    Search,
    begin_again,
    byte_count,
    make_board,
    margin,
    start,
    with_more_room,
)
from cpplan.packing.search.rounds import ROOM_SPENT, Rounds, TieOrders

if TYPE_CHECKING:
    from cpplan.model.problem import Ints, Problem

# Bytes for kept trees. All trees take turns, so that the first ones serve as well as any.
_KEPT_BYTES = 1 << 28
# Nodes of each tree in the first round; twice as many every round.
_FIRST_NODES = 500
# Most buffers for the canonical search: a node looks at every buffer of its component.
_CANONICAL_BUFFERS = 5_000
# Most pairs of buffer and section for the canonical search.
_CANONICAL_ENTRIES = 1_000_000
# Limits tried in every round, as shares of the way from the smallest limit to the largest.
_CANONICAL_LIMITS = (0.0, 0.25, 0.5, 0.75)

NAME = "canonical search"
WORDS = ("TWA", "WAT", "WTA", "TAW", "WST", "ATW")
# Buffers looked at between two looks at the clock, and about how long one takes, seconds.
_WORK_A_SLICE, _SECONDS_A_LOOK = 1_000_000, 1e-8


def applies_to(problem: Problem) -> bool:
    """True if canonical orders lose no packing and the problem is small enough.

    Buffers must have no fixed offsets, and gaps must cover whole buffers: a buffer that holds only
    its upper bytes at some step can lie above another buffer there, and below it at another step.
    """
    spans = problem.spans
    whole = (spans.begin == 0) & (spans.end == problem.size[spans.buffer])
    entries = int((spans.upper - spans.lower).sum())
    small = 0 < len(problem) <= _CANONICAL_BUFFERS and entries <= _CANONICAL_ENTRIES
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
        """Bytes of its search tree."""
        return byte_count(self.search)


class CanonicalSearch(Rounds[_Attempt]):
    """The canonical search; it keeps unfinished trees, so that it can be continued.

    If trees are large, only the first ones are kept: with 5,000 buffers a tree takes over 100 MB.
    The others start again, with twice the nodes each time.

    Parameters
    ----------
    problem
        A reduced part to which the search applies.
    seed
        Seed of the perturbed orders.
    """

    name = NAME

    def __init__(self, problem: Problem, seed: int):
        count = len(problem)
        super().__init__(
            problem,
            nodes_a_slice=max(1, _WORK_A_SLICE // count),
            seconds_a_node=count * _SECONDS_A_LOOK,
        )
        self._ties = TieOrders(problem, seed)
        self._board = make_board(problem, self._unit)
        self._first = start(self._board)
        self._passing: _Attempt | None = None
        self._margin = margin(self._board)
        self._words = {word: preorder(problem, word) for word in WORDS}
        self._begun: dict[tuple[int, str], _Attempt] = {}

    def _explore(self, attempt: _Attempt, nodes: int) -> tuple[int, int]:
        from cpplan.packing.search import canonical_kernel as kernel

        board, search = self._board, attempt.search
        board.limit[0] = -(-attempt.limit // self._unit)
        board.highest[:] = (attempt.limit - self.problem.size) // self._unit
        before = int(search.counter[NODES])
        ended_by = kernel.explore(board, search, attempt.ranked, nodes, self._margin)
        if ended_by == ROOM_SPENT:
            attempt.search = with_more_room(search)
        return ended_by, int(search.counter[NODES]) - before

    def _found(self, attempt: _Attempt) -> Ints:
        return attempt.search.floor

    def _in_turns(self) -> Iterator[_Attempt]:
        """Attempts with every order at every limit, in rounds of twice the nodes.

        Kept trees are continued; perturbed orders start new trees.
        """
        nodes = _FIRST_NODES
        while True:
            for words, begin in ((WORDS, self._attempt_at), (WORDS[:4], self._perturbed)):
                for share in _CANONICAL_LIMITS:
                    for word in words:
                        limit = self._limit(share)
                        if limit is not None:
                            yield begin(limit, word, nodes)
            nodes *= 2

    def _attempt_at(self, limit: int, word: str, nodes: int) -> _Attempt:
        key = limit, word
        self._begun = {k: a for k, a in self._begun.items() if self._low <= k[0] <= self._high}
        attempt = self._begun.get(key)
        if attempt is None:
            kept = sum(a.bytes for a in self._begun.values()) + byte_count(self._first)
            if kept > _KEPT_BYTES:
                return self._pass(limit, self._words[word], nodes)
            attempt = _Attempt(limit, self._words[word], begin_again(self._first, None), 0)
            self._begun[key] = attempt
        attempt.nodes = nodes
        return attempt

    def _perturbed(self, limit: int, word: str, nodes: int) -> _Attempt:
        return self._pass(limit, self._ties.perturbed(word), nodes)

    def _pass(self, limit: int, ranked: Ints, nodes: int) -> _Attempt:
        """An attempt that is not kept, in the arrays of the last such attempt, which has ended."""
        spare = None if self._passing is None else self._passing.search
        self._passing = _Attempt(limit, ranked, begin_again(self._first, spare), nodes)
        return self._passing
