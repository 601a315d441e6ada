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
    r_ijv    v runs in one of the intervals i to j;  r_jjv: in interval j
    d_jv     v has run by the end of interval j
    k_js     s is live at the moment of u_j;  k_{m+1,s}: at the end
    g_js     s is live throughout interval j, as no unit writes it there
    G_j      bytes live throughout interval j

Constraints (each row has a rule, the name by which certificates cite it, and the indices shown)
    stays done jv       d_{j-1,v} <= d_jv
    waits jvp           d_jv <= d_jp  for p in P_v;  d_jv = 0 for j < L_v,  1 for j >= U_v
    run done jv         r_jjv <= d_jv
    once v              the sum of r_jjv is 1 if v runs only once
    first run ijv       d_jv - d_{i-1,v} <= r_ijv
    read ijvs           r_ijv <= k_is + sum over w in W_s of r_ijw  for s in Q_v
    retained ijs        k_{j+1,s} <= k_is + sum over w in W_s of r_ijw;  k_0s = 1 if s is present
                        from the start, k_{m+1,s} = 1 if it is kept, k_js = 1 if s is in T_{u_j},
                        or needed later where no w in W_s can run, 0 if no w in W_s has run, or
                        if s has no room at cut j beside the storages with k_js = 1
    either ijkv         r_ikv <= r_ijv + r_{j+1,k,v}
    at cut j            sum of s_i k_ji + x_{u_j} <= H
    rounded jdA         the same rounded for whole k_js, in multiples of d bytes, with the storages
                        in A counted by what is absent (formulations.rounding)
    throughout js       k_{j+1,s} <= g_js + sum over w in W_s of r_jjw
    held j              sum of s_i g_ji <= G_j
    between jv          G_j - sum over i in T_v of s_i g_ji + r_jjv (x_v + sum over T_v of s_i) <= H

Objective
    minimise the sum of f_v (sum over j of r_jjv, less 1)

Checkmate (Jain et al., 2020) with cuts in place of stages and no given order; with one cut, a
knapsack problem of the storages to retain. Were each interval alone, a relaxation could run a tenth
of a unit in each of ten, so that more cuts would prove less. So ranges of intervals have the same
rows as intervals: all that end with the last one, and, with more than a few cuts, those of 2, 4,
8, ... intervals; each is the union of two others. A storage that is present from the start and also
written by units counts only at cuts that have the storage in their T.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from graphlib import TopologicalSorter
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cpplan.model.columns import Lists, lists_of
from cpplan.model.tensor import LIMIT
from formulations.integer_rows import ONE, ZERO, IntegerRows, Terms, terms
from formulations.linear_program import Ints
from formulations.proved_value import proved_value
from formulations.rounding import missed_rows, round_row

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

    from cpplan.model.remat_problem import RematProblem
    from formulations.integer_rows import Relaxed
    from formulations.positions import Solved

_LARGEST_OBJECTIVE = 2**45
# Most rounded rows that are added for a cut at once.
_MOST_ROUNDED = 3
# With so few cuts, ranges in their midst prove hardly more, and take as much time as all else.
_FEW_CUTS = 4


