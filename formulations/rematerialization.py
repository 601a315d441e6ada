"""Rematerialization: the cheapest schedule within a memory limit, as a constraint model.

Sets
    V, c     units and their runs; a_vc, p_vc as in ``formulations.runs``
    S        storages; w_s, the unit that writes s; R_s, the units that read it
    X        the storages that no unit could write again: they are present from the start, or
             several units write them

Parameters (sizes in units of u bytes, their greatest common divisor)
    s_i      size of storage i
    x_v      bytes live only while v runs
    f_v      cost of running v, in units of g
    H        a limit on the peak

Variables
    e_ic     run c of w_i begins a retention interval [p_wc, e_ic) of storage i
    b_i, e_i the one retention interval of a storage in X
    y_wcrj   run c of w serves run j of r, which reads what w writes

Constraints
    runs             as in ``formulations.runs``
    served           sum over c of y_wcrj = a_rj;  y_wcrj implies a_wc
    in time          y_wcrj implies p_wc + 1 <= p_rj  and  p_rj + 1 <= e_ic
    kept             the retention interval of a kept storage that the last run of its unit begins
                     lasts to the end
    used             a_vc implies that run c > 0 serves a reader, unless v writes a kept storage
    one retention    b_i <= p and e_i >= p + 1 for every run that accesses i;  b_i = 0 if i is
                     present from the start;  e_i is the end if i is kept
    pressure         at every time:  sum of s_i over the retention intervals, plus x_v if v runs,
                     plus base, plus entry at the first time,  <= H

Objective
    minimise the sum of f_v a_vc over c > 0

MOCCASIN (Bartan et al., 2023), with the runs in any order, or bound to a given order of first runs.
In a schedule, a reader uses the latest run before it. The model may let an earlier run serve the
reader: the retention interval of that run then covers the interval needed. Storages that the same
unit writes and the same units read share one retention interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from ortools.sat.python import cp_model

from formulations.polled_model import PolledModel
from formulations.positions import Solved
from formulations.proved_value import proved_value
from formulations.retention import RetentionModel
from formulations.runs import Runs

if TYPE_CHECKING:
    from cpplan.model.remat_problem import RematProblem

_LARGEST_OBJECTIVE = 2**45


def build(
    problem: RematProblem,
    *,
    memory_limit: int,
    copies: int = 2,
    order: Sequence[int] | None = None,
) -> RematModel:
    """The model of a problem.

    Parameters
    ----------
    problem
        At least one unit; its precedences have no cycle.
    memory_limit
        Limit on the peak, bytes.
    copies
        Largest number of runs of a unit, at least 1.
    order
        All units in the order of their first runs, if that is fixed. Between two first runs, each
        unit may then run again once, in the same order.

    Examples
    --------
    >>> from cpplan.model.small_graphs import forward_and_back
    >>> from cpplan.remat.problem import remat_problem
    >>> chain = forward_and_back()
    >>> remat = build(remat_problem(chain), memory_limit=24)
    >>> solver = cp_model.CpSolver()
    >>> solver.solve(remat.model) == cp_model.OPTIMAL
    True
    >>> remat.extract(solver), remat.cost_of(solver.objective_value)
    ((0, 1, 2, 3, 0, 4), 6)
    """
    again = worth_repeating(problem, order is not None)
    number = [copies if again[v] else 1 for v in range(len(problem))]
    remat = RematModel(problem, memory_limit, number, order)
    remat.runs.add_first_runs()
    remat.runs.add_again()
    remat.retention.add_retentions()
    remat.retention.add_service()
    remat.retention.add_kept()
    remat.retention.add_used()
    remat.retention.add_sole_retentions()
    remat.add_cost()
    remat.add_pressure()
    return remat


def worth_repeating(problem: RematProblem, fixed: bool = False) -> list[bool]:
    """For every unit, True if running it again may improve a schedule.

    It cannot if the unit writes nothing. If its results are not kept, and only one unit waits for
    it and runs only once, then the last run before that unit's run is the only run needed. The
    first run is also needed if an order fixes its place, or if bytes are live at the first step
    only.
    """
    ordering = problem.ordering
    worth, tied = [False] * len(problem), fixed or ordering.entry > 0
    waiting = [len(after) for after in ordering.successors]
    ready = [unit for unit, count in enumerate(waiting) if not count]
    for unit in ready:
        for before in ordering.predecessors[unit]:
            waiting[before] -= 1
            if not waiting[before]:
                ready.append(before)
        after = ordering.successors[unit]
        kept = any(ordering.kept[storage] for storage in problem.writes[unit])
        several = len(after) + kept >= 2 or any(worth[other] for other in after)
        useful = bool(problem.writes[unit]) and (several or (tied and bool(after or kept)))
        worth[unit] = bool(problem.repeatable[unit]) and useful
    return worth


@dataclass
class RematModel:
    """The model under construction, and how to read its solutions."""

    problem: RematProblem
    memory_limit: int
    copies: Sequence[int]
    order: Sequence[int] | None
    model: PolledModel = field(default_factory=PolledModel)
    runs: Runs = field(init=False)
    retention: RetentionModel = field(init=False)
    unit: int = field(init=False)
    cost_unit: Fraction = field(init=False)

    def __post_init__(self) -> None:
        ordering = self.problem.ordering
        amounts = (*ordering.size.tolist(), *ordering.extra.tolist(), ordering.entry)
        self.unit = math.gcd(*amounts) or 1
        self.runs = Runs(self.problem, self.model, self.copies, self.order)
        self.retention = RetentionModel(self.problem, self.model, self.runs, self.unit)

    def add_cost(self) -> None:
        """Minimise the sum of f_v a_vc over c > 0."""
        # If sums would be too large, costs are rounded down: the bound still holds.
        times = max(map(len, self.runs.active), default=1)
        cost, self.cost_unit = self.problem.whole_costs(times, _LARGEST_OBJECTIVE)
        extra = cp_model.LinearExpr.weighted_sum(
            [a for active in self.runs.active for a in active[1:]],
            [
                c
                for c, active in zip(cost.tolist(), self.runs.active, strict=True)
                for _ in active[1:]
            ],
        )
        self.model.minimize(extra)

    def add_pressure(self) -> None:
        """The bytes live at any time are at most H."""
        model, ordering = self.model, self.problem.ordering
        high = (self.memory_limit - ordering.base) // self.unit
        if high < 0:
            # CP-SAT rejects an empty domain; a false clause makes the model infeasible.
            model.add_bool_or([])
        intervals, demands = self.retention.pressure()
        if ordering.entry:
            intervals.append(model.new_fixed_size_interval_var(0, 1, ""))
            demands.append(ordering.entry // self.unit)
        model.add_cumulative(intervals, demands, max(0, high))

    def hint(self, schedule: Sequence[int]) -> tuple[int, ...] | None:
        """Start from a schedule; every variable gets a value.

        Returns the schedule hinted: runs that serve no reader are left out, and on the staged grid
        the runs between two first runs are sorted, so that its peak may differ. If the model does
        not contain the schedule, returns ``None`` and hints nothing: a unit runs too often, first
        runs are in another order or, on the staged grid, a unit runs twice between the same first
        runs.
        """
        placed = self.runs.place(schedule)
        if placed is None:
            return None
        hinted, times = placed
        self.runs.hint(times)
        self.retention.hint(times)
        return hinted

    def in_bytes(self, objective: float) -> int:
        """The value of the objective itself, which is a cost; :meth:`cost_of` gives the whole."""
        return proved_value(objective)

    def cost_of(self, objective: float) -> int | float:
        """The cost for a value of the objective, or the bound for a bound on it."""
        cost = self.problem.exact_base + proved_value(objective) * self.cost_unit
        return int(cost) if cost.denominator == 1 else float(cost)

    def extract(self, solver: Solved) -> tuple[int, ...]:
        """The schedule of the solution found; its peak may be lower than the model's."""
        return self.runs.extract(solver)
