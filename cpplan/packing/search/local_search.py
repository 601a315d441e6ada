"""The common base of the local searches for a packing: each keeps the best one it has met."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cpplan.model.problem import Ints, Problem
    from cpplan.packing.search.outcome import Outcome
    from cpplan.runtime.deadline import Deadline


class LocalSearch(ABC):
    """A search that moves from packing to packing, and can be continued.

    Nothing that takes long is prepared before the first run, which may never come.

    Parameters
    ----------
    problem
        A reduced problem.

    Attributes
    ----------
    name
        As a plan cites it.
    """

    name: str

    def __init__(self, problem: Problem):
        self.problem = problem
        self._offsets: Ints | None = None
        self._peak: int | None = None

    @abstractmethod
    def run(self, state: Outcome, *, moves: int, target: int, deadline: Deadline) -> Outcome:
        """Make ``moves`` moves; may raise ``TimeUpError`` in mid-move."""

    def best(self, state: Outcome) -> Outcome:
        """``state``, or what this search reached if that is lower."""
        if self._peak is None or self._offsets is None or self._peak >= state.peak:
            return state
        return state._replace(offsets=self._offsets, peak=self._peak, found_by=self.name)

    def _reached(self, target: int) -> bool:
        return self._peak is not None and self._peak <= target
