"""Guided ejection: place buffers below a limit, and eject the buffers that they overlap.

The limit is set below the best peak, and buffers that end above it are ejected. Ejected buffers are
placed one at a time, each at the offset with the least worth of overlapped buffers, which are
ejected in turn. A buffer that found no room weighs more from then on, so that the search learns
which buffers are hard to place (Nagata and Bräysy 2009, for vehicle routes). Unlike a search over
orders, it keeps most of a good packing. ``insertion_search`` reaches lower peaks in the same time,
but stores every pair of conflicts; this search needs only memory linear in the number of buffers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpplan.model.problem import Ints, Problem
from cpplan.packing import loops
from cpplan.packing.search.local_search import LocalSearch
from cpplan.packing.search.outcome import Outcome
from cpplan.packing.tuning import active
from cpplan.runtime.compiled import COMPILING_SHARE, prepare
from cpplan.runtime.deadline import Deadline

NAME = "guided ejection"
# Seconds a move and buffer, for deadlines that count work; seconds between two looks at the clock.
_WORK, _CHUNK = 4e-8, 0.02


class _Attempt(NamedTuple):
    """State at one limit: ``offset, placed, failures, by_bottom, by_top``, and waiting buffers."""

    limit: int
    layout: tuple[Ints, ...]
    waiting: Ints


class EjectionSearch(LocalSearch):
    """Guided ejection; it keeps its current packing, so that it can be continued.

    Parameters
    ----------
    problem
        A reduced problem; see :meth:`applies_to`.
    seed
        Seed of the random choices.

    Examples
    --------
    >>> problem = Problem(("a", "b", "c"), lower=[0, 1, 2], upper=[2, 3, 4], size=[4, 8, 4])
    >>> start = Outcome(np.array([0, 4, 12]), 16, 12)
    >>> EjectionSearch(problem, seed=0).run(start, moves=99, target=12, deadline=Deadline(60)).peak
    12
    """

    name = NAME

    def __init__(self, problem: Problem, seed: int):
        super().__init__(problem)
        self._tuning = active()
        area = (problem.upper - problem.lower).astype(float) * problem.size
        self._worth = np.sqrt(area / max(1.0, area.max(initial=0.0)))
        # xorshift never leaves zero.
        self._random = np.array([2 * seed + 1], np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        self._step = self._tuning.ejection_step
        self._attempt: _Attempt | None = None
        self._left = self._made = 0

    @staticmethod
    def applies_to(problem: Problem) -> bool:
        """True if no buffer has gaps or a fixed offset."""
        return not problem.gaps and not problem.fixed

    def run(self, state: Outcome, *, moves: int, target: int, deadline: Deadline) -> Outcome:
        """Make ``moves`` moves, or until the peak is at most ``target``; O(n) a move.

        Raises ``TimeUpError`` between moves; :meth:`best` then has the best packing reached.
        """
        if not prepare(loops.EJECTION, deadline.share(COMPILING_SHARE)):
            return state  # the next turn tries again
        if self._peak is None or state.peak < self._peak:
            self._offsets, self._peak, self._attempt = state.offsets.copy(), state.peak, None
        target = max(target, int(self.problem.size.max(initial=0)))
        work = _WORK * max(1, len(self.problem))
        while moves > 0 and self._peak > target:
            self._attempt = self._attempt or self._begin(target)
            chunk = min(moves, max(1, int(_CHUNK / work)))
            deadline.check(work * chunk)
            moves -= self._continue(self._attempt, chunk)
        return self.best(state)

    def _begin(self, target: int) -> _Attempt:
        """Set a new limit, and eject the buffers that end above it."""
        assert self._offsets is not None
        assert self._peak is not None
        problem, count = self.problem, len(self.problem)
        limit = max(target, self._peak - max(1, int(self._step * (self._peak - target))))
        offset = self._offsets.copy()
        placed = offset + problem.size <= limit
        by_bottom, by_top = (self._listed(placed, at) for at in (offset, offset + problem.size))
        out = np.flatnonzero(~placed)
        waiting = np.empty(count, np.int64)
        waiting[: len(out)] = out[np.argsort(self._worth[out], kind="stable")]
        self._left, self._made = len(out), 0
        layout = (offset, placed, np.zeros(count, np.int64), by_bottom, by_top)
        return _Attempt(limit, layout, waiting)

    def _listed(self, placed: NDArray[np.bool_], address: Ints) -> Ints:
        """Address, lower, upper and row of placed buffers, by address; with room for all rows."""
        rows = np.flatnonzero(placed)
        rows = rows[np.argsort(address[rows], kind="stable")]
        entries = np.empty((4, len(placed)), np.int64)
        columns = address[rows], self.problem.lower[rows], self.problem.upper[rows], rows
        entries[:, : len(rows)] = columns
        return entries

    def _continue(self, attempt: _Attempt, moves: int) -> int:
        """Make moves and return their number; end the attempt if it succeeds or takes too long."""
        from cpplan.packing.search.ejection_kernel import insert_waiting

        problem, tuning = self.problem, self._tuning
        self._left, made = insert_waiting(
            problem.lower,
            problem.upper,
            problem.size,
            problem.alignment,
            self._worth,
            attempt.limit,
            moves,
            tuning.ejection_relocations,
            attempt.layout,
            attempt.waiting,
            self._left,
            self._random,
        )
        self._made += made
        if self._left == 0:
            self._offsets = attempt.layout[0]
            self._peak = int((self._offsets + problem.size).max(initial=0))
            self._step = min(tuning.ejection_longest, tuning.ejection_longer * self._step)
            self._attempt = None
        elif self._made >= tuning.ejection_patience * len(problem):
            self._step *= tuning.ejection_shorter
            self._attempt = None
        return int(made)
