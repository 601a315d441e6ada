"""One layout for several sizes of a problem, as a constraint model.

Sets
    B        buffers
    K        sizes
    R        rectangles, as in ``formulations.packing``: the bytes that buffers need at any of the
             sizes (see ``cpplan.packing.sizes.size_set``)
    J        the sizes whose arenas are minimised, a subset of K

Parameters (addresses in units of u bytes)
    s_kb     bytes of buffer b at size k
    a_b      alignment, in units (1 if finer than the unit)
    A_k      a limit on the arena at size k, in bytes
    c, w_k, f_k   the arena a at size k in J costs c (a - f_k) / w_k

Variables
    n_b      offset of b in multiples of its alignment
    z        the largest cost of an arena in J, a non-negative integer

Constraints
    offset           o_b = a_b n_b, and o_b = f_b for a fixed buffer
    no overlap       the rectangles [lower, upper) x [o_b + begin, o_b + end) are pairwise disjoint
    equal buffers    if two buffers are equal in every respect and at every size, the earlier row
                     lies lower
    arenas           u o_b + s_kb <= A_k                         for all k, b
    cost             c (u o_b + s_kb - f_k) <= w_k z             for k in J, b

Objective
    minimise z

Overlaps are excluded as in ``formulations.packing``. So in a layout pushed down as far as possible,
buffers rest on one another, and offsets are sums of rounded rectangle heights: the unit of that
model is fine enough here too. Pushing buffers down never enlarges an arena.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from ortools.sat.python import cp_model

from formulations.packing import PackingModel, equal_buffers
from formulations.proved_value import proved_value

if TYPE_CHECKING:
    from cpplan.model.levels import ArenaLevel
    from cpplan.model.problem import Ints, Problem
    from formulations.positions import Solved


def build(
    problem: Problem,
    bytes: Ints,
    *,
    unit: int,
    limits: Ints,
    level: ArenaLevel,
    lower: int,
    upper: int,
) -> PackingSizesModel:
    """The model of a merged problem.

    Parameters
    ----------
    problem
        Buffers with the bytes that each needs at any of the sizes.
    bytes
        Bytes of the buffers at every size, shape ``(sizes, n)``.
    unit
        Bytes per address unit (``address_unit``).
    limits
        Limit on the arena at every size, bytes, shape ``(sizes,)``.
    level
        The level of the objective to minimise.
    lower, upper
        Limits on the level's value.

    Examples
    --------
    >>> from cpplan.model.problem import Problem
    >>> from cpplan.model.levels import ArenaLevel
    >>> problem = Problem(("a", "b"), lower=[0, 0], upper=[1, 1], size=[100, 50])
    >>> first = ArenaLevel("arena at 0", np.array([0]), np.array([1]), np.array([0]))
    >>> packing = build(problem, np.array([[1, 2], [100, 50]]), unit=50,
    ...                 limits=np.array([150, 150]), level=first, lower=0, upper=150)
    >>> solver = cp_model.CpSolver()
    >>> solver.solve(packing.model) == cp_model.OPTIMAL
    True
    >>> packing.extract(solver).tolist(), packing.in_bytes(solver.objective_value)
    ([50, 0], 51)
    """
    packing = PackingModel(problem, unit, int(limits.max()), 0)
    sizes = PackingSizesModel(packing, bytes, level, lower, upper)
    packing.add_offsets()
    packing.add_no_overlap()
    sizes.add_equal_buffers()
    sizes.add_arenas(limits)
    sizes.add_cost()
    return sizes


@dataclass
class PackingSizesModel:
    """The model under construction, and how to read its solutions."""

    packing: PackingModel
    bytes: Ints
    level: ArenaLevel
    lower: int
    upper: int
    cost: cp_model.IntVar | None = None

    @property
    def model(self) -> cp_model.CpModel:
        return self.packing.model

    def add_equal_buffers(self) -> None:
        """The earlier of two buffers that are equal at every size lies lower."""
        for rows in self._equal_buffers():
            for one, other in pairwise(rows):
                size = -(-int(self.packing.problem.size[one]) // self.packing.unit)
                factor = self.packing.factor[one]
                low, high = self.packing.multiple[one], self.packing.multiple[other]
                self.model.add(factor * low + size <= factor * high)

    def add_arenas(self, limits: Ints) -> None:
        """u o_b + s_kb <= A_k for all k, as one limit for each buffer: the tightest size's."""
        highest = (limits[:, None] - self.bytes).min(axis=0)
        for row, k in enumerate(self.packing.multiple):
            self.model.add(k <= int(highest[row]) // self._step(row))

    def add_cost(self) -> None:
        """c (u o_b + s_kb - f_k) <= w_k z, with z minimised."""
        grain = self.grain
        self.cost = self.model.new_int_var(-(-self.lower // grain), self.upper // grain, "z")
        columns = (
            column.tolist() for column in (self.level.sizes, self.level.base, self.level.free)
        )
        for size, base, free in zip(*columns, strict=True):
            for row, k in enumerate(self.packing.multiple):
                step, rest = self.level.scale * self._step(row), int(self.bytes[size, row]) - free
                # Divide by the common factor: the coefficients of a row must fit into 64 bits.
                common = math.gcd(step, self.level.scale * rest, base * grain)
                constant = self.level.scale * rest // common
                self.model.add(step // common * k + constant <= base * grain // common * self.cost)
        self.model.minimize(self.cost)

    @property
    def grain(self) -> int:
        """Bytes per unit of z: the largest number that divides all values compared with z."""
        if self.level.scale > 1 or (self.level.base > 1).any():
            return 1
        terms = self.bytes[self.level.sizes], self.level.free, np.array([self.packing.unit])
        return math.gcd(*np.concatenate([term.ravel() for term in terms]).tolist())

    def hint(self, offsets: Ints) -> None:
        """Start from these offsets (bytes, shape ``(n,)``); every variable gets a value."""
        hinted = offsets.copy()
        for rows in self._equal_buffers():
            hinted[rows] = np.sort(offsets[rows])
        for row, k in enumerate(self.packing.multiple):
            self.model.add_hint(k, int(hinted[row]) // self._step(row))
        assert self.cost is not None
        value = self.level.value((hinted + self.bytes).max(axis=1, initial=0))
        self.model.add_hint(self.cost, max(value, self.lower) // self.grain)

    def in_bytes(self, objective: float) -> int:
        """The level's value for a value of z, or the bound for a bound on z."""
        return proved_value(objective) * self.grain

    def extract(self, solver: Solved) -> Ints:
        """Offsets in bytes, shape ``(n,)``, of the solution found."""
        multiples = np.array([solver.value(k) for k in self.packing.multiple], np.int64)
        return multiples * np.array(self.packing.factor, np.int64) * self.packing.unit

    def _step(self, row: int) -> int:
        return self.packing.factor[row] * self.packing.unit

    def _equal_buffers(self) -> list[list[int]]:
        groups: dict[tuple[int, ...], list[int]] = {}
        for number, rows in enumerate(equal_buffers(self.packing.problem)):
            for row in rows:
                groups.setdefault((number, *self.bytes[:, row].tolist()), []).append(row)
        return [rows for rows in groups.values() if len(rows) > 1]
