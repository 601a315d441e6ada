"""Retention and recomputation between the first runs of a fixed order, as a linear model.

Sets
    V        units, numbered in the order of their first runs: 0, …, n - 1
    t        stages 0, …, n - 1: stage t ends with the first run of unit t; n is the end
    I, T_i   storages; the units that access i; the first of them, w_i, begins i, unless i is
             present from the start
    N_v      the storages that v accesses and does not begin

Parameters (sizes as fractions of the bytes that H leaves above the base)
    s_i      size of storage i
    x_v      bytes live only while v runs;  in the first stage, with the entry's bytes
    f_v      cost of running v
    H        the limit

Variables
    R_tv     v runs in stage t, v <= t
    S_ti     i is retained from stage t - 1 to stage t, w_i < t <= n
    D_tiv    i is freed after v has run in stage t, v in T_i (FREE, in the paper)
    U_tv     bytes live at v's place in stage t, without x_v

Constraints
    frontier     R_tt = 1;  R_tv = 0 for every v < t that may run only once
    boundary     S_0i = 1 if i is present from the start;  S_ni = 1 if i is kept, else 0
    available    R_tv <= S_ti + R_t,w_i  for i in N_v
    retained     S_t+1,i <= S_ti + R_t,w_i
    hazards      (1 - R_tv) + S_t+1,i + sum of R_tu over u in T_i, u > v  <=  k (1 - D_tiv),
                 with k the number of terms
    freed once   S_t+1,i + sum over v of D_tiv <= S_ti + R_t,w_i
    memory       U_t0 = sum of s_i S_ti + sum of s_i R_t0 over the storages that 0 begins
                 U_tv = U_t,v-1 - sum of s_i D_ti,v-1 + sum of s_i R_tv over the i that v begins
    limit        U_tv + x_v R_tv <= 1

Objective
    minimise the sum of f_v R_tv

Checkmate (Jain et al., "Checkmate: Breaking the Memory Wall with Optimal Tensor
Rematerialization", MLSys 2020), with storages in place of results. "Freed once" is not in the
paper; it removes only fractional solutions. The paper also forces every storage that can be freed
to be freed; that changes no optimum and is left out.

The model covers these schedules: n stages one after another, the last unit of stage t being the
first run of the t-th unit, with any of the earlier units before it, *each at most once and in the
order of first runs*. No unit runs after the last first run. Schedules that are cheaper because of
another order, or because a unit runs twice between two first runs, are not covered.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ortools.linear_solver import pywraplp

if TYPE_CHECKING:
    from cpplan.model.remat_problem import RematProblem

# Fraction of the optimum within which solvers of linear programs stop.
_TOLERANCE = 1e-6


def build(
    problem: RematProblem,
    *,
    memory_limit: int,
    order: Sequence[int] | None = None,
    relaxed: bool = False,
) -> CheckmateModel:
    """The model of a problem, O(units × (units + accesses)) variables.

    Parameters
    ----------
    problem
        At least one unit.
    memory_limit
        Limit on the peak, bytes.
    order
        All units in the order of their first runs; in the order of their numbers if left out.
    relaxed
        True for the linear relaxation, in which R and S may be fractions, solved by GLOP; else the
        integer program, solved by SCIP.

    Examples
    --------
    >>> from cpplan.model.small_graphs import forward_and_back
    >>> from cpplan.remat.problem import remat_problem
    >>> chain = forward_and_back()
    >>> checkmate = build(remat_problem(chain), memory_limit=24)
    >>> checkmate.solver.Solve() == checkmate.solver.OPTIMAL
    True
    >>> checkmate.extract(), checkmate.bound()
    ((0, 1, 2, 3, 0, 4), 6)
    """
    units = tuple(range(len(problem)) if order is None else order)
    checkmate = CheckmateModel(problem, memory_limit, units, relaxed)
    checkmate.add_frontier()
    checkmate.add_boundary()
    checkmate.add_available()
    checkmate.add_retained()
    checkmate.add_hazards()
    checkmate.add_freed_once()
    checkmate.add_memory()
    checkmate.add_cost()
    return checkmate


def count_variables(problem: RematProblem, order: Sequence[int]) -> int:
    """Number of variables that :func:`build` would create.

    Examples
    --------
    >>> from cpplan.model.graph import Graph, Op, Tensor
    >>> from cpplan.remat.problem import remat_problem
    >>> ops = Op("f", outputs=("a",)), Op("g", inputs=("a",), outputs=("y",))
    >>> problem = remat_problem(Graph("g", (Tensor("a", 4), Tensor("y", 1)), ops))
    >>> count_variables(problem, (0, 1)), build(problem, memory_limit=5).solver.NumVariables()
    (13, 13)
    """
    place = {unit: v for v, unit in enumerate(order)}
    count = len(order) * (len(order) + 1)
    for accessing, present in zip(
        problem.ordering.accessed_by, problem.ordering.present.tolist(), strict=True
    ):
        left = [len(order) - place[unit] for unit in accessing]
        count += sum(left) + (len(order) + 1 if present else max(left))
    return count


@dataclass
class CheckmateModel:
    """The model under construction, and how to read its solutions.

    ``runs[t][v]`` is R, ``retained[i][t]`` S and ``freed[t][i][v]`` D; v counts along ``order``.
    """

    problem: RematProblem
    memory_limit: int
    order: Sequence[int]
    relaxed: bool
    solver: pywraplp.Solver = field(init=False)
    runs: list[list[Any]] = field(init=False)
    retained: list[dict[int, Any]] = field(init=False)
    freed: list[list[dict[int, Any]]] = field(init=False)
    accessed_by: list[list[int]] = field(init=False)
    begins: list[list[int]] = field(init=False)
    limits: list[Any] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        ordering, stages = self.problem.ordering, range(len(self.order))
        self.solver = pywraplp.Solver.CreateSolver("GLOP" if self.relaxed else "SCIP")
        if self.relaxed:
            # The dual simplex is eight times faster here, and continues from its basis at a lower
            # limit.
            self.solver.SetSolverSpecificParametersAsString("use_dual_simplex: true")
        place = {unit: v for v, unit in enumerate(self.order)}
        self.accessed_by = [sorted(place[u] for u in units) for units in ordering.accessed_by]
        self.begins = [[] for _ in stages]
        for i, accessing in enumerate(self.accessed_by):
            if not ordering.present[i]:
                self.begins[accessing[0]].append(i)
        self.runs = [[self._choice() for _ in range(t + 1)] for t in stages]
        self.retained = [
            {t: self._choice() for t in range(self._begun(i) + 1, len(self.order) + 1)}
            for i in range(len(ordering.size))
        ]
        self.freed = [
            [{v: self._choice() for v in accessing if v <= t} for accessing in self.accessed_by]
            for t in stages
        ]

    def add_frontier(self) -> None:
        """R_tt = 1; R_tv = 0 for every v < t that may run only once."""
        for t, runs in enumerate(self.runs):
            runs[t].SetLb(1)
            for v in range(t):
                if not self.problem.repeatable[self.order[v]]:
                    runs[v].SetUb(0)

    def add_boundary(self) -> None:
        """S_0i = 1 if i is present from the start; S_ni = 1 if it is kept, else 0."""
        ordering, end = self.problem.ordering, len(self.order)
        for i, retained in enumerate(self.retained):
            if ordering.present[i]:
                retained[0].SetLb(1)
            if ordering.kept[i]:
                retained[end].SetLb(1)
            else:
                retained[end].SetUb(0)

    def add_available(self) -> None:
        """R_tv <= S_ti + R_t,w_i for every storage i that v accesses and does not begin."""
        for i, accessing in enumerate(self.accessed_by):
            for v in accessing:
                if i in self.begins[v]:
                    continue
                for t in range(v, len(self.order)):
                    self._there(t, i).SetCoefficient(self.runs[t][v], -1)

    def add_retained(self) -> None:
        """S_t+1,i <= S_ti + R_t,w_i."""
        for i, retained in enumerate(self.retained):
            for t in range(max(0, self._begun(i)), len(self.order)):
                self._there(t, i).SetCoefficient(retained[t + 1], -1)

    def add_hazards(self) -> None:
        """A storage is not freed if a later unit of the stage reads it or the next stage has it."""
        for t, freed in enumerate(self.freed):
            for i, after in enumerate(freed):
                for v, free in after.items():
                    later = [u for u in after if u > v]
                    terms = len(later) + 2
                    row = self.solver.RowConstraint(-self.solver.infinity(), terms - 1)
                    row.SetCoefficient(free, terms)
                    row.SetCoefficient(self.runs[t][v], -1)
                    row.SetCoefficient(self.retained[i][t + 1], 1)
                    for u in later:
                        row.SetCoefficient(self.runs[t][u], 1)

    def add_freed_once(self) -> None:
        """S_t+1,i + sum over v of D_tiv <= S_ti + R_t,w_i."""
        for t, freed in enumerate(self.freed):
            for i, after in enumerate(freed):
                if not after:
                    continue
                row = self._there(t, i)
                row.SetCoefficient(self.retained[i][t + 1], -1)
                for free in after.values():
                    row.SetCoefficient(free, -1)

    def add_memory(self) -> None:
        """U_tv is the sum of storages retained and begun, less freed ones; U_tv + x_v R_tv <= 1."""
        ordering = self.problem.ordering
        scale = self._scale
        size = [amount / scale for amount in ordering.size.tolist()]
        accesses: list[list[int]] = [[] for _ in self.order]
        for i, accessing in enumerate(self.accessed_by):
            for v in accessing:
                accesses[v].append(i)
        for t, runs in enumerate(self.runs):
            before = None
            for v, run in enumerate(runs):
                live = self.solver.NumVar(0, self.solver.infinity(), "")
                row = self.solver.RowConstraint(0, 0)
                row.SetCoefficient(live, -1)
                if before is None:
                    for i, retained in enumerate(self.retained):
                        if t in retained:
                            row.SetCoefficient(retained[t], size[i])
                else:
                    row.SetCoefficient(before, 1)
                    for i in accesses[v - 1]:
                        row.SetCoefficient(self.freed[t][i][v - 1], -size[i])
                row.SetCoefficient(run, sum(size[i] for i in self.begins[v]))
                extra = int(ordering.extra[self.order[v]]) + (ordering.entry if t == 0 else 0)
                limit = self.solver.RowConstraint(-self.solver.infinity(), 1)
                limit.SetCoefficient(live, 1)
                limit.SetCoefficient(run, extra / scale)
                self.limits.append(limit)
                before = live
        self.lower_limit(self.memory_limit)

    def add_cost(self) -> None:
        """Minimise the sum of f_v R_tv."""
        objective = self.solver.Objective()
        for runs in self.runs:
            for v, run in enumerate(runs):
                objective.SetCoefficient(run, self.problem.cost[self.order[v]] / self._cost_scale)
        objective.SetMinimization()

    def lower_limit(self, memory_limit: float) -> None:
        """Set the memory limit of the next solve."""
        room = (memory_limit - self.problem.ordering.base) / self._scale
        for limit in self.limits:
            limit.SetUb(room)

    def bound(self) -> int | float:
        """The lower bound of the last solve on the cost of the schedules that the model covers.

        The value is rounded down slightly, by the solvers' tolerance. If all costs are integers, it
        is then rounded up to a multiple of their greatest common divisor.
        """
        proved = self.solver.Objective().Value()
        if not self.relaxed:
            proved = self.solver.Objective().BestBound()
        proved *= self._cost_scale * (1 - _TOLERANCE)
        least: int | float = max(proved, self.problem.total_cost(self.order))
        if any(cost != int(cost) for cost in self.problem.cost):
            return least
        divisor = math.gcd(*map(int, self.problem.cost)) or 1
        return math.ceil(Fraction(least) / divisor) * divisor

    def extract(self) -> tuple[int, ...]:
        """The schedule of the solution found; not for the relaxation."""
        return tuple(
            self.order[v]
            for runs in self.runs
            for v, run in enumerate(runs)
            if run.solution_value() > 0.5
        )

    @property
    def _scale(self) -> int:
        """Bytes that count as 1: the solvers' tolerances are absolute."""
        return max(1, self.memory_limit - self.problem.ordering.base)

    @property
    def _cost_scale(self) -> float:
        """Cost that counts as 1, the mean cost of a unit."""
        return self.problem.total_cost(self.order) / len(self.order) or 1.0

    def _choice(self) -> Any:
        return self.solver.NumVar(0, 1, "") if self.relaxed else self.solver.BoolVar("")

    def _begun(self, i: int) -> int:
        """The unit w_i, or -1 if storage i is present from the start."""
        return -1 if self.problem.ordering.present[i] else self.accessed_by[i][0]

    def _there(self, t: int, i: int) -> Any:
        """A row S_ti + R_t,w_i - … >= 0."""
        row = self.solver.RowConstraint(0, self.solver.infinity())
        begun = self._begun(i)
        if t in self.retained[i]:
            row.SetCoefficient(self.retained[i][t], 1)
        if begun >= 0:
            row.SetCoefficient(self.runs[t][begun], 1)
        return row
