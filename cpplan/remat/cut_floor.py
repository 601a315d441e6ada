"""Lower bounds on the bytes of every schedule, from what is retained at the first run of a unit.

At that moment, the unit's own storages are live, and enough others that all units that wait for it
can run later: each storage that they read is retained, or computed again, for which its unit's
reads must be retained or computed again. The fewest such bytes are a minimum cut. A unit is taken
not to run again if it does not fit beside the results that are there already; which units these are
depends on the limit. A schedule may compute results twice, so that this is a guess: the cuts find
the unit and the bytes, and the proof is the linear program of ``formulations.retained_at_cuts``
with this unit as its only cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cpplan.model.certificates import CutDuals
from cpplan.model.problem import Ints
from cpplan.model.remat_problem import RematProblem
from cpplan.remat.cut_bounds import CUT_UNITS, cut_bound
from cpplan.remat.footprint import accessed_bytes
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline

# Least bytes at first runs: most limits tried for a proof.
_FLOOR_STEPS = 16

# Capacity of an arc that no minimum cut contains.
_ENDLESS = 1 << 60
# Arcs of networks solved in a second, about, for deadlines that count work.
_RATE = 1e7


class CutFloor(NamedTuple):
    """Bytes that every schedule needs.

    Attributes
    ----------
    bytes
        Lower bound on the peak of every schedule.
    unit
        The unit that needs them at its first run.
    certificate
        Duals that prove it.
    """

    bytes: int
    unit: int
    certificate: CutDuals | None


def cut_floor(
    problem: RematProblem,
    limit: int,
    budget: Budget,
    *,
    most: int,
    order: Sequence[int] | None = None,
) -> CutFloor | None:
    """A proof that every schedule exceeds a limit, and by how much; ``None`` if none is found.

    Parameters
    ----------
    problem
        A problem whose precedences have no cycle.
    most
        Peak of a known schedule: no bound can be larger.
    order
        All units in the order of their first runs, if only such schedules count.
    """
    if not 0 < len(problem) <= CUT_UNITS or budget.deadline.expired():
        return None
    from formulations.retained_at_cuts import precedence

    needs = bytes_at_first_runs(problem, limit, precedence(problem, order), budget.deadline)
    unit = int(needs.argmax())
    if needs[unit] <= limit:
        return None

    def prove(more: int) -> CutFloor | None:
        """The proof that every schedule exceeds ``more`` bytes."""
        proof = cut_bound(problem, more, budget, order=order, only=unit)
        return CutFloor(more + 1, unit, proof.certificate) if proof.infeasible else None

    low, high = limit, min(int(needs[unit]), most) - 1
    best = prove(high)
    if best is not None or high <= limit:
        return best
    best = prove(limit)
    for _ in range(_FLOOR_STEPS if best is not None else 0):
        middle = (low + high) // 2
        if middle == low or budget.deadline.expired():
            break
        found = prove(middle)
        if found is None:
            high = middle
        else:
            low, best = middle, found
    return best


def bytes_at_first_runs(
    problem: RematProblem, limit: int, before: np.ndarray, deadline: Deadline
) -> Ints:
    """Least bytes live at the first run of every unit within a limit, shape ``(units,)``.

    Zero for units without time. They hold for schedules that compute no result of the model twice.
    """
    network = _Retained(problem, before)
    found: Ints = np.zeros(len(problem), np.int64)
    for unit in np.argsort(-network.accessed, kind="stable").tolist():
        if deadline.expired():
            break
        found[unit] = network.least(unit, limit)
        deadline.spend(network.arcs / _RATE)
    return found


class _Retained:
    """Networks of units and storages, one for the first run of each unit.

    A node on the side of the source is a unit that runs later or a storage that is read later. The
    latter is retained unless its writer is there too.
    """

    def __init__(self, problem: RematProblem, before: np.ndarray):
        ordering = problem.ordering
        self._before, self._repeatable = before, np.asarray(problem.repeatable, bool)
        self.accessed: Ints = accessed_bytes(problem) + ordering.base
        writers: list[list[int]] = [[] for _ in ordering.size]
        for unit, written in enumerate(problem.writes):
            for storage in written:
                writers[storage].append(unit)
        # Storages whose begin is known: either present from the start, or begun by one unit.
        known = [
            s
            for s, (w, there) in enumerate(zip(writers, ordering.present.tolist(), strict=True))
            if len(w) + there == 1
        ]
        place = {s: k for k, s in enumerate(known)}
        self._writer = np.array([(writers[s] or [-1])[0] for s in known], np.int64)
        self._size: Ints = np.asarray(ordering.size, np.int64)[known]
        self._kept = np.flatnonzero(np.asarray(ordering.kept, bool)[known])
        self._accesses = [
            np.array([place[s] for s in storages if s in place], np.int64)
            for storages in ordering.accesses
        ]
        self._nodes = 2 + len(problem) + np.arange(len(known))
        reads = [
            (2 + unit, self._nodes[place[s]])
            for unit, storages in enumerate(problem.reads)
            for s in storages
            if s in place
        ]
        self._reads = np.array(reads, np.int64).reshape(-1, 2)
        self.arcs = len(reads) + len(known)
        # For every unit, the bytes that it accesses of results that stay to the end.
        self._own = np.zeros((len(problem), len(self._kept)), bool)
        column = {int(k): j for j, k in enumerate(self._kept)}
        for unit, storages in enumerate(self._accesses):
            self._own[unit, [column[k] for k in storages.tolist() if k in column]] = True

    def least(self, unit: int, limit: int) -> int:
        """Least bytes live at the first run of a unit."""
        from ortools.graph.python.max_flow import SimpleMaxFlow

        writer, ran = self._writer, self._before[:, unit]
        there = (writer[self._kept] < 0) | ran[writer[self._kept]]
        sizes = np.where(there, self._size[self._kept], 0)
        beside = self.accessed + sizes.sum() - self._own @ sizes
        later = ~ran | (self._repeatable & (beside <= limit))
        heads = np.where((writer >= 0) & later[writer], 2 + writer, 1)
        capacity = self._size.copy()
        capacity[self._accesses[unit]] = 0
        waiting = 2 + np.flatnonzero(self._before[unit])
        needed = np.concatenate([waiting, self._nodes[self._kept]])
        endless = len(self._reads), len(needed)
        flow = SimpleMaxFlow()
        flow.add_arcs_with_capacity(
            np.concatenate([self._reads[:, 0], self._nodes, np.zeros(len(needed), np.int64)]),
            np.concatenate([self._reads[:, 1], heads, needed]),
            np.concatenate(
                [np.full(endless[0], _ENDLESS), capacity, np.full(endless[1], _ENDLESS)]
            ),
        )
        status = flow.solve(0, 1)
        assert status == flow.OPTIMAL
        return int(self.accessed[unit]) + int(flow.optimal_flow())
