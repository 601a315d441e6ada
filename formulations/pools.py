"""Packing into several pools as a constraint model.

Sets
    B        buffers
    P        pools; C_b, the pools that b may go to
    R        rectangles: (b, lower, upper, begin, end), where buffer b holds bytes [begin, end) of
             its own during the steps [lower, upper)
    T        steps whose set of live rectangles is not a subset of another step's set

Parameters (addresses in pool p in units of u_p bytes, see ``address_unit``)
    s_b      size in bytes
    a_bp     alignment of b in p: least common multiple of both, in units (1 if finer)
    H_p      a limit on the peak of p, in bytes: its capacity, the value of a former level, or the
             bytes that all buffers of p need one above another
    f_b      the offset of a fixed buffer, which has one candidate
    w_p, g_p the cost of a byte of p's peak, and the number of its bytes without cost
    Q        buffers whose ends make the peaks of a level, if not all of them
    c_bp     the cost of accessing b in p
    v_j      the best values of former levels j

Variables
    x_bp     b lies in p, a pool of C_b
    k_bp     offset of b in p in multiples of a_bp, 0 <= k_bp <= (H_p − s_b) / (u_p a_bp)
    peak_p   0 <= peak_p <= H_p; counted in units if all sizes in p are whole units
    top_p    the peak of the buffers of Q in p, only if Q has not all buffers
    e_p      bytes beyond g_p, only if g_p > 0

Constraints
    one pool         sum over p in C_b of x_bp = 1
    absent           x_bp = 0:  k_bp = 0;  x_bp = 0 and k_bp = 0 if b does not fit below H_p
    no overlap       in every p, the rectangles [lower, upper) x a_bp k_bp + [begin, end) of the b
                     with x_bp = 1 are pairwise disjoint
    peak             if x_bp = 1:  u_p a_bp k_bp + s_b <= peak_p
    top              if x_bp = 1 for a b in Q:  u_p a_bp k_bp + s_b <= top_p
    live bytes       in every p and at every t in T:  sum over R live at t of x_bp (end − begin)
                     <= peak_p; and in units, rounded up
    beyond           peak_p − g_p <= e_p
    former levels    value of level j <= v_j

Objective
    minimise  sum over p of w_p e_p (or w_p peak_p, or w_p top_p)  +  sum over b, p of c_bp x_bp

Several levels are minimised one after another, one model a level (``cpplan.packing.pools``). Peaks,
totals, bytes in less preferred pools (c_bp = s_b × rank of p in C_b) and costs all have this form.
Without offsets and rectangles (``liquid``) the model is the live-bytes relaxation: a pool only has
to hold the bytes live at each step. Its bound holds for all layouts, and its assignment splits the
problem into one packing problem a pool.

USMP (Arm, TVM RFC 0009) fixes the pool of a buffer greedily. The presence literal is on the address
interval only: if it were on both intervals, presolve would no longer split the rectangles by step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from ortools.sat.python import cp_model

from formulations.polled_model import PolledModel
from formulations.proved_value import proved_value

if TYPE_CHECKING:
    from cpplan.model.levels import Level
    from cpplan.model.problem import Ints, Problem
    from formulations.positions import Solved


class Placement(NamedTuple):
    """Position in ``problem.pools`` and byte offset of every buffer, shape ``(n,)``.

    ``peaks``, shape ``(pools,)``, has the peaks of an assignment without offsets.
    """

    pool: Ints
    offset: Ints
    peaks: Ints | None = None


class Former(NamedTuple):
    """A level that may not exceed ``value``."""

    level: Level
    value: int


def build(
    problem: Problem,
    level: Level,
    *,
    units: Sequence[int],
    limits: Sequence[int | None],
    former: Sequence[Former] = (),
    lower: int = 0,
    liquid: bool = False,
) -> PoolsModel:
    """The model of one level of a problem.

    Parameters
    ----------
    problem
        Buffers; steps may be sections (see ``cpplan.packing.reduction``).
    level
        The level of the objective to minimise.
    units
        Bytes per address unit of each pool: divides or is a multiple of every alignment in it.
    limits
        Limit on each pool's peak, bytes; ``None`` stands for the bytes that all of its buffers need
        one above another.
    former
        Levels that may not get worse.
    lower
        A proved bound on the level.
    liquid
        True to leave out offsets and rectangles.

    Examples
    --------
    >>> from cpplan.packing.pools.objective import objective_levels
    >>> from cpplan.model.pool import Pool
    >>> from cpplan.model.problem import Problem
    >>> pools = Pool("fast", capacity=8), Pool("slow")
    >>> problem = Problem(("a", "b", "c"), [0, 0, 1], [2, 1, 2], [4, 8, 4], pools=pools)
    >>> slow, misplaced, fast = objective_levels(problem, "preference")
    >>> model = build(problem, slow, units=[4, 4], limits=[8, None])
    >>> solver = cp_model.CpSolver()
    >>> solver.solve(model.model) == cp_model.OPTIMAL
    True
    >>> model.in_bytes(solver.objective_value), model.extract(solver).pool.tolist()
    (4, [1, 0, 0])
    """
    model = PoolsModel(problem, level, tuple(units), tuple(limits), liquid)
    model.add_presence()
    model.add_peaks()
    if not liquid:
        model.add_offsets()
        model.add_no_overlap()
    model.add_live_bytes()
    for each in former:
        model.add_former(each)
    model.add_objective(lower)
    return model


def _grain(problem: Problem, rows: Sequence[int], unit: int) -> int:
    """The address unit if it divides these rows' sizes, and so also their peak; else 1 byte."""
    return 1 if (problem.size[list(rows)] % unit).any() else unit


