"""Integer programs as rows, with bounds on their optimum that are safe from rounding errors.

    minimise  sum of c_x x   with  sum of a_rx x >= b_r  for every row r,  0 <= x <= u_x integer

All coefficients are integers. The linear relaxation is solved in floating point. Only the duals y_r
of its solution are used, made non-negative and rounded to multiples of a power of two. For *any*
such y,

    sum of b_r y_r  +  sum over x of u_x min(0, c_x - sum of a_rx y_r)

is at most the optimum (weak duality; Neumaier and Shcherbina, "Safe bounds in linear and
mixed-integer linear programming", 2004). The sum is computed in integers of any length. If it is
positive although all costs are 0, no values satisfy the rows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ortools.linear_solver import pywraplp
from ortools.sat.python import cp_model

from formulations.polled_model import PolledModel, poll

# Numbers of the two columns that are constants: 0 and 1.
ZERO, ONE = -1, -2
# Binary places kept of a dual: many, since the duals of a row of bytes are small.
_PLACES = 96
# Smaller numbers of places, tried first for shorter proofs.
_FEW_PLACES = (8, 16, 24, 32, 40, 48, 64)
# GLOP's default, the primal simplex method on reduced rows, takes three to twenty times as long on
# rows of retained storages.
_PARAMETERS = "use_preprocessing: false use_dual_simplex: true"
# Seconds of a relaxation per iteration and coefficient: the clock of deterministic runs.
_SECONDS_PER_ITERATION = 1e-9
# Seconds to hand a coefficient to the solver, and to check it in the proof.
_SECONDS_PER_TERM = 4e-6


class Relaxed(NamedTuple):
    """The result of a linear relaxation: a bound, or a proof that there is no solution.

    Attributes
    ----------
    bound
        Lower bound on the cost of every solution; ``None`` if none was proved.
    infeasible
        True if it is proved that there is no solution.
    seconds
        Estimated work, the same in every repetition of the run.
    duals
        Dual of every row, in floating point, from which the bound was proved.
    values
        Value of every variable in the relaxation's solution.
    """

    bound: int | None
    infeasible: bool
    seconds: float
    duals: Sequence[float] = ()
    values: Sequence[float] = ()


@dataclass(eq=False)
class IntegerRows:
    """An integer program under construction: variables and rows.

    Attributes
    ----------
    upper, cost
        Upper limit and cost of every variable.
    rows
        For every row its columns, their coefficients and the lower limit of the sum.
    labels
        For every row, the rule and indices with which it was added.
    impossible
        True if a row was added that no values satisfy.
    constant
        Cost of the columns that are always 1.

    Examples
    --------
    Two of three items of 4 fit into 9; dropping one costs 1, 2 or 3:

    >>> rows = IntegerRows()
    >>> dropped = [rows.variable(cost) for cost in (1, 2, 3)]
    >>> rows.add([(4, column) for column in dropped], 12 - 9)
    >>> rows.relaxed(60.0)[:2]
    (1, False)
    >>> rows.add([(-1, column) for column in dropped], 0)
    >>> rows.relaxed(60.0)[:2]
    (None, True)
    """

    upper: list[int] = field(default_factory=list)
    cost: list[int] = field(default_factory=list)
    rows: list[tuple[list[int], list[int], int]] = field(default_factory=list)
    labels: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)
    impossible: bool = False
    constant: int = 0

    def variable(self, cost: int = 0, upper: int = 1) -> int:
        """Add a variable and return its column."""
        self.upper.append(upper)
        self.cost.append(cost)
        return len(self.cost) - 1

    def one(self, cost: int) -> int:
        """Add a cost that is always paid and return the column that is always 1."""
        self.constant += cost
        return ONE

    def add(
        self, terms: Iterable[tuple[int, int]], at_least: int, rule: str = "", *indices: int
    ) -> None:
        """Add a row of coefficients and columns, unless all values satisfy it.

        ``rule`` and ``indices`` are the row's label.
        """
        poll()
        sums: dict[int, int] = {}
        for coefficient, column in terms:
            if column == ONE:
                at_least -= coefficient
            elif column != ZERO:
                sums[column] = sums.get(column, 0) + coefficient
        least = sum(a * self.upper[x] for x, a in sums.items() if a < 0)
        most = sum(a * self.upper[x] for x, a in sums.items() if a > 0)
        if least >= at_least:
            return
        self.impossible |= most < at_least
        kept = {x: a for x, a in sums.items() if a}
        self.rows.append((list(kept), list(kept.values()), at_least))
        self.labels.append((rule, indices))

    def relaxed(self, seconds: float, *, deterministic: bool = False) -> Relaxed:
        """Solve the linear relaxation within a time limit and return what it proves."""
        if self.impossible:
            return Relaxed(None, True, 0.0, [float(self._missed(row)) for row in self.rows])
        began = time.monotonic()
        duals, values, status, work = self._solve(self.cost, seconds, deterministic)
        if duals is not None:
            value = self._certified(duals, self.cost)
            return Relaxed(self.constant + value, False, work, duals, values)
        if status not in (pywraplp.Solver.INFEASIBLE, pywraplp.Solver.ABNORMAL):
            return Relaxed(None, False, work)
        # Minimise the largest violation of a row: the duals of this program prove infeasibility.
        spent = work if deterministic else time.monotonic() - began
        duals, _, _, more = self._solve(None, max(0.0, seconds - spent), deterministic)
        if duals is None or self._certified(duals, self._nothing) <= 0:
            return Relaxed(None, False, work + more)
        return Relaxed(None, True, work + more, duals)

    def multipliers(self, relaxed: Relaxed) -> tuple[int, dict[int, int]]:
        """Integers that prove a relaxation's result again: binary places, and multipliers by row.

        The multipliers are duals in units of ``2**-places``, with the fewest places that suffice.

        Examples
        --------
        >>> rows = IntegerRows()
        >>> rows.add([(4, rows.variable(3)), (4, rows.variable(2))], 5)
        >>> rows.multipliers(rows.relaxed(60.0))
        (8, {0: 192})
        """
        cost = self._nothing if relaxed.infeasible else self.cost
        wanted = 1 if relaxed.bound is None else relaxed.bound - self.constant
        places = next(
            (few for few in _FEW_PLACES if self._certified(relaxed.duals, cost, few) >= wanted),
            _PLACES,
        )
        return places, dict(_rounded(relaxed.duals, places))

    @property
    def terms(self) -> int:
        """Number of coefficients of all rows."""
        return sum(len(row) for row, _, _ in self.rows)

    @property
    def _nothing(self) -> list[int]:
        return [0] * len(self.cost)

    def _missed(self, row: tuple[list[int], list[int], int]) -> bool:
        """True if no values satisfy a row."""
        columns, coefficients, at_least = row
        pairs = zip(columns, coefficients, strict=True)
        return sum(a * self.upper[x] for x, a in pairs if a > 0) < at_least

    def _solve(
        self, cost: list[int] | None, seconds: float, deterministic: bool
    ) -> tuple[list[float] | None, list[float], int, float]:
        """Duals and values of the relaxation, the solver's status and the work done, in seconds.

        Without costs, the largest violation of a row is minimised.
        """
        solver = pywraplp.Solver.CreateSolver("GLOP")
        parameters = _PARAMETERS
        if deterministic:
            parameters += f" max_deterministic_time: {seconds}"
        solver.SetSolverSpecificParametersAsString(parameters)
        if not deterministic:
            solver.SetTimeLimit(max(1, int(1000 * seconds)))
        columns = [solver.NumVar(0.0, 1.0, "") for _ in self.cost]
        objective = solver.Objective()
        unit = float(max(cost or (), default=1) or 1)
        missing = None
        if cost is None:
            missing = solver.NumVar(0.0, solver.infinity(), "")
            objective.SetCoefficient(missing, 1.0)
        for column, amount in zip(columns, cost or (), strict=False):
            objective.SetCoefficient(column, amount / unit)
        objective.SetMinimization()
        scales, constraints, entries = [], [], 0
        for row, coefficients, at_least in self.rows:
            # Scale columns to 0 … 1 and coefficients to at most 1, so that bytes and counts are
            # alike.
            scale = max(abs(a) * self.upper[x] for x, a in zip(row, coefficients, strict=True))
            constraint = solver.Constraint(at_least / scale, solver.infinity())
            for x, a in zip(row, coefficients, strict=True):
                constraint.SetCoefficient(columns[x], a * self.upper[x] / scale)
            if missing is not None:
                constraint.SetCoefficient(missing, 1.0)
            scales.append(scale)
            constraints.append(constraint)
            entries += len(row)
        status = solver.Solve()
        work = (_SECONDS_PER_ITERATION * (solver.iterations() + 1) + _SECONDS_PER_TERM) * entries
        if status not in (pywraplp.Solver.OPTIMAL, pywraplp.Solver.FEASIBLE):
            return None, [], status, work
        found = zip(constraints, scales, strict=True)
        duals = [unit * c.dual_value() / scale for c, scale in found]
        solution = zip(columns, self.upper, strict=True)
        return duals, [column.solution_value() * u for column, u in solution], status, work

    def _certified(self, duals: Sequence[float], cost: list[int], places: int = _PLACES) -> int:
        """The bound that these duals give on the optimum, valid for any duals, rounded up."""
        factor = 1 << places
        left = [amount * factor for amount in cost]
        total = 0
        for k, weight in _rounded(duals, places):
            row, coefficients, at_least = self.rows[k]
            total += weight * at_least
            for x, a in zip(row, coefficients, strict=True):
                left[x] -= weight * a
        total += sum(u * d for u, d in zip(self.upper, left, strict=True) if d < 0)
        return -(-total // factor)

    def cp_model(self) -> cp_model.CpModel:
        """The integer program for CP-SAT; the constant is not part of its objective."""
        model = PolledModel()
        columns = [model.new_int_var(0, upper, "") for upper in self.upper]
        for row, coefficients, at_least in self.rows:
            terms = cp_model.LinearExpr.weighted_sum([columns[x] for x in row], coefficients)
            model.add(terms >= at_least)
        model.minimize(cp_model.LinearExpr.weighted_sum(columns, self.cost))
        return model


def _rounded(duals: Sequence[float], places: int) -> Iterator[tuple[int, int]]:
    """Rows with positive duals, with their duals in units of ``2**-places``."""
    factor = 1 << places
    for k, y in enumerate(duals):
        weight = int(y * factor) if 0.0 < y < math.inf else 0
        if weight:
            yield k, weight
