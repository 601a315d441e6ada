"""Exact search that fills the narrowest place first.

Each buffer is placed on top of the buffers below it, so that every section has a floor: the highest
end of its placed buffers. A *niche* is a stretch of sections with a common floor, lower than the
floors beside it. In the first section of a niche, one of two things comes next. Either a buffer
lies on the floor that starts in this section and ends within the niche. Or bytes are wasted up to
the next height where a buffer may rest: on a neighbour, or on another buffer in the niche. The same
holds for the last section. So every niche has two corners, each with a list of *ways*. The lists
are mostly short, and waste is a way only if the section has bytes to spare. The search takes the
corner with the fewest ways; corners that often failed before count more (as in Boussemart, Hemery,
Lecoutre and Saïs, 2004). Every packing pushed down is reached in exactly one way.

Pruning:

* A corner without a way fails at once, wherever it is.
* A failure names the sections it depends on, and goes back to the last decision in any of them, not
  to the last one made (conflict-directed backjumping, Prosser 1993).
* If no unplaced buffer is live across a boundary, the two sides are independent: each fails alone.
* A failure is remembered by the floors and buffers of the sections it depends on, and recognized
  when they come again, whatever has changed elsewhere (see ``niche_state``).
* Among equal buffers, the earlier row lies lower.

In a full section, a buffer that ends level with the floor beside it is the first way: edges rarely
line up by chance. With few bytes to spare, few corners have two ways.

*Attempts* take turns, each at a limit below the best peak. An attempt either packs all buffers
below its limit, which lowers the peak, or proves that no packing does, which raises the bound. It
is not known beforehand which attempt ends soon, so that each gets a number of nodes, and more in
the next round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cpplan.packing import loops
from cpplan.packing.heuristics.by_lowest_offset import largest_total
from cpplan.packing.reduction import address_unit
from cpplan.packing.search.niche_state import (
    EXHAUSTED,
    FOUND,
    NODES,
    NODES_SPENT,
    ROOM_SPENT,
    Fill,
    make_shape,
    start,
    with_more_room,
)
from cpplan.packing.search.outcome import Outcome
from cpplan.packing.tuning import active
from cpplan.runtime.compiled import COMPILING_SHARE, prepare
from cpplan.runtime.deadline import Deadline

if TYPE_CHECKING:
    from cpplan.model.problem import Ints, Problem

# Most pairs of buffer and section for the niche search.
_NICHE_ENTRIES = 1_000_000

# Nodes a buffer that the search visits in its first turn.
NODES_A_BUFFER = 500
# Share of the most live bytes above which a step is full. If all steps are full, hardly a byte
# may be wasted and few buffers fit into any corner: this search is then far likelier than others to
# find a packing without waste.
_FULL_SHARE = 0.999
# Standard deviations of the noise on logarithms of keys that break ties. A small one stays near a
# good order, a large one explores.
_TIE_SPREADS = (0.05, 0.15, 0.3)

NAME = "niche search"
WORDS = ("TWA", "WAT", "ATW", "SWT")
# Limits tried in every round, as shares of the way from the smallest to the largest.
_SHARES = (0.0, 0.5)
# Part of the lowest limit within which the highest one is near.
_NEAR = 0.05
_FIRST_NODES = 2_000
# After this many turns, a whole cycle of Luby's, the search begins again without what it has
# learned, then after twice as many, and so on: trees still grow until one is exhausted. In perfect
# packings, turns take longer and need what was learned.
_FORGET_TURNS = 127
# The first turns use exact orders: learned weights and remembered failures already vary the trees.
_LEARNED_TURNS = 8
# Sections and buffers read between two looks at the clock, and approximate seconds for each.
_WORK_A_SLICE, _SECONDS_A_LOOK = 2_000_000, 2e-9


def applies_to(problem: Problem) -> bool:
    """True if buffers are whole rectangles without fixed offsets, of one alignment, and few."""
    if problem.gaps or problem.fixed or not 0 < len(problem) <= active().niche_buffers:
        return False
    entries = int((problem.upper - problem.lower).sum())
    return entries <= _NICHE_ENTRIES and not (address_unit(problem) % problem.alignment).any()


def is_full(problem: Problem) -> bool:
    """True if about as many bytes are live at every step, as in a perfect packing."""
    live = problem.live_bytes()[int(problem.lower.min(initial=0)) :]
    return len(live) > 0 and bool(live.min() >= _FULL_SHARE * live.max(initial=0) > 0)


@dataclass(eq=False, slots=True)
class _Attempt:
    """One order of ways at one limit, in bytes, and the number of nodes it may visit."""

    limit: int
    rank: Ints
    fill: Fill
    nodes: int


class NicheSearch:
    """The niche search; it remembers failed parts, so that it can be continued.

    Parameters
    ----------
    problem
        A reduced part to which the search applies.
    seed
        Seed of the orders in which ways are tried.
    """

    def __init__(self, problem: Problem, seed: int):
        self.problem = problem
        looks = len(problem) + int(problem.upper.max())
        self._nodes_a_slice = max(1, _WORK_A_SLICE // looks)
        self._seconds_a_node = looks * _SECONDS_A_LOOK
        self._unit = address_unit(problem)
        # A peak is the end of a buffer, and so a multiple of this.
        self._grain = 1 if (problem.size % self._unit).any() else self._unit
        # The smallest limit worth trying, and the largest that improves on the best peak.
        self._low = self._high = 0
        self._attempts = self._in_turns()
        self._attempt: _Attempt | None = None
        self._ties = TieOrders(problem, seed)
        self._shape = make_shape(problem, self._unit)
        live = problem.live_bytes()
        self._full = bool(live.min() == live.max())
        self._known: dict[int, Fill] = {}

    def run(
        self,
        state: Outcome,
        *,
        nodes: int,
        target: int,
        limit: int | None,
        deadline: Deadline,
        report: Callable[[Outcome], object] = lambda outcome: None,
    ) -> Outcome:
        """Continue for ``nodes`` nodes: lower the peak, raise the bound, or end with a proof.

        Parameters
        ----------
        state
            A packing and a proved bound to start from.
        nodes
            Number of decisions to make.
        target
            Peak that is good enough, bytes.
        limit
            Peak that must not be exceeded, bytes.
        deadline
            When it passes, the best outcome so far is returned; so it is if the loops are not
            compiled within a part of its time.
        report
            Called at every improvement of peak or bound.
        """
        if not prepare(loops.NICHE, deadline.share(COMPILING_SHARE)):
            return state
        while nodes > 0 and not deadline.expired():
            self._low = max(target, state.bound)
            self._high = state.peak - 1 if limit is None else min(state.peak - 1, limit)
            if self._low > self._high:
                break
            attempt = self._attempt
            if attempt is None or not self._low <= attempt.limit <= self._high:
                self._attempt = next(self._attempts)
                continue
            spent, outcome = self._continue(attempt, min(nodes, self._nodes_a_slice), state)
            nodes -= spent
            deadline.spend(spent * self._seconds_a_node)
            if outcome is not state:
                state = outcome
                report(state)
        return state

    def _continue(self, attempt: _Attempt, nodes: int, state: Outcome) -> tuple[int, Outcome]:
        """Run one slice of an attempt; returns the nodes it took and the new state."""
        ended_by, spent = self._explore(attempt, min(nodes, attempt.nodes))
        attempt.nodes -= spent
        if ended_by == FOUND:
            self._attempt = None
            offsets = attempt.fill.offset * self._unit
            peak = int((offsets + self.problem.size).max())
            state = state._replace(offsets=offsets, peak=peak, found_by=NAME)
        elif ended_by == EXHAUSTED:
            self._attempt = None
            bound = (attempt.limit // self._grain + 1) * self._grain
            state = state._replace(bound=bound, bound_by=NAME)
        elif ended_by == NODES_SPENT and attempt.nodes <= 0:
            self._attempt = None
        return spent, state

    def _limit(self, share: float) -> int | None:
        """The limit at a share of the way from the smallest to the largest one.

        Share 0 is tried first: a packing at the smallest limit ends the search. For other shares,
        ``None`` is returned if rounding leads to the smallest limit again.
        """
        limit = self._low + int(share * (self._high - self._low))
        limit = max(self._low, limit // self._grain * self._grain)
        return limit if share == 0.0 or limit > self._low else None

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

    def _in_turns(self) -> Iterator[_Attempt]:
        """Attempts with every word at every limit, in rounds of mostly few nodes.

        Later rounds perturb the words. Every attempt starts a new tree, but knows the failures at
        its limit: so little is lost by a new start, and early mistakes are undone.
        """
        turn = 0
        while True:
            cycles, within = divmod(turn, _FORGET_TURNS)
            if within == 0 and cycles & (cycles - 1) == 0 and not self._full:
                self._known = {}
            nodes = _FIRST_NODES * _luby(turn + 1)
            for share in self._shares():
                for word in WORDS:
                    limit = self._limit(share)
                    if limit is not None:
                        yield self._attempt_at(limit, word, nodes, perturbed=turn >= _LEARNED_TURNS)
            turn += 1

    def _shares(self) -> tuple[float, ...]:
        """Limits to try, as shares; only the lowest, which is quickest, if it is near or full."""
        near = self._high - self._low <= _NEAR * self._low
        return _SHARES[:1] if self._full or near else _SHARES

    def _attempt_at(self, limit: int, word: str, nodes: int, *, perturbed: bool) -> _Attempt:
        if limit not in self._known:
            self._known = {k: f for k, f in self._known.items() if self._low <= k <= self._high}
            self._known[limit] = start(self._shape)
        fill = self._known[limit] = start(self._shape, self._known[limit])
        ranked = self._ties.perturbed(word) if perturbed else self._ties.exact(word)
        rank = np.empty(len(ranked), np.int64)
        rank[ranked] = np.arange(len(ranked))
        return _Attempt(limit, rank, fill, nodes)


class TieOrders:
    """Orders of the buffers of a problem, by words over the letters of ``heuristics.preorders``.

    Total is not perturbed: many buffers share the same total, so that the other letters count.
    """

    def __init__(self, problem: Problem, seed: int):
        width = (problem.upper - problem.lower).astype(float)
        self._random, self._spreads = np.random.default_rng(seed), _TIE_SPREADS
        self._total = largest_total(problem).astype(float)
        self._keys = {"A": width * problem.size, "S": problem.size.astype(float), "W": width}

    def exact(self, word: str) -> Ints:
        """Rows in the word's order."""
        keys = {"T": self._total, **self._keys}
        return np.lexsort([-keys[letter] for letter in reversed(word)])

    def perturbed(self, word: str) -> Ints:
        """Rows in the word's order, with random noise on widths, areas and sizes."""
        spread = self._random.choice(self._spreads)
        keys = [self._total if letter == "T" else self._moved(letter, spread) for letter in word]
        return np.lexsort([-key for key in reversed(keys)])

    def _moved(self, letter: str, spread: float) -> np.ndarray:
        key = self._keys[letter]
        return key * np.exp(spread * self._random.standard_normal(len(key)))


def _luby(turn: int) -> int:
    """Entry of 1, 1, 2, 1, 1, 2, 4, 1, 1, … (Luby, Sinclair and Zuckerman 1993), counted from 1."""
    power = turn.bit_length()
    if turn + 1 == 1 << power:
        return 1 << (power - 1)
    return _luby(turn + 1 - (1 << (power - 1)))
