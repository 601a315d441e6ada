"""Base class of the local searches for a packing; each keeps its best packing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from cpplan.model.problem import Ints, Problem
    from cpplan.packing.search.outcome import Outcome
    from cpplan.runtime.deadline import Deadline

# Insertion: power of e by which a buffer at the fullest step weighs more than one that meets only
# empty steps; in between, in proportion to the live bytes.
_TIGHTNESS = 30.0


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


def tightness(problem: Problem) -> NDArray[np.float64]:
    """Weight by the fullest step that a buffer meets, 1 for the fullest of all; shape ``(n,)``.

    Searches that place waiting buffers and eject others let the lighter ones wait. A buffer finds
    room soonest where memory is far from full: with equal weights, some buffers always wait where
    it is full, and each place that opens there is taken at another's expense.
    O(n + steps): the problem is reduced, so that it has few steps.
    """
    live = problem.live_bytes()
    if not len(problem) or not live.max():
        return np.ones(len(problem))
    edges = np.stack([problem.lower, problem.upper], axis=1).ravel()
    fullest = np.maximum.reduceat(np.append(live, 0), edges)[::2] / live.max()
    return np.asarray(np.exp(_TIGHTNESS * (fullest - 1)))
