"""Storages retained at a few cuts of a schedule, a lower bound on the cost of every schedule.

The *cuts* u_1, ..., u_m are units that must run in this order. The moment of a cut is its first
run; interval j lies after the moment of u_j, up to the moment of u_{j+1} (interval 0 begins at the
start, interval m ends at the end). Every schedule within the memory limit satisfies the rows below,
in any order and with any repetitions of units.

Sets
    V        units; P_v, the units that v waits for;  L_v, U_v, the first and the last interval in
             which v may run first: after the cuts that precede v, before the cuts that follow v
    S        storages; W_s, the units that write s; Q_v, the storages that v reads; T_v, the
             storages that v accesses and does not overwrite in place, live while v runs

Parameters (sizes in units of u bytes, their greatest common divisor)
    s_i      size of storage i
    x_v      bytes live only while v runs
    f_v      cost of running v, in units of g
    H        the limit, less the bytes live throughout

Variables (all 0 or 1 except G_j)
    r_jv     v runs in interval j
    d_jv     v has run by the end of interval j
    t_jv     v runs in interval j or a later one
    k_js     s is live at the moment of u_j;  k_{m+1,s}: at the end
    g_js     s is live throughout interval j, as no unit writes it there
    G_j      bytes live throughout interval j

Constraints (each row has a rule, the name by which certificates cite it, and the indices shown)
    stays done jv       d_{j-1,v} <= d_jv
    waits jvp           d_jv <= d_jp  for p in P_v;  d_jv = 0 for j < L_v,  1 for j >= U_v
    run done jv         r_jv <= d_jv
    first run jv        d_jv - d_{j-1,v} <= r_jv
    once v              the sum of r_jv is 1 if v runs only once
    read jvs            r_jv <= k_js + sum over w in W_s of r_jw  for s in Q_v
    read by then jvs    1 - d_{j-1,v} <= k_js + sum over w in W_s and i in j..U_v of r_iw
    retained js         k_{j+1,s} <= k_js + sum over w in W_s of r_jw;  k_0s = 1 if s is present
                        from the start, k_{m+1,s} = 1 if it is kept, k_js = 1 if s is in T_{u_j},
                        or needed later where no w in W_s can run, 0 if no w in W_s has run, or
                        if s has no room at cut j beside the storages with k_js = 1
    run later jv        r_jv <= t_jv
    later jv            t_{j+1,v} <= t_jv
    not yet jv          1 - d_{j-1,v} <= t_jv
    some time jv        t_jv <= sum over i >= j of r_iv
    read later jvs      t_jv <= k_js + sum over w in W_s of t_jw  for s in Q_v
    kept later js       1 <= k_js + sum over w in W_s of t_jw  if s is kept
    at cut j            sum of s_i k_ji + x_{u_j} <= H
    throughout js       k_{j+1,s} <= g_js + sum over w in W_s of r_jw
    held j              sum of s_i g_ji <= G_j
    between jv          G_j - sum over i in T_v of s_i g_ji + r_jv (x_v + sum over T_v of s_i) <= H

Objective
    minimise the sum of f_v (sum over j of r_jv, less 1)

Checkmate (Jain et al., 2020) with cuts in place of stages and no given order; with one cut, a
knapsack problem of the storages to retain. With t, several cuts give at least the bound of each
single cut. A storage that is present from the start and also written by units counts only at cuts
that have the storage in their T.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING

import numpy as np

from formulations.integer_rows import ONE, ZERO, IntegerRows
from formulations.proved_value import proved_value

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

    from cpplan.model.remat_problem import RematProblem
    from formulations.positions import Solved

_LARGEST_OBJECTIVE = 2**45


def precedence(problem: RematProblem, order: Sequence[int] | None = None) -> np.ndarray:
    """First-run precedences: ``[u, v]`` is True if u first runs before v, shape ``(units, units)``.

    They hold in every schedule, or in every schedule whose first runs have the given order.

    Examples
    --------
    >>> from cpplan.model.graph import Graph, Op, Tensor
    >>> from cpplan.remat.problem import remat_problem
    >>> ops = Op("f", outputs=("a",)), Op("g", outputs=("b",)), Op("h", inputs=("a",))
    >>> problem = remat_problem(Graph("fork", (Tensor("a", 1), Tensor("b", 1)), ops))
    >>> precedence(problem).astype(int).tolist()
    [[0, 0, 1], [0, 0, 0], [0, 0, 0]]
    >>> precedence(problem, (1, 0, 2)).astype(int).tolist()
    [[0, 0, 1], [1, 0, 1], [0, 0, 0]]
    """
    units = len(problem)
    before = np.zeros((units, units), bool)
    if order is not None:
        place = np.empty(units, np.int64)
        place[np.asarray(order, np.int64)] = np.arange(units)
        result: np.ndarray = place[:, None] < place[None, :]
        return result
    waits_for = dict(enumerate(problem.ordering.predecessors))
    for unit in TopologicalSorter(waits_for).static_order():
        for other in waits_for[unit]:
            before[:, unit] |= before[:, other]
            before[other, unit] = True
    return before


def build(
    problem: RematProblem, *, memory_limit: int, cuts: Sequence[int], before: np.ndarray
) -> CutModel:
    """The model of a problem at some cuts.

    Parameters
    ----------
    problem
        A problem whose precedences have no cycle.
    memory_limit
        Limit on the peak, bytes.
    cuts
        Units in an order that their first runs must have.
    before
        Precedences of first runs; see :func:`precedence`.

    Examples
    --------
    >>> from cpplan.model.small_graphs import forward_and_back
    >>> from cpplan.remat.problem import remat_problem
    >>> problem = remat_problem(forward_and_back())
    >>> model = build(problem, memory_limit=24, cuts=(3,), before=precedence(problem))
    >>> model.cost_of(model.rows.relaxed(60.0).bound)
    6
    """
    model = CutModel(problem, memory_limit, tuple(cuts), before)
    model.add_variables()
    model.add_done()
    model.add_first_runs()
    model.add_reads()
    model.add_retained()
    model.add_later()
    model.add_memory_at_cuts()
    model.add_memory_between()
    return model


@dataclass(eq=False)
class CutModel:
    """The model under construction, and the conversion of its bounds to costs."""

    problem: RematProblem
    memory_limit: int
    cuts: tuple[int, ...]
    before: np.ndarray
    rows: IntegerRows = field(default_factory=IntegerRows)
    unit: int = field(init=False)
    capacity: int = field(init=False)
    cost_unit: Fraction = field(init=False)

    def __post_init__(self) -> None:
        problem, ordering = self.problem, self.problem.ordering
        self.unit = math.gcd(*ordering.size.tolist(), *ordering.extra.tolist()) or 1
        self.capacity = (self.memory_limit - ordering.base) // self.unit
        self.rows.impossible = self.capacity < 0
        self._size = (ordering.size // self.unit).tolist()
        self._extra = (ordering.extra // self.unit).tolist()
        self._writers: list[list[int]] = [[] for _ in self._size]
        for unit, written in enumerate(problem.writes):
            for storage in written:
                self._writers[storage].append(unit)
        there = ordering.present.tolist()
        # Storages whose begin is known: either present from the start, or begun by a unit.
        self._known = [p != bool(w) for p, w in zip(there, self._writers, strict=True)]
        self._reads = [
            [s for s in read if self._known[s] and (there[s] or self._after_writer(v, s))]
            for v, read in enumerate(problem.reads)
        ]
        self._during = [
            [s for s in accessed if s not in overwritten]
            for accessed, overwritten in zip(ordering.accesses, problem.overwrites, strict=True)
        ]
        self._set_costs()
        self._set_windows()

    def _after_writer(self, unit: int, storage: int) -> bool:
        return any(self.before[writer, unit] for writer in self._writers[storage])

    def _set_costs(self) -> None:
        cost = [Fraction(amount) for amount in self.problem.cost]
        denominator = math.lcm(*(c.denominator for c in cost))
        self.cost_unit = Fraction(math.gcd(*(int(c * denominator) for c in cost)) or 1, denominator)
        most = sum(cost, Fraction(0)) * (len(self.cuts) + 1)
        # If sums would be too large, costs are rounded down to a larger unit: the bound still
        # holds.
        self.cost_unit = max(self.cost_unit, most / _LARGEST_OBJECTIVE)
        self._cost = [int(c / self.cost_unit) for c in cost]
        self.rows.constant -= sum(self._cost)

    def _set_windows(self) -> None:
        """Set L_v and U_v."""
        units, cuts = len(self.problem), len(self.cuts)
        self._earliest, self._latest = np.zeros(units, np.int64), np.full(units, cuts)
        for j, unit in enumerate(self.cuts, 1):
            self._earliest[self.before[unit]] = j
        for j, unit in reversed(list(enumerate(self.cuts, 1))):
            self._latest[self.before[:, unit]] = j - 1
            self._latest[unit] = j - 1
        # The last interval from which on each storage is read for certain.
        self._needed_from = [0] * len(self._size)
        for v, read in enumerate(self._reads):
            for s in read:
                self._needed_from[s] = max(self._needed_from[s], int(self._earliest[v]))

    def add_variables(self) -> None:
        """r, d and k; a variable that can have only one value is a constant."""
        problem, ordering, rows = self.problem, self.problem.ordering, self.rows
        units, storages, last = range(len(problem)), range(len(self._size)), len(self.cuts)
        self.runs = np.full((last + 1, len(problem)), ZERO)
        # Row j + 1 is d_j: no unit has run before interval 0.
        self.done = np.full((last + 2, len(problem)), ZERO)
        for v in units:
            first, end = int(self._earliest[v]), int(self._latest[v])
            for j in range(first, last + 1):
                if first == j == end:
                    self.runs[j, v] = rows.one(self._cost[v])
                elif j <= end or problem.repeatable[v]:
                    self.runs[j, v] = rows.variable(self._cost[v])
                self.done[j + 1, v] = ONE if j >= end else rows.variable()
        self.live = np.full((last + 2, len(self._size)), ZERO)
        known = np.array(self._known, bool)
        self.live[0, known & ordering.present] = ONE
        self.live[last + 1, known & ordering.kept] = ONE
        for j, unit in enumerate(self.cuts, 1):
            for s in storages:
                writers = self._writers[s]
                if self._known[s] and (
                    ordering.present[s] or any(self._earliest[w] < j for w in writers)
                ):
                    self.live[j, s] = rows.variable()
            for s in self._during[unit]:
                if self._known[s] or ordering.present[s]:
                    self.live[j, s] = ONE
            for s in storages:
                if self.live[j, s] >= 0 and self._is_held(j, s):
                    self.live[j, s] = ONE
            certain = np.flatnonzero(self.live[j] == ONE).tolist()
            room = self.capacity - self._extra[unit] - sum(self._size[s] for s in certain)
            self.live[j, (self.live[j] >= 0) & (np.array(self._size) > room)] = ZERO

    def _is_held(self, j: int, storage: int) -> bool:
        """True if a storage is needed after cut j, and no unit can begin it there."""
        if not (self._writers[storage] or self.problem.ordering.present[storage]):
            return False
        for w in self._writers[storage]:
            if self.problem.repeatable[w] or self._latest[w] >= j:
                return False
        return bool(self.problem.ordering.kept[storage] or self._needed_from[storage] >= j)

    def add_done(self) -> None:
        """d_{j-1,v} <= d_jv <= d_jp for the units p that v waits for."""
        for v, waits_for in enumerate(self.problem.ordering.predecessors):
            for j in range(int(self._earliest[v]), int(self._latest[v])):
                self._implies(self.done[j, v], self.done[j + 1, v], (), "stays done", j, v)
                for p in waits_for:
                    now = self.done[j + 1]
                    self._implies(now[v], now[p], (), "waits", j, v, p)

    def add_first_runs(self) -> None:
        """d_jv - d_{j-1,v} <= r_jv <= d_jv; the sum of r_jv is 1 if v runs only once."""
        for v, again in enumerate(self.problem.repeatable.tolist()):
            first, end = int(self._earliest[v]), int(self._latest[v])
            if first == end:
                continue
            for j in range(first, end + 1):
                self._implies(self.runs[j, v], self.done[j + 1, v], (), "run done", j, v)
                run = [(1, self.runs[j, v]), (1, self.done[j, v])]
                self.rows.add([*run, (-1, self.done[j + 1, v])], 0, "first run", j, v)
            if not again:
                runs = ((-1, self.runs[j, v]) for j in range(first, end + 1))
                self.rows.add(runs, -1, "once", v)

    def add_reads(self) -> None:
        """A storage that is read was live at the cut before, or a writer of it has run since."""
        last = len(self.cuts)
        for v, read in enumerate(self._reads):
            first, end = int(self._earliest[v]), int(self._latest[v])
            for s in read:
                for j in range(first, last + 1):
                    source = self._written(s, self.runs, j, j)
                    self._implies(self.runs[j, v], self.live[j, s], source, "read", j, v, s)
                for j in range(first, end):
                    by_then = [(1, self.live[j, s]), *self._written(s, self.runs, j, end)]
                    by_then.append((1, self.done[j, v]))
                    self.rows.add(by_then, 1, "read by then", j, v, s)

    def add_retained(self) -> None:
        """k_{j+1,s} <= k_js + sum of r_jw."""
        for s in range(len(self._size)):
            for j in range(len(self.cuts) + 1):
                if self._known[s]:
                    source = self._written(s, self.runs, j, j)
                    self._implies(self.live[j + 1, s], self.live[j, s], source, "retained", j, s)

    def add_later(self) -> None:
        """t_jv, and the storages that must be live at cut j for v to run in interval j or later."""
        last, rows = len(self.cuts), self.rows
        # With one interval after the cut, t is r.
        self.later = np.full((last + 1, len(self.problem)), ZERO)
        self.later[last] = self.runs[last]
        for v in range(len(self.problem)):
            for j in range(last - 1, 0, -1):
                ahead = self.runs[j:, v].tolist()
                if self._earliest[v] >= j:
                    self.later[j, v] = ONE
                elif any(run != ZERO for run in ahead):
                    later = self.later[j, v] = rows.variable()
                    self._implies(self.runs[j, v], later, (), "run later", j, v)
                    self._implies(self.later[j + 1, v], later, (), "later", j, v)
                    rows.add([(1, later), (1, self.done[j, v])], 1, "not yet", j, v)
                    rows.add([*((1, run) for run in ahead), (-1, later)], 0, "some time", j, v)
        for j in range(1, last):
            for v, read in enumerate(self._reads):
                for s in read:
                    source = self._written(s, self.later, j, j)
                    self._implies(self.later[j, v], self.live[j, s], source, "read later", j, v, s)
            for s in np.flatnonzero(self.live[last + 1] == ONE).tolist():
                source = self._written(s, self.later, j, j)
                rows.add([(1, self.live[j, s]), *source], 1, "kept later", j, s)

    def add_memory_at_cuts(self) -> None:
        """sum of s_i k_ji + x_{u_j} <= H; at the end, all kept storages fit."""
        own = [*(self._extra[unit] for unit in self.cuts), 0]
        for j, extra in enumerate(own, 1):
            live = zip(self._size, self.live[j].tolist(), strict=True)
            self.rows.add(((-size, k) for size, k in live), extra - self.capacity, "at cut", j)

    def add_memory_between(self) -> None:
        """g_js and G_j; a unit that runs between two cuts fits beside G_j."""
        rows, size = self.rows, self._size
        for j in range(len(self.cuts) + 1):
            through = [ZERO] * len(size)
            for s in np.flatnonzero(self.live[j + 1] != ZERO).tolist():
                if self._known[s]:
                    through[s] = self._throughout(j, s)
            most = sum(size[s] for s, column in enumerate(through) if column != ZERO)
            total = rows.variable(upper=min(most, self.capacity)) if most else ZERO
            held = [(-size[s], column) for s, column in enumerate(through)]
            rows.add([(1, total), *held], 0, "held", j)
            for v in np.flatnonzero(self.runs[j] != ZERO).tolist():
                during = [s for s in self._during[v] if self._known[s]]
                own = self._extra[v] + sum(size[s] for s in during)
                beside = [(size[s], through[s]) for s in during]
                row = [(-1, total), *beside, (-own, self.runs[j, v])]
                rows.add(row, -self.capacity, "between", j, v)

    def _throughout(self, j: int, storage: int) -> int:
        """The column of g_js."""
        written = self._written(storage, self.runs, j, j)
        if any(run == ONE for _, run in written):
            return ZERO
        if not written:
            return int(self.live[j + 1, storage])
        through = self.rows.variable()
        what = self.live[j + 1, storage]
        self._implies(what, through, written, "throughout", j, storage)
        return through

    def _written(
        self, storage: int, runs: np.ndarray, first: int, last: int
    ) -> list[tuple[int, int]]:
        """Terms of a row for the runs of a storage's writers in intervals ``first`` to ``last``."""
        found = (int(runs[j, w]) for w in self._writers[storage] for j in range(first, last + 1))
        return [(1, run) for run in found if run != ZERO]

    def _implies(
        self, what: int, then: int, other: Sequence[tuple[int, int]], rule: str, *indices: int
    ) -> None:
        """Add the row what <= then + other."""
        if what != ZERO and then != ONE:
            terms = [(1, int(then)), *other, (-1, int(what))]
            self.rows.add(terms, 0, rule, *map(int, indices))

    def runs_again(self, values: Sequence[float]) -> np.ndarray:
        """Runs of each unit beyond its first, for values of the variables."""
        # The columns of the constants 0 and 1 are the last two.
        known = np.array([*values, 1.0, 0.0])
        again: np.ndarray = known[self.runs].sum(axis=0) - 1.0
        return again

    def extra_of(self, bound: int) -> Fraction:
        """Bound on a schedule's cost beyond every unit once, for a bound of the rows."""
        return max(0, bound) * self.cost_unit

    def cost_of(self, bound: int) -> int | float:
        """Bound on a schedule's cost, for a bound of the rows."""
        base = sum((Fraction(amount) for amount in self.problem.cost), Fraction(0))
        cost = base + self.extra_of(bound)
        return int(cost) if cost.denominator == 1 else _rounded_down(cost)

    def in_bytes(self, objective: float) -> int:
        """The bound of the rows, in units of g, for a bound on CP-SAT's objective."""
        return self.rows.constant + proved_value(objective)

    def extract(self, solver: Solved) -> None:
        """Return ``None``: a solution of this model is not a schedule."""

    @property
    def model(self) -> cp_model.CpModel:
        """The integer program for CP-SAT."""
        return self.rows.cp_model()


def _rounded_down(amount: Fraction) -> float:
    """The largest float that is at most ``amount``."""
    nearest = float(amount)
    return nearest if nearest <= amount else math.nextafter(nearest, -math.inf)