@dataclass(eq=False)
class PoolsModel:
    """The model under construction, and how to read its solutions."""

    problem: Problem
    level: Level
    units: tuple[int, ...]
    limits: tuple[int | None, ...]
    liquid: bool
    model: PolledModel = field(default_factory=PolledModel)
    present: dict[tuple[int, int], cp_model.IntVar] = field(default_factory=dict)
    multiple: dict[tuple[int, int], cp_model.IntVar] = field(default_factory=dict)
    peak: list[cp_model.IntVar] = field(default_factory=list)
    beyond: dict[tuple[int, int], cp_model.IntVar] = field(default_factory=dict)
    top: dict[tuple[int, tuple[int, ...]], cp_model.IntVar] = field(default_factory=dict)
    limit: list[int] = field(default_factory=list)
    grain: list[int] = field(default_factory=list)

    def add_presence(self) -> None:
        """Every buffer lies in one of its candidate pools."""
        for row in range(len(self.problem)):
            literals = []
            for pool in self.problem.candidates_of(row):
                literals.append(self.model.new_bool_var(f"x_{row}_{pool}"))
                self.present[row, pool] = literals[-1]
            self.model.add_exactly_one(literals)

    def add_peaks(self) -> None:
        """One peak a pool, up to its limit."""
        for pool, unit in enumerate(self.units):
            rows = [row for row, number in self.present if number == pool]
            self.grain.append(_grain(self.problem, rows, unit))
            self.limit.append(self._highest(pool, rows))
            most = self.limit[-1] // self.grain[-1]
            self.peak.append(self.model.new_int_var(0, most, f"peak_{pool}"))

    def add_offsets(self) -> None:
        """An offset per buffer and candidate pool; a pool's peak is above the buffers in it."""
        for (row, pool), x in self.present.items():
            size, step = int(self.problem.size[row]), self._step(row, pool)
            last = (self.limit[pool] - size) // step
            first = self.problem.fixed.get(row, 0) // step
            if last < first:
                self.model.add(x == 0)
                first = last = 0
            k = self.model.new_int_var(0 if len(self._pools(row)) > 1 else first, last, "")
            if row in self.problem.fixed:
                self.model.add(k == first)
            elif len(self._pools(row)) > 1:
                self.model.add(k == 0).only_enforce_if(~x)
            self.multiple[row, pool] = k
            self.model.add(self._end(row, pool) <= self.peak[pool]).only_enforce_if(x)

    def add_no_overlap(self) -> None:
        """In every pool, rectangles in steps × addresses are pairwise disjoint."""
        spans = self.problem.spans
        times: list[list[cp_model.IntervalVar]] = [[] for _ in self.peak]
        addresses: list[list[cp_model.IntervalVar]] = [[] for _ in self.peak]
        for row, lower, upper, begin, end in zip(*(c.tolist() for c in spans), strict=True):
            if begin == end:
                continue
            time = self.model.new_fixed_size_interval_var(lower, upper - lower, "")
            for pool in self._pools(row):
                unit = self.units[pool]
                # The next buffer above starts on the grid, so rounding the end up loses no layout.
                first, last = begin // unit, -(-end // unit)
                start = self._step(row, pool) // unit * self.multiple[row, pool] + first
                x = self.present[row, pool]
                times[pool].append(time)
                addresses[pool].append(
                    self.model.new_optional_fixed_size_interval_var(start, last - first, x, "")
                )
        for one, other in zip(times, addresses, strict=True):
            self.model.add_no_overlap_2d(one, other)

    def add_live_bytes(self) -> None:
        """The bytes live in a pool at a step are at most its peak.

        In the relaxation, each buffer's size is also at most the peak, since a buffer may hold no
        byte at any step.
        """
        for (row, pool), x in self.present.items():
            size = int(self.problem.size[row]) + self.problem.fixed.get(row, 0)
            if self.liquid and size:
                self.model.add(self.peak[pool] >= size // self.grain[pool] * x)
        spans = self.problem.spans
        for step in _full_steps(self.problem):
            live = (spans.lower <= step) & (step < spans.upper) & (spans.end > spans.begin)
            rows, begin, end = (c[live].tolist() for c in (spans.buffer, spans.begin, spans.end))
            for pool, peak in enumerate(self.peak):
                here = [
                    (self.present[row, pool], low, high)
                    for row, low, high in zip(rows, begin, end, strict=True)
                    if (row, pool) in self.present
                ]
                unit, grain = self.units[pool], self.grain[pool]
                self.model.add(sum((high - low) // grain * x for x, low, high in here) <= peak)
                if grain < unit:
                    # With its size rounded up to the unit, the topmost buffer may end above the
                    # peak.
                    whole = [
                        -(-(high - low) // unit) * x for x, low, high in here if low % unit == 0
                    ]
                    self.model.add(unit * sum(whole) <= peak + unit - 1)

    def add_former(self, former: Former) -> None:
        """The value of a former level is at most the best found."""
        self.model.add(self._cost(former.level) <= former.value)

    def add_objective(self, lower: int) -> None:
        """Minimise the level's value, which is at least the bound proved."""
        cost = self._cost(self.level)
        self.model.add(cost >= lower)
        self.model.minimize(cost)

    def hint(self, placement: Placement) -> None:
        """Start from this layout; every variable gets a value.

        A liquid model uses only the assignment, and peaks that are at least the live bytes.
        """
        peaks = placement.peaks
        if peaks is None:
            peaks = np.zeros(len(self.peak), np.int64)
            np.maximum.at(peaks, placement.pool, placement.offset + self.problem.size)
        for (row, pool), x in self.present.items():
            here = int(placement.pool[row]) == pool
            self.model.add_hint(x, here)
            if (row, pool) in self.multiple:
                at = int(placement.offset[row]) if here else 0
                self.model.add_hint(self.multiple[row, pool], at // self._step(row, pool))
        for pool, peak in enumerate(self.peak):
            self.model.add_hint(peak, int(peaks[pool]) // self.grain[pool])
        for (pool, rows), variable in self.top.items():
            inside = [row for row in rows if placement.pool[row] == pool]
            start = 0 if self.liquid else placement.offset[inside]
            highest = int((start + self.problem.size[inside]).max(initial=0))
            self.model.add_hint(variable, highest // self.grain[pool])
        for (pool, free), variable in self.beyond.items():
            self.model.add_hint(variable, max(0, int(peaks[pool]) - free))

    def extract(self, solver: Solved) -> Placement:
        """The layout found; all offsets are zero in a liquid model."""
        pool = np.zeros(len(self.problem), np.int64)
        offset = np.zeros(len(self.problem), np.int64)
        for (row, number), x in self.present.items():
            if solver.value(x):
                pool[row] = number
                if not self.liquid:
                    k = solver.value(self.multiple[row, number])
                    offset[row] = k * self._step(row, number)
        return Placement(pool, offset)

    def in_bytes(self, objective: float) -> int:
        """The level's value for a value of the objective."""
        return proved_value(objective)

    def _pools(self, row: int) -> Sequence[int]:
        return self.problem.candidates_of(row)

    def _step(self, row: int, pool: int) -> int:
        """Bytes between the offsets that a buffer may have in a pool."""
        alignment = int(np.lcm(self.problem.alignment[row], self.problem.pools[pool].alignment))
        return max(self.units[pool], alignment)

    def _highest(self, pool: int, rows: Sequence[int]) -> int:
        """The pool's limit, or an address above which no buffer needs to end."""
        limit = self.limits[pool]
        if limit is not None:
            return limit
        room = sum(int(self.problem.size[row]) + self._step(row, pool) - 1 for row in rows)
        fixed = (self.problem.fixed.get(row, 0) + int(self.problem.size[row]) for row in rows)
        return room + max(fixed, default=0)

    def _cost(self, level: Level) -> cp_model.LinearExprT:
        terms: list[cp_model.LinearExprT] = []
        for pool, (weight, free) in enumerate(zip(level.weight, level.beyond, strict=True)):
            if weight:
                peak = self.peak[pool] if level.rows is None else self._top(pool, level.rows)
                used = self._beyond(pool, free) if free else self.grain[pool] * peak
                terms.append(weight * used)
        access = level.access
        terms += [int(access[key]) * x for key, x in self.present.items() if access[key]]
        return sum(terms)

    def _end(self, row: int, pool: int) -> cp_model.LinearExprT:
        """End of a buffer in a pool, in grains; only its size in a liquid model."""
        grain, size = self.grain[pool], int(self.problem.size[row])
        if self.liquid:
            return size // grain
        return self._step(row, pool) // grain * self.multiple[row, pool] + size // grain

    def _top(self, pool: int, rows: tuple[int, ...]) -> cp_model.IntVar:
        """A variable for the peak of some buffers in a pool, in grains."""
        if (pool, rows) not in self.top:
            variable = self.model.new_int_var(0, self.limit[pool] // self.grain[pool], "")
            for row in rows:
                if (row, pool) in self.present:
                    x = self.present[row, pool]
                    self.model.add(self._end(row, pool) <= variable).only_enforce_if(x)
            self.top[pool, rows] = variable
        return self.top[pool, rows]

    def _beyond(self, pool: int, free: int) -> cp_model.IntVar:
        """A variable for the bytes of the pool's peak beyond ``free``."""
        if (pool, free) not in self.beyond:
            most = max(0, self.limit[pool] - free)
            variable = self.model.new_int_var(0, most, f"beyond_{pool}")
            self.model.add(self.grain[pool] * self.peak[pool] <= variable + free)
            self.beyond[pool, free] = variable
        return self.beyond[pool, free]


def _full_steps(problem: Problem) -> list[int]:
    """Steps whose set of live rectangles is not a subset of another step's set.

    A rectangle ends after each of them, and a rectangle has begun since the last end before.
    """
    spans = problem.spans
    starts, ends = np.unique(spans.lower), np.unique(spans.upper)
    if not len(starts):
        return []
    previous = np.concatenate([[-1], ends[:-1]])
    latest = starts[np.searchsorted(starts, ends, side="left") - 1]
    return [int(end) - 1 for end in ends[latest >= previous]]
