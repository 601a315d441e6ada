"""Insertion search for a great many buffers, in windows of time.

With many buffers, only a few end too high. The search takes the buffer that ends highest, and a
window around its lifespan that some hundreds of buffers meet. The buffers within the window are
packed again by :mod:`cpplan.packing.search.insertion_search`, around the others, below an aim
half-way between peak and target. If the buffer still ends above the aim, the next window around it
is larger and is searched for longer; after some windows, the aim is raised. Once no buffer ends
above the aim, the next aim is half-way between the new peak and the target.

A buffer that lives longer than the largest window is moved by force to the offset where it overlaps
least. The overlapped buffers go on top of all others, and are lowered in windows in turn. If this
does not lead below the best peak soon, the search returns to the best packing.

Memory is linear in the number of buffers. The time for a window does not depend on that number,
except for finding the highest buffer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cpplan.model.problem import Ints
from cpplan.packing import loops
from cpplan.packing.search.insertion_search import InsertionSearch
from cpplan.packing.search.local_search import LocalSearch
from cpplan.packing.search.outcome import Outcome
from cpplan.packing.search.time_windows import TimeWindows
from cpplan.packing.tuning import active
from cpplan.runtime.compiled import COMPILING_SHARE, prepare

if TYPE_CHECKING:
    from cpplan.model.problem import Ints, Problem
    from cpplan.runtime.deadline import Deadline

# Insertion in windows: buffers that a first window meets, at least, and as a multiple of those
# live on average.
WINDOW_LEAST = 300
_WINDOW_LIVES = 4
# Moves in a first window; growth of the buffers and of the moves from one to the next.
_WINDOW_MOVES = 1000
_WINDOW_WIDER = 1.5
_WINDOW_LONGER = 2
# Each window aims below the peak by this share of the way to the target; within the second share
# of the target, it aims at the target itself.
_WINDOW_STEP = 0.5
_WINDOW_NEAR = 0.001
# Windows around a buffer after which the aim is raised.
_WINDOW_TRIES = 3
# Windows spent on buffers that a forced move put on top.
_WINDOW_PATIENCE = 60

NAME = "insertion in windows"
# For deadlines that count work: seconds for a buffer of a window, and of the whole problem.
_WORK, _WORK_OF_ALL = 3e-6, 1e-9
Floats = NDArray[np.float64]


class WindowedInsertion(LocalSearch):
    """Insertion in windows; it keeps its current packing, so that it can be continued.

    Parameters
    ----------
    problem
        A reduced problem.
    seed
        Seed of the choice of windows and of the moves in them.

    Attributes
    ----------
    wide
        True if windows have too many buffers to search more than a few of them.
    """

    name = NAME

    def __init__(self, problem: Problem, seed: int):
        super().__init__(problem)
        self._tuning = active()
        self._seed = seed
        self._random = np.random.default_rng(seed)
        self._windows = TimeWindows(problem)
        breadth = float((problem.upper - problem.lower).sum())
        live = breadth / max(1, self._windows.end)
        self._first_count = int(max(WINDOW_LEAST, _WINDOW_LIVES * live))
        # With so many buffers live at once, other searches lower the peak as fast.
        self.wide = 2 * self._first_count > self._tuning.insertion_buffers
        self._tries: dict[int, int] = {}
        self._made = 0
        self._left: int | None = None
        self._aim: int | None = None
        self._current: Ints | None = None

    def run(self, state: Outcome, *, moves: int, target: int, deadline: Deadline) -> Outcome:
        """Pack ``moves`` windows, or until the peak is at most ``target``.

        Raises ``TimeUpError`` within a window; :meth:`best` then has the best packing reached.
        """
        if not prepare(loops.INSERTION, deadline.share(COMPILING_SHARE)):
            return state  # the next turn tries again
        if self._peak is None or state.peak < self._peak:
            self._offsets, self._peak = state.offsets, state.peak
            self._current, self._left = state.offsets.copy(), None
        target = max(target, state.bound)
        for _ in range(moves):
            if self._peak <= target:
                break
            if not self._lower_highest(target, deadline):
                break
        return self.best(state)

    def _lower_highest(self, target: int, deadline: Deadline) -> bool:
        """Search one window, or move a buffer by force; false if neither was possible."""
        tuning = self._tuning
        assert self._current is not None
        assert self._peak is not None
        deadline.check(_WORK_OF_ALL * len(self.problem))
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                self._return()
        end = self._current + self.problem.size
        row = int(np.argmax(end))
        if not self._windows.movable[row]:
            return False
        tries = self._tries.get(row, 0)
        wider, most = _WINDOW_WIDER, tuning.insertion_buffers
        count = min(most, int(self._first_count * wider**tries))
        # Later windows lie differently around the buffer.
        before = 0.5 if tries == 0 else self._random.uniform(0.1, 0.9)
        steps = self._windows.around(row, count, before)
        if steps is None:
            steps = self._windows.around(row, most, before)
        largest_tried = self._first_count * wider ** (tries - 1) > most
        if steps is None or largest_tried:
            self._tries.pop(row, None)
            return self._force(row, target)
        moves = _WINDOW_MOVES * _WINDOW_LONGER**tries
        if self._aim is None or end[row] <= self._aim:
            self._aim = self._next_aim(target, int(end[row]))
        peak = self._pack(*steps, int(end[row]), self._aim, moves, deadline)
        if peak > self._aim:
            self._tries[row] = tries + 1
            if tries >= _WINDOW_TRIES:
                self._aim = (self._aim + self._peak) // 2
        return True

    def _next_aim(self, target: int, peak: int) -> int:
        way = peak - target
        if way <= _WINDOW_NEAR * target:
            return target
        return target + int((1 - _WINDOW_STEP) * way)

    def _pack(
        self, lower: int, upper: int, peak: int, aim: int, moves: int, deadline: Deadline
    ) -> int:
        """Search one window from the peak of its highest buffer; returns the peak reached."""
        found, valid = self._search(lower, upper, peak, aim, moves, deadline)
        if not valid and found < peak:
            # Buffers overlap a cut-off part of an obstacle: search again with the peak reached as
            # the aim, at which obstacles are cut off then.
            found, _ = self._search(lower, upper, peak, found, moves, deadline)
        return found

    def _search(
        self, lower: int, upper: int, peak: int, aim: int, moves: int, deadline: Deadline
    ) -> tuple[int, bool]:
        """The peak reached, and true if the packing is valid and was kept."""
        assert self._current is not None
        piece = self._windows.piece(lower, upper, self._current, aim)
        deadline.spend(_WORK * len(piece.problem))
        self._made += 1
        search = InsertionSearch(piece.problem, seed=self._seed + self._made)
        state = Outcome(piece.offsets, peak, 0)
        try:
            search.run(state, moves=moves, target=aim, deadline=deadline)
        finally:
            found = search.best(state)
            valid = not piece.clashes(found.offsets)
            if valid:
                self._current[piece.rows] = found.offsets[: len(piece.rows)]
                self._keep()
        return found.peak, valid

    def _keep(self) -> None:
        """Keep the current packing if it is the best so far."""
        assert self._current is not None
        assert self._peak is not None
        peak = int((self._current + self.problem.size).max())
        if peak < self._peak:
            self._offsets, self._peak, self._left = self._current.copy(), peak, None

    def _return(self) -> None:
        """Return to the best packing."""
        assert self._offsets is not None
        self._current, self._left = self._offsets.copy(), None

    def _force(self, row: int, target: int) -> bool:
        """Move a buffer to its lightest place, and the overlapped buffers on top.

        Returns false if no place is possible.
        """
        assert self._current is not None
        problem, offsets = self.problem, self._current
        near = self._windows.rows(int(problem.lower[row]), int(problem.upper[row]))
        near = near[near != row]
        width = problem.upper[near] - problem.lower[near]
        # Long buffers are hard to lower, so they cost more. Noise varies the place between calls.
        noise = self._random.uniform(0.5, 1, len(near))
        cost = problem.size[near] * width.astype(float) ** 2 * noise
        cost[~self._windows.movable[near]] = np.inf
        place = lightest_place(
            offsets[near], problem.size[near], cost,
            int(problem.size[row]), int(problem.alignment[row]), target,
        )  # fmt: skip
        if place is None:
            self._return()
            return False
        offsets[row] = place
        top = int((offsets + problem.size).max())
        overlapped = near[
            (offsets[near] < place + problem.size[row])
            & (offsets[near] + problem.size[near] > place)
        ]
        for other in overlapped.tolist():
            step = int(problem.alignment[other])
            offsets[other] = -(-top // step) * step
            top = int(offsets[other] + problem.size[other])
            self._tries.pop(other, None)
        if self._left is None:
            self._left = _WINDOW_PATIENCE
        self._keep()
        return True


def lightest_place(
    offset: Ints, size: Ints, cost: Floats, room: int, step: int, target: int
) -> int | None:
    """The offset with the least cost of overlapped buffers, a multiple of ``step``; or ``None``.

    The buffer of ``room`` bytes must end at or below ``target``.
    """
    last = target - room
    if last < 0:
        return None
    places = np.concatenate([[0, last], offset + size, offset - room])
    places = np.unique(np.concatenate([-(-places // step) * step, places // step * step]))
    places = places[(places >= 0) & (places <= last)]
    by_start, by_end = np.argsort(offset), np.argsort(offset + size)
    started_by = np.searchsorted(offset[by_start], places + room, side="left")
    ended_by = np.searchsorted((offset + size)[by_end], places, side="right")

    def overlapping(weight: Floats) -> Floats:
        # Weight of buffers that start before the end of a place, less those that end before it.
        started = np.concatenate([[0.0], np.cumsum(weight[by_start])])
        ended = np.concatenate([[0.0], np.cumsum(weight[by_end])])
        return np.asarray(started[started_by] - ended[ended_by])

    # Infinite costs cannot be subtracted again, so immovable buffers are counted instead.
    immovable = np.isinf(cost)
    total = overlapping(np.where(immovable, 0.0, cost))
    total[overlapping(immovable.astype(float)) > 0] = np.inf
    best = int(np.argmin(total))
    return None if np.isinf(total[best]) else int(places[best])