class Rounding(NamedTuple):
    """A rounded row at a cut: its unit, its divisor, and the storages counted by what is absent."""

    unit: int
    divisor: int
    absent: tuple[int, ...]


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
    problem: RematProblem,
    *,
    memory_limit: int,
    cuts: Sequence[int],
    before: np.ndarray,
    rounded: Iterable[Rounding] = (),
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
    rounded
        Rounded rows, of units that are cuts; see :meth:`CutModel.roundings`.

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
    model.add_ranges()
    model.add_done()
    model.add_first_runs()
    model.add_reads()
    model.add_retained()
    model.add_memory_at_cuts()
    model.add_rounded(rounded)
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
        self.capacity = min(self.memory_limit - ordering.base, LIMIT) // self.unit
        self.rows.impossible = self.capacity < 0
        self._size, self._extra = ordering.size // self.unit, ordering.extra // self.unit
        written = lists_of(problem.writes)
        order = np.argsort(written.item, kind="stable")
        count = np.bincount(written.item, minlength=len(self._size))
        self._writers = Lists(written.owner[order], count)
        # Storages whose begin is known: either present from the start, or begun by a unit.
        there = ordering.present
        self._known = there != (count > 0)
        reads = lists_of(problem.reads)
        writing = self._writers.taken(reads.item)
        begun = np.zeros(len(reads.item), bool)
        begun[writing.owner[self.before[writing.item, reads.owner[writing.owner]]]] = True
        self._reads = reads.where(self._known[reads.item] & (there[reads.item] | begun))
        accesses = zip(ordering.accesses, problem.overwrites, strict=True)
        self._during = lists_of([[s for s in mine if s not in over] for mine, over in accesses])
        self._waits = lists_of(ordering.predecessors)
        self._set_costs()
        self._set_windows()

    def _set_costs(self) -> None:
        # If sums would be too large, costs are rounded down: the bound still holds.
        times = len(self.cuts) + 1
        self._cost, self.cost_unit = self.problem.whole_costs(times, _LARGEST_OBJECTIVE)
        self.rows.constant -= int(self._cost.sum())

    def _set_windows(self) -> None:
        """Set L_v and U_v."""
        units, cuts, storages = len(self.problem), len(self.cuts), len(self._size)
        self._earliest, self._latest = np.zeros(units, np.int64), np.full(units, cuts)
        for j, unit in enumerate(self.cuts, 1):
            self._earliest[self.before[unit]] = j
        for j, unit in reversed(list(enumerate(self.cuts, 1))):
            self._latest[self.before[:, unit]] = j - 1
            self._latest[unit] = j - 1
        # The last interval from which on each storage is read for certain.
        self._needed_from = np.zeros(storages, np.int64)
        np.maximum.at(self._needed_from, self._reads.item, self._earliest[self._reads.owner])
        # The first and the last interval in which each storage may first be written.
        written, writers = self._writers.owner, self._writers.item
        self._first_written, self._last_written = np.full(storages, cuts + 1), np.full(storages, -1)
        np.minimum.at(self._first_written, written, self._earliest[writers])
        np.maximum.at(self._last_written, written, self._latest[writers])
        self._written_again = np.zeros(storages, bool)
        self._written_again[written[self.problem.repeatable[writers]]] = True

    def add_variables(self) -> None:
        """r of single intervals, d and k; a variable that can have only one value is a constant."""
        problem, ordering, rows = self.problem, self.problem.ordering, self.rows
        units, storages, last = len(problem), len(self._size), len(self.cuts)
        interval = np.arange(last + 1)[:, None]
        self.runs = np.full((last + 1, units), ZERO)
        # Row j + 1 is d_j: no unit has run before interval 0.
        self.done = np.full((last + 2, units), ZERO)
        begun, in_time = interval >= self._earliest, interval <= self._latest
        sole = begun & in_time & (self._earliest == self._latest)
        self.runs[sole] = rows.ones(self._cost[np.nonzero(sole)[1]])
        at = np.nonzero(begun & ~sole & (in_time | problem.repeatable))
        self.runs[at] = rows.variables(self._cost[at[1]])
        done = self.done[1:]
        done[interval >= self._latest] = ONE
        at = np.nonzero(begun & (interval < self._latest))
        done[at] = rows.variables(np.zeros(len(at[0])))
        self.live = np.full((last + 2, storages), ZERO)
        self.live[0, self._known & ordering.present] = ONE
        self.live[last + 1, self._known & ordering.kept] = ONE
        for j, unit in enumerate(self.cuts, 1):
            possible = self._known & (ordering.present | (self._first_written < j))
            certain = possible & self._is_held(j)
            during = self._during.taken(np.array([unit])).item
            certain[during[self._known[during] | ordering.present[during]]] = True
            room = self.capacity - int(self._extra[unit] + self._size[certain].sum())
            some = np.flatnonzero(possible & ~certain & (self._size <= room))
            self.live[j, certain] = ONE
            self.live[j, some] = rows.variables(np.zeros(len(some)))

    def _is_held(self, j: int) -> np.ndarray:
        """True for each storage that is needed after cut j, if no unit can begin it there."""
        needed = self.problem.ordering.kept | (self._needed_from >= j)
        held: np.ndarray = needed & ~self._written_again & (self._last_written < j)
        return held

    def add_ranges(self) -> None:
        """r of ranges of intervals: a unit that runs in a range runs in one of its two parts."""
        last, rows = len(self.cuts), self.rows
        lengths = [2**k for k in range(1, last.bit_length())] if last > _FEW_CUTS else []
        longer = {(i, min(i + length - 1, last)) for i in range(1, last) for length in lengths}
        longer |= {(i, last) for i in range(1, last)}
        ranges = [(j, j) for j in range(last + 1)]
        ranges += sorted(longer, key=lambda pair: (pair[1] - pair[0], pair))
        self.begins, self.ends = np.array(ranges).T
        self.ran = np.full((len(ranges), len(self.problem)), ZERO)
        self.ran[: last + 1] = self.runs
        for place, (i, j) in enumerate(ranges[last + 1 :], last + 1):
            possible = self.runs[i : j + 1] != ZERO
            # With one possible interval, r is that of the interval.
            self.ran[place] = self.runs[i : j + 1].max(axis=0)
            certain = (self._earliest >= i) & (self._latest <= j)
            some = np.flatnonzero(~certain & (possible.sum(axis=0) > 1))
            self.ran[place, certain] = ONE
            self.ran[place, some] = rows.variables(np.zeros(len(some)))
        number = {pair: place for place, pair in enumerate(ranges)}
        for whole, (i, k) in enumerate(ranges[last + 1 :], last + 1):
            j = max(j for j in range(i, k) if (i, j) in number and (j + 1, k) in number)
            v = np.flatnonzero(self.ran[whole] >= 0)
            one, other = self.ran[number[i, j], v], self.ran[number[j + 1, k], v]
            cited = (np.full(len(v), each) for each in (i, j, k))
            self._implies(self.ran[whole, v], one, [terms(other)], "either", *cited, v)

    def add_done(self) -> None:
        """d_{j-1,v} <= d_jv <= d_jp for the units p that v waits for."""
        j, v = self._grid(self._earliest, self._latest - 1)
        now = self.done[j + 1, v]
        self._implies(self.done[j, v], now, [], "stays done", j, v)
        waits = self._waits.taken(v)
        row, p = waits.owner, waits.item
        self._implies(now[row], self.done[j[row] + 1, p], [], "waits", j[row], v[row], p)

    def add_first_runs(self) -> None:
        """d_jv - d_{i-1,v} <= r_ijv; r_jjv <= d_jv; the sum of r_jjv is 1 if v runs only once."""
        movable = self._earliest < self._latest
        j, v = self._grid(self._earliest, np.where(movable, self._latest, -1))
        self._implies(self.runs[j, v], self.done[j + 1, v], [], "run done", j, v)
        once = np.flatnonzero(movable & ~self.problem.repeatable)
        runs = self.runs[:, once].T
        each = terms(runs.ravel(), -1, np.repeat(np.arange(len(once)), len(self.runs)))
        self.rows.add(len(once), -1, [each], "once", once)
        place, v = np.nonzero(movable & (self.ran != ZERO))
        i, j = self.begins[place], self.ends[place]
        both = [terms(self.ran[place, v]), terms(self.done[i, v]), terms(self.done[j + 1, v], -1)]
        self.rows.add(len(v), 0, both, "first run", i, j, v)

    def add_reads(self) -> None:
        """A storage that is read was live at the cut before, or a writer of it has run since."""
        place, pair = np.nonzero(self.ran[:, self._reads.owner] != ZERO)
        i, j = self.begins[place], self.ends[place]
        v, s = self._reads.owner[pair], self._reads.item[pair]
        source = self._written(s, place)
        self._implies(self.ran[place, v], self.live[i, s], [source], "read", i, j, v, s)

    def add_retained(self) -> None:
        """k_{j+1,s} <= k_is + sum of r_ijw."""
        place, s = np.nonzero(self._known & (self.live[self.ends + 1] != ZERO))
        i, j = self.begins[place], self.ends[place]
        source = self._written(s, place)
        self._implies(self.live[j + 1, s], self.live[i, s], [source], "retained", i, j, s)

    def add_memory_at_cuts(self) -> None:
        """sum of s_i k_ji + x_{u_j} <= H; at the end, all kept storages fit."""
        own = np.append(self._extra[list(self.cuts)], 0)
        j = np.arange(1, len(own) + 1)
        row = np.repeat(j - 1, len(self._size))
        live = terms(self.live[1:].ravel(), np.tile(-self._size, len(own)), row)
        self.rows.add(len(own), own - self.capacity, [live], "at cut", j)

    def add_rounded(self, roundings: Iterable[Rounding]) -> None:
        """The rows at cuts, rounded for whole k_js."""
        for rounding in roundings:
            j = self.cuts.index(rounding.unit) + 1
            s, room = self._fitting(j)
            absent = np.isin(s, rounding.absent)
            row = round_row(self._size[s], room, rounding.divisor, absent)
            cited = (np.array([one]) for one in (j, rounding.divisor, *s[absent].tolist()))
            live = terms(self.live[j, s], row.coefficient, np.zeros(len(s), np.int64))
            self.rows.add(1, row.at_least, [live], "rounded", *cited)

    def roundings(self, relaxed: Relaxed) -> dict[int, list[Rounding]]:
        """Rounded rows of each cut: those with a dual, and those that a relaxation misses most."""
        found: dict[int, list[Rounding]] = {unit: [] for unit in self.cuts}
        for rule, cited in self.rows.labels(np.flatnonzero(relaxed.duals > 0)):
            if rule == "rounded":
                unit = self.cuts[cited[0] - 1]
                found[unit].append(Rounding(unit, cited[1], cited[2:]))
        for j, unit in enumerate(self.cuts, 1):
            s, room = self._fitting(j)
            missed = missed_rows(self._size[s], room, relaxed.values[self.live[j, s]])
            for divisor, absent in islice(missed, _MOST_ROUNDED):
                found[unit].append(Rounding(unit, divisor, tuple(s[absent].tolist())))
        return found

    def _fitting(self, j: int) -> tuple[Ints, int]:
        """The storages that may be live at a cut, and their room beside those that surely are."""
        live = self.live[j]
        used = int(self._extra[self.cuts[j - 1]] + self._size[live == ONE].sum())
        return np.flatnonzero(live >= 0), self.capacity - used

    def add_memory_between(self) -> None:
        """g_js and G_j; a unit that runs between two cuts fits beside G_j."""
        rows, size = self.rows, self._size
        during = self._during.where(self._known[self._during.item])
        own = self._extra.copy()
        np.add.at(own, during.owner, size[during.item])
        for j in range(len(self.cuts) + 1):
            through = self._throughout(j)
            most = int(size[through != ZERO].sum())
            upper = max(0, min(most, self.capacity))
            total = rows.variables(0, upper) if most else np.array([ZERO])
            held = [terms(total), terms(through, -size, np.zeros(len(size), np.int64))]
            rows.add(1, 0, held, "held", np.array([j]))
            v = np.flatnonzero(self.runs[j] != ZERO)
            beside = during.taken(v)
            fits = [
                terms(np.repeat(total, len(v)), -1),
                terms(through[beside.item], size[beside.item], beside.owner),
                terms(self.runs[j, v], -own[v]),
            ]  # fmt: skip
            rows.add(len(v), -self.capacity, fits, "between", np.full(len(v), j), v)

    def _throughout(self, j: int) -> Ints:
        """The column of g_js for each storage s."""
        through = np.full(len(self._size), ZERO)
        live = self.live[j + 1]
        storage, written = self._writers.owner, self.runs[j, self._writers.item]
        begun, may_begin = np.zeros((2, len(through)), bool)
        begun[storage[written == ONE]] = True
        may_begin[storage[written != ZERO]] = True
        there = self._known & (live != ZERO) & ~begun
        through[there & ~may_begin] = live[there & ~may_begin]
        s = np.flatnonzero(there & may_begin)
        through[s] = self.rows.variables(np.zeros(len(s)))
        at = np.full(len(s), j)
        self._implies(live[s], through[s], [self._written(s, at)], "throughout", at, s)
        return through

    def _grid(self, first: Ints, last: Ints) -> tuple[Ints, Ints]:
        """Every pair of an interval and a position k with first[k] <= interval <= last[k]."""
        interval = np.arange(len(self.cuts) + 1)[:, None]
        j, k = np.nonzero((interval >= first) & (interval <= last))
        return j, k

    def _written(self, storages: Ints, places: Ints) -> Terms:
        """Terms of the runs of each storage's writers, each in the range at a place of ``ran``."""
        writers = self._writers.taken(storages)
        return terms(self.ran[places[writers.owner], writers.item], 1, writers.owner)

    def _implies(
        self, what: Ints, then: Ints, other: Sequence[Terms], rule: str, *indices: Ints
    ) -> None:
        """Add the rows what <= then + other."""
        self.rows.add(len(what), 0, [terms(then), *other, terms(what, -1)], rule, *indices)

    def runs_again(self, values: np.ndarray) -> np.ndarray:
        """Runs of each unit beyond its first, for values of the variables."""
        # The columns of the constants 0 and 1 are the last two.
        known = np.append(values, [1.0, 0.0])
        again: np.ndarray = known[self.runs].sum(axis=0) - 1.0
        return again

    def weight_of_a_byte(self, rule: str, cited: tuple[int, ...]) -> float:
        """Bytes that a row allows for each byte more of room; of a rounded row, on the mean."""
        if rule != "rounded":
            return 1.0
        s, room = self._fitting(cited[0])
        absent = np.isin(s, cited[2:])
        return round_row(self._size[s], room, cited[1], absent).scale / cited[1]

    def extra_of(self, bound: int) -> Fraction:
        """Bound on a schedule's cost beyond every unit once, for a bound of the rows."""
        return max(0, bound) * self.cost_unit

    def cost_of(self, bound: int) -> int | float:
        """Bound on a schedule's cost, for a bound of the rows."""
        cost = self.problem.exact_base + self.extra_of(bound)
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
