"""Offset packing (dynamic storage allocation) as a constraint model.

Sets
    B        buffers
    R        rectangles: (b, lower, upper, begin, end), where buffer b holds bytes [begin, end) of
             its own during the steps [lower, upper)

Parameters (addresses in units of u bytes, see ``address_unit``)
    s_b      size in bytes
    a_b      alignment, in units (1 if finer than the unit)
    H        a limit on the peak, in bytes
    L        a proved lower bound on the peak, in bytes
    f_b      the offset of a fixed buffer, in units

Variables
    k_b      offset of b in multiples of its alignment, 0 <= k_b <= (H - s_b) / (u a_b)
    peak     L <= peak <= H; only if the peak is minimised

Constraints
    offset           o_b = a_b k_b, and o_b = f_b for a fixed buffer
    no overlap       the rectangles [lower, upper) x [o_b + begin, o_b + end) are pairwise disjoint
    equal buffers    if two buffers are equal in every respect, the earlier row lies lower
    peak             u o_b + s_b <= peak

Objective
    any solution (does it fit into H?), or minimise peak

Without an objective, each k_b's upper bound alone keeps the peak below H.

The model is the offset part of OLLA (Steiner et al., 2022) with ``NoOverlap2D`` in place of
pairwise disjunctions. A decision strategy, "place next the buffer that can lie lowest, as low as it
can", with ties in a given preorder, makes CP-SAT search in MiniMalloc's canonical order (Moffitt,
ASPLOS 2023), with learning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from ortools.sat.python import cp_model

from formulations.polled_model import PolledModel
from formulations.proved_value import proved_value

if TYPE_CHECKING:
    from cpplan.model.problem import Ints, Problem


def build(
    problem: Problem,
    *,
    unit: int,
    upper: int,
    lower: int = 0,
    minimise: bool = False,
    preorder: Ints | None = None,
) -> PackingModel:
    """The model of a problem.

    Parameters
    ----------
    problem
        Buffers; steps may be sections (see ``cpplan.packing.reduction``).
    unit
        Bytes per address unit; divides or is a multiple of every alignment (``address_unit``).
    upper, lower
        Limits on the peak, bytes.
    minimise
        True to minimise the peak; else any layout that fits into ``upper`` is a solution.
    preorder
        Rows in the order in which a fixed search breaks ties.

    Examples
    --------
    >>> from cpplan.model.problem import Problem
    >>> problem = Problem(("a", "b", "c"), lower=[0, 1, 2], upper=[2, 3, 4], size=[4, 8, 4])
    >>> packing = build(problem, unit=4, upper=12)
    >>> solver = cp_model.CpSolver()
    >>> solver.solve(packing.model) == cp_model.OPTIMAL
    True
    >>> offsets = packing.extract(solver)
    >>> int((offsets + problem.size).max())
    12
    """
    packing = PackingModel(problem, unit, upper, lower)
    packing.add_offsets()
    packing.add_no_overlap()
    packing.add_equal_buffers()
    if minimise:
        packing.add_peak()
    if preorder is not None:
        packing.add_decision_strategy(preorder)
    return packing


@dataclass
class PackingModel:
    """The model under construction, and how to read its solutions."""

    problem: Problem
    unit: int
    upper: int
    lower: int
    model: PolledModel = field(default_factory=PolledModel)
    multiple: list[cp_model.IntVar] = field(default_factory=list)
    factor: list[int] = field(default_factory=list)
    peak: cp_model.IntVar | None = None

    def add_offsets(self) -> None:
        """o_b = a_b k_b; a fixed buffer's is a constant."""
        for row in range(len(self.problem)):
            factor = max(1, int(self.problem.alignment[row]) // self.unit)
            step = factor * self.unit
            last = (self.upper - int(self.problem.size[row])) // step
            if row in self.problem.fixed:
                k = self.problem.fixed[row] // step
                # CP-SAT rejects an empty domain; a false clause makes the model infeasible.
                if k > last:
                    self.model.add_bool_or([])
                last, first = k, k
            else:
                first = 0
                if last < 0:
                    self.model.add_bool_or([])
                    last = 0
            self.multiple.append(self.model.new_int_var(first, last, f"k_{row}"))
            self.factor.append(factor)

    def add_no_overlap(self) -> None:
        """Rectangles in steps × addresses are pairwise disjoint."""
        spans = self.problem.spans
        times, addresses = [], []
        for row, lower, upper, begin, end in zip(*(c.tolist() for c in spans), strict=True):
            # The next buffer above starts on the grid, so rounding the end up to the grid loses no
            # layout.
            first, last = begin // self.unit, -(-end // self.unit)
            times.append(self.model.new_fixed_size_interval_var(lower, upper - lower, ""))
            addresses.append(
                self.model.new_fixed_size_interval_var(
                    self.factor[row] * self.multiple[row] + first, last - first, ""
                )
            )
        self.model.add_no_overlap_2d(times, addresses)

    def add_equal_buffers(self) -> None:
        """The earlier of two equal buffers lies lower: swapping them changes nothing."""
        for rows in equal_buffers(self.problem):
            for one, other in pairwise(rows):
                size = -(-int(self.problem.size[one]) // self.unit)
                factor = self.factor[one]
                self.model.add(factor * self.multiple[one] + size <= factor * self.multiple[other])

    @property
    def grain(self) -> int:
        """Bytes per unit of the peak: the address unit if that divides all sizes, else 1."""
        return 1 if (self.problem.size % self.unit).any() else self.unit

    def add_peak(self) -> None:
        """u o_b + s_b <= peak, minimised."""
        grain = self.grain
        self.peak = self.model.new_int_var(-(-self.lower // grain), self.upper // grain, "peak")
        for row, k in enumerate(self.multiple):
            step = self.factor[row] * self.unit // grain
            self.model.add(step * k + int(self.problem.size[row]) // grain <= self.peak)
        self.model.minimize(self.peak)

    def add_decision_strategy(self, preorder: Ints) -> None:
        """Place next the buffer that can lie lowest, as low as it can; ties go by preorder."""
        strategy = self.model.proto.search_strategy.add()
        strategy.variable_selection_strategy = cp_model.CHOOSE_LOWEST_MIN
        strategy.domain_reduction_strategy = cp_model.SELECT_MIN_VALUE
        for row in preorder.tolist():
            # Offsets, not multiples: alignments differ, and the lowest address comes first.
            offset = strategy.exprs.add()
            offset.vars.append(self.multiple[row].index)
            offset.coeffs.append(self.factor[row])

    def hint(self, offsets: Ints) -> None:
        """Start from these offsets (bytes, shape ``(n,)``); every variable gets a value."""
        hinted = offsets.copy()
        for rows in equal_buffers(self.problem):
            hinted[rows] = np.sort(offsets[rows])
        for row, k in enumerate(self.multiple):
            self.model.add_hint(k, int(hinted[row]) // (self.factor[row] * self.unit))
        if self.peak is not None:
            peak = int((hinted + self.problem.size).max(initial=0))
            self.model.add_hint(self.peak, peak // self.grain)

    def proved_bound(self, solver: cp_model.CpSolver) -> int:
        """The lower bound on the peak that a minimising run has proved, bytes."""
        return proved_value(solver.best_objective_bound) * self.grain

    def extract(self, solver: cp_model.CpSolver) -> Ints:
        """Offsets in bytes, shape ``(n,)``, of the solution found."""
        multiples = np.array([solver.value(k) for k in self.multiple], np.int64)
        return multiples * np.array(self.factor, np.int64) * self.unit


def equal_buffers(problem: Problem) -> list[list[int]]:
    """Groups of rows equal in lifespan, size and alignment, without gaps or fixed offsets.

    The buffers of a group are live together, so fixing their order by offset loses no peak.
    """
    groups: dict[tuple[int, ...], list[int]] = {}
    columns: Sequence[Ints] = (problem.lower, problem.upper, problem.size, problem.alignment)
    for row, key in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        if row not in problem.fixed and row not in problem.gaps:
            groups.setdefault(key, []).append(row)
    return [rows for rows in groups.values() if len(rows) > 1]
