"""The rounds of an exact search: attempts take turns, each at a limit below the best peak.

An attempt fits everything below its limit, and so lowers the peak, or proves that nothing does, and
so raises the bound. Which one ends soon nothing tells beforehand: each has some nodes, and more in
the next round.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from cpplan.packing.reduction import address_unit
from cpplan.packing.search.outcome import Outcome
from cpplan.runtime.deadline import Deadline

if TYPE_CHECKING:
    from cpplan.model.problem import Ints, Problem

# What can end a slice of an attempt.
FOUND, EXHAUSTED, NODES_SPENT, ROOM_SPENT = 0, 1, 2, 3


class Attempt(Protocol):
    """A search below one limit, in bytes, and the nodes that it may take."""

    limit: int
    nodes: int


A = TypeVar("A", bound=Attempt)


class Rounds(ABC, Generic[A]):
    """A search that can be continued; whoever inherits says what attempts there are.

    Attributes
    ----------
    name
        Of the search, as a plan cites it.
    """

    name: str

    def __init__(self, problem: Problem, *, nodes_a_slice: int, seconds_a_node: float):
        self.problem = problem
        self._nodes_a_slice, self._seconds_a_node = nodes_a_slice, seconds_a_node
        self._unit = address_unit(problem)
        # A peak is the end of a buffer, and so a multiple of this.
        self._grain = 1 if (problem.size % self._unit).any() else self._unit
        # The smallest limit worth seeking, and the largest that would be news.
        self._low = self._high = 0
        self._attempts = self._in_turns()
        self._attempt: A | None = None

    @abstractmethod
    def _in_turns(self) -> Iterator[A]:
        """Attempts without end; their limits follow what is known when they start."""

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
            Decisions made.
        target
            A peak that is good enough, bytes.
        limit
            A peak above this is of no use.
        deadline
            When it passes, what was reached is returned.
        report
            Called at every improvement of either side.
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
        """One slice of an attempt; the nodes it took."""
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
        """The limit so much of the way up from the smallest; ``None`` if it is that one again.

        The smallest comes first (0): what fits there needs no other proof. Just below the largest
        (1), there is little to gain.
        """
        limit = self._low + int(share * (self._high - self._low))
        limit = max(self._low, limit // self._grain * self._grain)
        return limit if share == 0.0 or limit > self._low else None
