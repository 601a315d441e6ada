"""Offsets of buffers that may share bytes while both are live, as a constraint model.

Sets
    B        buffers, each with one lifespan
    P        pairs of buffers i < j that are live together
    D_ij     the distances at which the two buffers of a pair may share bytes: one holds a copy of
             the other's bytes, or an op writes one in place over the other; empty for most pairs

Parameters (addresses in units of u bytes, which divides all sizes, distances and alignments that do
not divide it)
    s_i      size
    a_i      alignment, in units (1 if finer than the unit)
    H, L     a limit on the peak, and a proved lower bound, in bytes

Variables
    k_i      offset of i in multiples of its alignment; o_i = a_i k_i
    below_ij, above_ij, at_ijd          the relation between i and j; one at_ijd for each d in D_ij
    peak     L <= u peak <= H

Constraints
    pair             below_ij or above_ij or at_ijd for some d
    below, above     below_ij => o_i + s_i <= o_j;   above_ij => o_j + s_j <= o_i
    at               at_ijd => o_j - o_i = d
    peak             o_i + s_i <= peak

Objective
    minimise peak

Buffers whose D_ij are all empty need no literals among themselves: they go into one
``NoOverlap2D``, as in ``formulations.packing``. The distances of a solution tell which in-place
pairs and placements the plan uses. There is no published model for this choice; with distances it
becomes geometry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from ortools.sat.python import cp_model

from formulations.polled_model import PolledModel
from formulations.proved_value import proved_value

if TYPE_CHECKING:
    from cpplan.model.problem import Ints, Problem
    from formulations.positions import Solved


def build(
    problem: Problem,
    shifts: Mapping[tuple[int, int], Sequence[int]],
    *,
    unit: int,
    upper: int,
    lower: int = 0,
) -> SharingModel:
    """The model of a problem.

    Parameters
    ----------
    problem
        Buffers without gaps.
    shifts
        Rows ``(i, j)``, ``i < j`` -> the distances ``o_j - o_i`` at which they may share, bytes.
    unit
        Bytes per address unit: divides all sizes and distances, and divides or is a multiple of
        every alignment.
    upper, lower
        Limits on the peak, bytes.

    Examples
    --------
    >>> from cpplan.model.problem import Problem
    >>> problem = Problem(("x", "y"), lower=[0, 0], upper=[1, 1], size=[4, 8])
    >>> sharing = build(problem, {(0, 1): [-4]}, unit=4, upper=12)
    >>> solver = cp_model.CpSolver()
    >>> solver.solve(sharing.model) == cp_model.OPTIMAL
    True
    >>> sharing.extract(solver).tolist()
    [4, 0]
    """
    sharing = SharingModel(problem, shifts, unit, upper, lower)
    sharing.add_offsets()
    sharing.add_pairs()
    sharing.add_no_overlap()
    sharing.add_peak()
    return sharing


@dataclass
class SharingModel:
    """The model under construction, and how to read its solutions."""

    problem: Problem
    shifts: Mapping[tuple[int, int], Sequence[int]]
    unit: int
    upper: int
    lower: int
    model: PolledModel = field(default_factory=PolledModel)
    multiple: list[cp_model.IntVar] = field(default_factory=list)
    factor: list[int] = field(default_factory=list)
    below: dict[tuple[int, int], cp_model.IntVar] = field(default_factory=dict)
    above: dict[tuple[int, int], cp_model.IntVar] = field(default_factory=dict)
    at: dict[tuple[int, int, int], cp_model.IntVar] = field(default_factory=dict)
    peak: cp_model.IntVar = field(init=False)

    def add_offsets(self) -> None:
        """o_i = a_i k_i."""
        for row in range(len(self.problem)):
            factor = max(1, int(self.problem.alignment[row]) // self.unit)
            last = (self.upper - int(self.problem.size[row])) // (factor * self.unit)
            if last < 0:
                # CP-SAT rejects an empty domain; a false clause makes the model infeasible.
                self.model.add_bool_or([])
            self.multiple.append(self.model.new_int_var(0, max(0, last), f"k_{row}"))
            self.factor.append(factor)

    def add_pairs(self) -> None:
        """One buffer of a pair lies below or above the other, or at a distance of sharing.

        Only pairs with a buffer that may share bytes have these literals.
        """
        sharing = sorted({row for pair in self.shifts for row in pair})
        problem, size = self.problem, self._sizes()
        for one in sharing:
            together = (problem.lower < problem.upper[one]) & (problem.upper > problem.lower[one])
            for other in np.flatnonzero(together).tolist():
                pair = min(one, other), max(one, other)
                if one == other or pair in self.below or not (size[one] and size[other]):
                    continue
                i, j = pair
                first, second = self._offset(i), self._offset(j)
                self.below[pair] = below = self.model.new_bool_var(f"below_{i}_{j}")
                self.above[pair] = above = self.model.new_bool_var(f"above_{i}_{j}")
                self.model.add(first + size[i] <= second).only_enforce_if(below)
                self.model.add(second + size[j] <= first).only_enforce_if(above)
                choices = [below, above]
                for shift in self.shifts.get(pair, ()):
                    at = self.model.new_bool_var(f"at_{i}_{j}_{shift}")
                    self.model.add(second - first == shift // self.unit).only_enforce_if(at)
                    self.at[i, j, shift] = at
                    choices.append(at)
                self.model.add_bool_or(choices)

    def add_no_overlap(self) -> None:
        """Buffers that share no bytes lie apart in steps × addresses."""
        sharing = {row for pair in self.shifts for row in pair}
        times, addresses, size = [], [], self._sizes()
        for row in range(len(self.problem)):
            if row not in sharing and size[row]:
                lower, upper = int(self.problem.lower[row]), int(self.problem.upper[row])
                times.append(self.model.new_fixed_size_interval_var(lower, upper - lower, ""))
                addresses.append(
                    self.model.new_fixed_size_interval_var(self._offset(row), size[row], "")
                )
        self.model.add_no_overlap_2d(times, addresses)

    def add_peak(self) -> None:
        """o_i + s_i <= peak, minimised."""
        low, high = -(-self.lower // self.unit), self.upper // self.unit
        if high < low:
            self.model.add_bool_or([])
        self.peak = self.model.new_int_var(low, max(low, high), "peak")
        for row, size in enumerate(self._sizes()):
            self.model.add(self._offset(row) + size <= self.peak)
        self.model.minimize(self.peak)

    def hint(self, offsets: Ints) -> None:
        """Start from these offsets, bytes, shape ``(n,)``; every variable gets a value."""
        where = (offsets // self.unit).tolist()
        size = self._sizes()
        for row, k in enumerate(self.multiple):
            self.model.add_hint(k, where[row] // self.factor[row])
        for (i, j), below in self.below.items():
            self.model.add_hint(below, where[i] + size[i] <= where[j])
            self.model.add_hint(self.above[i, j], where[j] + size[j] <= where[i])
        for (i, j, shift), at in self.at.items():
            self.model.add_hint(at, where[j] - where[i] == shift // self.unit)
        peak = max((at + length for at, length in zip(where, size, strict=True)), default=0)
        self.model.add_hint(self.peak, peak)

    def in_bytes(self, objective: float) -> int:
        """The peak, bytes, for a value of the objective, or the bound for a bound on it."""
        return proved_value(objective) * self.unit

    def extract(self, solver: Solved) -> Ints:
        """Offsets in bytes, shape ``(n,)``, of the solution found."""
        multiples = np.array([solver.value(k) for k in self.multiple], np.int64)
        return multiples * np.array(self.factor, np.int64) * self.unit

    def _offset(self, row: int) -> cp_model.LinearExpr:
        return self.factor[row] * self.multiple[row]

    def _sizes(self) -> list[int]:
        return [size // self.unit for size in self.problem.size.tolist()]
