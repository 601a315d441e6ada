"""The order of ops with the least memory pressure, as a constraint model.

Sets
    V        ops; E, the precedences between them: see ``formulations.positions``
    S        storages; T_s, the ops that access s

Parameters (sizes in units of u bytes, their greatest common divisor)
    s_i      size of storage i
    x_v      bytes live only while v runs: workspaces and bodies
    base     bytes live throughout;  entry, bytes live during the first step only
    H        a limit on the peak, in bytes
    L        a proved lower bound on the peak, in bytes

Variables
    p_v      the step at which v runs
    b_i, e_i the steps [b_i, e_i) during which storage i is live
    peak     L <= base + u peak <= H

Constraints
    precedence, birth, death, first step         as in ``formulations.positions``
    pressure         at every step t:  sum of s_i over b_i <= t < e_i, plus x_v if p_v = t,
                     plus entry if t = 0,  <= peak

Objective
    minimise peak

The pressure is one ``Cumulative`` of intervals of variable length whose capacity is the peak, as in
MOCCASIN (Bartan et al., 2023), for the problem that OLLA (Steiner et al., 2022) states with one
binary per tensor and step. This model has no variable per step, only n positions and a length per
storage. Storages with the same lifespan in every order are one interval; a storage that a single op
v accesses is added to x_v; a storage that is live from start to end is added to the base.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from ortools.sat.python import cp_model

from formulations.polled_model import PolledModel
from formulations.positions import Positions, Solved
from formulations.proved_value import proved_value

if TYPE_CHECKING:
    from cpplan.model.order_problem import OrderProblem
    from cpplan.model.problem import Ints


def build(problem: OrderProblem, *, upper: int, lower: int = 0) -> OrderingModel:
    """The model of a problem.

    To search only a contiguous part of an order, build the model of its window
    (``cpplan.ordering.search.order_window``).

    Parameters
    ----------
    problem
        At least one op; its precedences have no cycle.
    upper, lower
        Limits on the peak, bytes.

    Examples
    --------
    >>> from cpplan.model.order_problem import OrderProblem
    >>> fork = OrderProblem(
    ...     predecessors=((), (0,), (0,)), extra=np.zeros(3, np.int64),
    ...     size=np.array([4, 8, 1]), accessed_by=((0, 1, 2), (0, 1), (2,)),
    ...     present=np.zeros(3, bool), kept=np.zeros(3, bool),
    ... )
    >>> ordering = build(fork, upper=13)
    >>> solver = cp_model.CpSolver()
    >>> solver.solve(ordering.model) == cp_model.OPTIMAL
    True
    >>> ordering.extract(solver).tolist(), ordering.proved_bound(solver)
    ([0, 1, 2], 12)
    """
    ordering = OrderingModel(problem, upper, lower)
    ordering.positions.add_positions()
    ordering.positions.add_precedence()
    ordering.positions.add_lives()
    if problem.entry:
        ordering.positions.add_first_step()
    ordering.add_peak()
    ordering.add_pressure()
    return ordering


@dataclass
class OrderingModel:
    """The model under construction, and how to read its solutions."""

    problem: OrderProblem
    upper: int
    lower: int
    model: PolledModel = field(default_factory=PolledModel)
    positions: Positions = field(init=False)
    unit: int = field(init=False)
    peak: cp_model.IntVar = field(init=False)

    def __post_init__(self) -> None:
        self.positions = Positions(self.problem, self.model)
        amounts = (*self.problem.size.tolist(), *self.problem.extra.tolist(), self.problem.entry)
        self.unit = math.gcd(*amounts) or 1

    def add_peak(self) -> None:
        """L <= base + u peak <= H, minimised."""
        low = max(0, -(-(self.lower - self.problem.base) // self.unit))
        high = (self.upper - self.problem.base) // self.unit
        if high < low:
            # CP-SAT rejects an empty domain; a false clause makes the model infeasible.
            self.model.add_bool_or([])
        self.peak = self.model.new_int_var(low, max(low, high), "peak")
        self.model.minimize(self.peak)

    def add_pressure(self) -> None:
        """The bytes live at a step are at most the peak."""
        intervals, demands = [], []
        during = self.problem.extra // self.unit
        together = dict.fromkeys(self.positions.interval, 0)
        for life, size in zip(self.positions.life, self.problem.size.tolist(), strict=True):
            together[life] += size // self.unit
        for life, demand in together.items():
            if life.earliest == life.latest and len(life.earliest) == 1:
                during[life.earliest[0]] += demand
            else:
                intervals.append(self.positions.interval[life])
                demands.append(demand)
        for op in np.flatnonzero(during).tolist():
            intervals.append(self.positions.step_interval(op))
            demands.append(int(during[op]))
        if self.problem.entry:
            intervals.append(self.model.new_fixed_size_interval_var(0, 1, ""))
            demands.append(self.problem.entry // self.unit)
        self.model.add_cumulative(intervals, demands, self.peak)

    def hint(self, order: Sequence[int] | Ints) -> None:
        """Start from this order; every variable gets a value."""
        self.positions.hint(order)
        peak = self.problem.peak(order)
        self.model.add_hint(self.peak, (peak - self.problem.base) // self.unit)

    def in_bytes(self, objective: float) -> int:
        """The peak, bytes, for a value of the objective, or the bound for a bound on it."""
        return self.problem.base + proved_value(objective) * self.unit

    def proved_bound(self, solver: cp_model.CpSolver) -> int:
        """The lower bound that a run has proved on the peak within the limits, bytes."""
        return self.in_bytes(solver.best_objective_bound)

    def extract(self, solver: Solved) -> Ints:
        """The order of the solution found; its peak may be lower than the model's."""
        return self.positions.extract(solver)
