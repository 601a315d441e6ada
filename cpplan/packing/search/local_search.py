"""Base class of the local searches for a packing; each keeps its best packing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cpplan.model.problem import Ints, Problem
    from cpplan.packing.search.outcome import Outcome
    from cpplan.runtime.deadline import Deadline


class LocalSearch(ABC):
    """A local search over packings that can be continued.

    Subclasses do nothing slow before the first run, because there may be none.

    Parameters
    ----------
    problem
        A reduced problem.

    Attributes
    ----------
    name
        Name of the search, as plans cite it.
    """

    name: str

    def __init__(self, problem: Problem):
        self.problem = problem
        self._offsets: Ints | None = None
        self._peak: int | None = None

    @abstractmethod
    def run(self, state: Outcome, *, moves: int, target: int, deadline: Deadline) -> Outcome:
        """Make ``moves`` moves; may raise ``TimeUpError`` during a move."""

    def best(self, state: Outcome) -> Outcome:
        """The best packing of this search if it is lower than that of ``state``, else ``state``."""
        if self._peak is None or self._offsets is None or self._peak >= state.peak:
            return state
        return state._replace(offsets=self._offsets, peak=self._peak, found_by=self.name)

    def _reached(self, target: int) -> bool:
        return self._peak is not None and self._peak <= target
