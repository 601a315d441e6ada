"""Rounds of an exact search: attempts take turns, each at a limit below the best peak.

An attempt either packs all buffers below its limit, which lowers the peak, or proves that no
packing does, which raises the bound. It is not known beforehand which attempt ends soon. So each
gets a number of nodes, and more in the next round.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import numpy as np

from cpplan.packing.heuristics.preorders import largest_total
from cpplan.packing.reduction import address_unit
from cpplan.packing.search.outcome import Outcome
from cpplan.runtime.deadline import Deadline

if TYPE_CHECKING:
    from cpplan.model.problem import Ints, Problem

if TYPE_CHECKING:
    from cpplan.model.problem import Ints, Problem

# Exact searches: standard deviations of the noise on logarithms of keys that break ties. A small
# one stays near a good order, a large one explores.
_TIE_SPREADS = (0.05, 0.15, 0.3)

# Reasons for the end of a slice of an attempt.
FOUND, EXHAUSTED, NODES_SPENT, ROOM_SPENT = 0, 1, 2, 3


class Attempt(Protocol):
    """A search below one limit, in bytes, with the number of nodes it may visit."""

    limit: int
    nodes: int


A = TypeVar("A", bound=Attempt)


class Rounds(ABC, Generic[A]):
    """An exact search that can be continued; subclasses define the attempts.

    Attributes
    ----------
    name
        Name of the search, as plans cite it.
    """

    name: str

    def __init__(self, problem: Problem, *, nodes_a_slice: int, seconds_a_node: float):
        self.problem = problem
        self._nodes_a_slice, self._seconds_a_node = nodes_a_slice, seconds_a_node
        self._unit = address_unit(problem)
        # A peak is the end of a buffer, and so a multiple of this.
        self._grain = 1 if (problem.size % self._unit).any() else self._unit
        # The smallest limit worth trying, and the largest that improves on the best peak.
        self._low = self._high = 0
        self._attempts = self._in_turns()
        self._attempt: A | None = None

    @abstractmethod
    def _in_turns(self) -> Iterator[A]:
        """Endless sequence of attempts; limits follow the peak and bound at their start."""

    @abstractmethod
    def _explore(self, attempt: A, nodes: int) -> tuple[int, int]:
        """Continue for ``nodes`` nodes; return the reason for the end, and the nodes taken."""

    @abstractmethod
    def _found(self, attempt: A) -> Ints:
        """The offsets that an attempt has found, in address units."""

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
            When it passes, the best outcome so far is returned.
        report
            Called at every improvement of peak or bound.
        """
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

    def _continue(self, attempt: A, nodes: int, state: Outcome) -> tuple[int, Outcome]:
        """Run one slice of an attempt; returns the nodes it took and the new state."""
        ended_by, spent = self._explore(attempt, min(nodes, attempt.nodes))
        attempt.nodes -= spent
        if ended_by == FOUND:
            self._attempt = None
            offsets = self._found(attempt) * self._unit
            peak = int((offsets + self.problem.size).max())
            state = state._replace(offsets=offsets, peak=peak, found_by=self.name)
        elif ended_by == EXHAUSTED:
            self._attempt = None
            bound = (attempt.limit // self._grain + 1) * self._grain
            state = state._replace(bound=bound, bound_by=self.name)
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
