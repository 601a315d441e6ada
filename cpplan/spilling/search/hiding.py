"""Copies that run while ops run, if the slow pool has a copy engine and the fast pool has room.

A reload then begins some ops before its reader, and a spill ends some ops after its writer. During
a copy both pools hold the tensor, so the load of the fast pool grows at the ops in between. The
engine makes one copy at a time: the cycles of an op hide one copy only.
"""

from __future__ import annotations

import numpy as np

from cpplan.model.problem import Ints
from cpplan.model.spill_problem import Flags, SpillProblem
from cpplan.spilling.moves import Hidden


def hide_copies(problem: SpillProblem, kept: Flags, work: Ints, margin: float) -> Hidden:
    """Reloads that begin earlier and spills that end later, so that ops run meanwhile."""
    return _Hiding(problem, kept, work, margin).hide()


class _Hiding:
    """Loads of the fast pool and free cycles of the engine, while copies are hidden."""

    def __init__(self, problem: SpillProblem, kept: Flags, work: Ints, margin: float):
        self.problem, self.kept = problem, kept
        self.load, self.free = problem.load(kept), work.copy()
        self.most = problem.capacity - int(margin * problem.capacity)
        self.near = problem.near(kept)
        bounds = np.searchsorted(problem.access_storage, np.arange(len(problem.names) + 1))
        self.first_access = bounds.tolist()
        self.gap_before = {
            int(after): gap for gap, after in enumerate(problem.gap_after.tolist()) if after >= 0
        }

    def hide(self) -> Hidden:
        """Spills and reloads in the order of their steps."""
        problem = self.problem
        spilled = problem.spilled(self.kept)
        reload_from: dict[int, int] = {}
        for access in np.argsort(problem.access_step, kind="stable").tolist():
            gap = self.gap_before.get(access)
            if gap is None or self.kept[gap] or not self.near[access]:
                continue
            begin = self._begin(access, gap)
            if begin is not None:
                reload_from[access] = begin
        spill_until: dict[int, int] = {}
        for storage in range(len(problem.names)):
            access = self.first_access[storage]
            if not (spilled[storage] and problem.written[storage] and self.near[access]):
                continue
            until = self._end(storage, access, reload_from)
            if until is not None:
                spill_until[storage] = until
        return Hidden(spill_until, reload_from)

    def _begin(self, access: int, gap: int) -> int | None:
        """Step before which an access's reload begins; ``None`` if it cannot begin earlier."""
        problem = self.problem
        storage, step = int(problem.access_storage[access]), int(problem.access_step[access])
        left, first = int(problem.reload_cost[storage]), int(problem.gap_lower[gap])
        room, begin = int(problem.room[storage]), step
        while left > 0 and begin > first and self.load[begin - 1] + room <= self.most:
            begin -= 1
            self.load[begin] += room
            left -= self._take(begin, left)
        return begin if begin < step else None

    def _end(self, storage: int, access: int, reload_from: dict[int, int]) -> int | None:
        """Step before which the spill of a storage ends; ``None`` if it cannot end later."""
        problem = self.problem
        begin = int(problem.access_step[access]) + 1
        left, room = int(problem.spill_cost[storage]), int(problem.room[storage])
        last, held = problem.steps, False
        if access + 1 < self.first_access[storage + 1]:
            # The spill ends before the next access, or before the reload for it begins.
            last = reload_from.get(access + 1, int(problem.access_step[access + 1]))
            held = bool(self.kept[self.gap_before[access + 1]])
        end = begin
        while left > 0 and end < last and (held or self.load[end] + room <= self.most):
            self.load[end] += 0 if held else room
            left -= self._take(end, left)
            end += 1
        return end if end > begin else None

    def _take(self, step: int, wanted: int) -> int:
        """Take up to ``wanted`` of the engine's free cycles at a step, and return their number."""
        found = min(wanted, int(self.free[step]))
        self.free[step] -= found
        return found
