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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from ortools.glop import parameters_pb2 as glop
from ortools.math_opt import (
    callback_pb2,
    model_parameters_pb2,
    model_pb2,
    parameters_pb2,
    result_pb2,
)
from ortools.math_opt.core.python import solver
from ortools.sat.python import cp_model

from formulations.polled_model import PolledModel, poll

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# Numbers of the two columns that are constants: 0 and 1.
ZERO, ONE = -1, -2
# Ends of the solver that a proof of infeasibility is worth trying after.
_INFEASIBLE = (
    result_pb2.TERMINATION_REASON_INFEASIBLE,
    result_pb2.TERMINATION_REASON_NUMERICAL_ERROR,
    result_pb2.TERMINATION_REASON_OTHER_ERROR,
)
# Binary places kept of a dual: many, since the duals of a row of bytes are small.
_PLACES = 96
# Smaller numbers of places, tried first for shorter proofs.
_FEW_PLACES = (8, 16, 24, 32, 40, 48, 64)
# Seconds of a relaxation per iteration and coefficient: the clock of deterministic runs.
_SECONDS_PER_ITERATION = 1e-9
# Seconds to hand a coefficient to the solver, and to check it in the proof.
_SECONDS_PER_TERM = 1e-6


class Terms(NamedTuple):
    """Terms of rows that are added together: ``coefficient * column`` in row number ``row``."""

    row: Ints
    column: Ints
    coefficient: Ints


def terms(column: ArrayLike, coefficient: ArrayLike = 1, row: ArrayLike | None = None) -> Terms:
    """Terms from their columns; without ``row``, the k-th term is in the k-th row."""
    columns = np.atleast_1d(np.asarray(column, np.int64))
    rows = np.arange(len(columns)) if row is None else row
    return Terms(*np.broadcast_arrays(np.asarray(rows, np.int64), columns, coefficient))


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
    duals: Floats = np.zeros(0)
    values: Floats = np.zeros(0)


class Table(NamedTuple):
    """All rows: row ``r`` has the terms ``start[r]`` to ``start[r + 1]``, and ``at_least[r]``."""

    start: Ints
    column: Ints
    coefficient: Ints
    at_least: Ints

    @property
    def row(self) -> Ints:
        """The row of every term."""
        return np.repeat(np.arange(len(self.at_least)), np.diff(self.start))


_NO_ROWS = Table(np.zeros(1, np.int64), *np.zeros((3, 0), np.int64))


@dataclass(eq=False)
class IntegerRows:
    """An integer program under construction: variables and rows, which are added many at a time.

    Attributes
    ----------
    upper, cost
        Upper limit and cost of every variable.
    impossible
        True if a row was added that no values satisfy.
    constant
        Cost of the columns that are always 1.

    Examples
    --------
    Two of three items of 4 fit into 9; dropping one costs 1, 2 or 3:

    >>> rows = IntegerRows()
    >>> dropped = rows.variables([1, 2, 3])
    >>> rows.add(1, 12 - 9, [terms(dropped, 4, row=0)])
    >>> rows.relaxed(60.0)[:2]
    (1, False)
    >>> rows.add(1, 0, [terms(dropped, -1, row=0)])
    >>> rows.relaxed(60.0)[:2]
    (None, True)
    """

    upper: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    cost: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    impossible: bool = False
    constant: int = 0
    _blocks: list[Table] = field(default_factory=lambda: [_NO_ROWS], repr=False)
    _labels: list[tuple[str, Sequence[Ints]]] = field(
        default_factory=lambda: [("", ())], repr=False
    )

    def variables(self, cost: ArrayLike, upper: int = 1) -> Ints:
        """Add a variable for each cost and return their columns."""
        new = np.atleast_1d(np.asarray(cost, np.int64))
        first = len(self.cost)
        self.cost = np.concatenate([self.cost, new])
        self.upper = np.concatenate([self.upper, np.full(len(new), upper)])
        return np.arange(first, len(self.cost))

    def ones(self, cost: Ints) -> int:
        """Add costs that are always paid and return the column that is always 1."""
        self.constant += int(cost.sum())
        return ONE

    def add(
        self,
        count: int,
        at_least: ArrayLike,
        parts: Sequence[Terms],
        rule: str = "",
        *indices: Ints,
    ) -> None:
        """Add ``count`` rows, except those that all values satisfy. O(n log n) for n terms.

        Parameters
        ----------
        at_least
            The lower limit of the sum, of each row or of all.
        parts
            The terms of all rows, in any order; a column may come several times.
        rule, indices
            Labels: the name of all rows, and the indices of each.
        """
        poll()
        least = np.array(np.broadcast_to(np.asarray(at_least, np.int64), count))
        row, column, coefficient = map(np.concatenate, zip(*parts, strict=True))
        ones = column == ONE
        np.subtract.at(least, row[ones], coefficient[ones])
        kept = np.flatnonzero(column >= 0)
        row, column, coefficient = _summed(row[kept], column[kept], coefficient[kept])
        reached = coefficient * self.upper[column]
        low, high = np.zeros((2, count), np.int64)
        np.add.at(low, row, np.minimum(reached, 0))
        np.add.at(high, row, np.maximum(reached, 0))
        self.impossible |= bool((high < least).any())
        needed = np.flatnonzero(low < least)
        if not len(needed):
            return
        start = np.searchsorted(row, np.arange(count + 1))
        length = np.diff(start)
        in_needed = np.repeat(low < least, length)
        self._blocks.append(
            Table(
                np.concatenate([[0], np.cumsum(length[needed])]),
                column[in_needed],
                coefficient[in_needed],
                least[needed],
            )
        )
        self._labels.append((rule, [np.broadcast_to(k, count)[needed] for k in indices]))
        for derived in ("table", "_scale"):
            self.__dict__.pop(derived, None)

    @cached_property
    def table(self) -> Table:
        """All rows in the order in which they were added."""
        length = np.concatenate([np.diff(block.start) for block in self._blocks])
        start = np.concatenate([[0], np.cumsum(length)])
        columns = zip(*(block[1:] for block in self._blocks), strict=True)
        return Table(start, *map(np.concatenate, columns))

    def __len__(self) -> int:
        return sum(len(block.at_least) for block in self._blocks)

    @property
    def terms(self) -> int:
        """Number of coefficients of all rows."""
        return sum(len(block.column) for block in self._blocks)

    def labels(self, which: Ints) -> Iterator[tuple[str, tuple[int, ...]]]:
        """The rule and the indices with which each of these rows was added."""
        ends = np.cumsum([len(block.at_least) for block in self._blocks])
        found = np.searchsorted(ends, which, "right").tolist()
        for row, block in zip(which.tolist(), found, strict=True):
            rule, indices = self._labels[block]
            place = row - int(ends[block])
            yield rule, tuple(int(index[place]) for index in indices)

    def relaxed(self, seconds: float, *, deterministic: bool = False) -> Relaxed:
        """Solve the linear relaxation within a time limit and return what it proves."""
        if self.impossible:
            return Relaxed(None, True, 0.0, self._missed())
        began = time.monotonic()
        result, work = self._solve(self.cost, seconds, deterministic)
        duals = self._duals(result, self.cost)
        if result.termination.reason not in _INFEASIBLE:
            if duals is None:
                return Relaxed(None, False, work)
            bound = self.constant + self._certified(duals, self.cost)
            found = result.solutions[0].primal_solution.variable_values
            values = _dense(found, len(self.cost) + 1)[:-1] * self.upper
            return Relaxed(bound, False, work, duals, values)
        # Minimise the largest violation of a row: the duals of this program prove infeasibility.
        spent = work if deterministic else time.monotonic() - began
        result, more = self._solve(None, max(0.0, seconds - spent), deterministic)
        duals = self._duals(result, self._nothing)
        if duals is None or self._certified(duals, self._nothing) <= 0:
            return Relaxed(None, False, work + more)
        return Relaxed(None, True, work + more, duals)

    def multipliers(self, relaxed: Relaxed) -> tuple[int, dict[int, int]]:
        """Integers that prove a relaxation's result again: binary places, and multipliers by row.

        The multipliers are duals in units of ``2**-places``, with the fewest places that suffice.

        Examples
        --------
        >>> rows = IntegerRows()
        >>> rows.add(1, 5, [terms(rows.variables([3, 2]), 4, row=0)])
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
    def _nothing(self) -> Ints:
        return np.zeros(len(self.cost), np.int64)

    def _missed(self) -> Floats:
        """1 for each row that no values satisfy."""
        table = self.table
        most = np.zeros(len(table.at_least), np.int64)
        np.add.at(most, table.row, np.maximum(table.coefficient * self.upper[table.column], 0))
        return (most < table.at_least).astype(np.float64)

    @cached_property
    def _scale(self) -> Floats:
        """The divisor of each row: rows of bytes and of counts become alike."""
        table = self.table
        scale = np.zeros(len(table.at_least))
        np.maximum.at(scale, table.row, np.abs(table.coefficient) * self.upper[table.column])
        return scale

    def _duals(self, result: Any, cost: Ints) -> Floats | None:
        """The duals of all rows, or ``None`` if the solver has none."""
        if not result.solutions or not result.solutions[0].HasField("dual_solution"):
            return None
        duals = _dense(result.solutions[0].dual_solution.dual_values, len(self))
        unit = float(cost.max(initial=0) or 1)
        return unit * duals / self._scale

    def _solve(self, cost: Ints | None, seconds: float, deterministic: bool) -> tuple[Any, float]:
        """The solver's result, and the work done, in seconds. Columns are scaled to 0 … 1.

        Without costs, the largest violation of a row is minimised: one more column.
        """
        table, scale = self.table, self._scale
        rows, columns = len(scale), len(self.cost)
        row, column = table.row, table.column
        coefficient = table.coefficient * self.upper[column] / scale[row]
        upper, paid = np.ones(columns), np.zeros(columns)
        if cost is None:
            row, column = np.append(row, np.arange(rows)), np.append(column, np.full(rows, columns))
            coefficient = np.append(coefficient, np.ones(rows))
            order = np.argsort(row, kind="stable")
            row, column, coefficient = row[order], column[order], coefficient[order]
            upper, paid = np.append(upper, math.inf), np.append(paid, 1.0)
        else:
            paid = cost / float(cost.max(initial=0) or 1)
        model = model_pb2.ModelProto()
        model.variables.ids.extend(range(len(upper)))
        model.variables.lower_bounds.extend([0.0] * len(upper))
        model.variables.upper_bounds.extend(upper.tolist())
        model.variables.integers.extend([False] * len(upper))
        objective = model.objective.linear_coefficients
        objective.ids.extend(np.flatnonzero(paid).tolist())
        objective.values.extend(paid[paid != 0].tolist())
        model.linear_constraints.ids.extend(range(rows))
        model.linear_constraints.lower_bounds.extend((table.at_least / scale).tolist())
        model.linear_constraints.upper_bounds.extend([math.inf] * rows)
        matrix = model.linear_constraint_matrix
        matrix.row_ids.extend(row.tolist())
        matrix.column_ids.extend(column.tolist())
        matrix.coefficients.extend(coefficient.tolist())
        # GLOP's default, the primal simplex method on reduced rows, takes three to twenty times as
        # long on rows of retained storages.
        settings = glop.GlopParameters(use_preprocessing=False, use_dual_simplex=True)
        parameters = parameters_pb2.SolveParametersProto(glop=settings)
        if deterministic:
            parameters.glop.max_deterministic_time = seconds
        else:
            parameters.time_limit.FromNanoseconds(max(1, int(1e9 * seconds)))
        result = solver.solve(
            model, parameters_pb2.SOLVER_TYPE_GLOP, parameters_pb2.SolverInitializerProto(),
            parameters, model_parameters_pb2.ModelSolveParametersProto(), None,
            callback_pb2.CallbackRegistrationProto(), None, None,
        )  # fmt: skip
        iterations = result.solve_stats.simplex_iterations
        per_term = _SECONDS_PER_ITERATION * (iterations + 1) + _SECONDS_PER_TERM
        return result, per_term * self.terms

    def _certified(self, duals: Floats, cost: Ints, places: int = _PLACES) -> int:
        """The bound that these duals give on the optimum, valid for any duals, rounded up."""
        factor, table = 1 << places, self.table
        left = [amount * factor for amount in cost.tolist()]
        total = 0
        for k, weight in _rounded(duals, places):
            total += weight * int(table.at_least[k])
            here = slice(table.start[k], table.start[k + 1])
            pairs = zip(table.column[here].tolist(), table.coefficient[here].tolist(), strict=True)
            for x, a in pairs:
                left[x] -= weight * a
        total += sum(u * d for u, d in zip(self.upper.tolist(), left, strict=True) if d < 0)
        return int(-(-total // factor))

    def cp_model(self) -> cp_model.CpModel:
        """The integer program for CP-SAT; the constant is not part of its objective."""
        model, table = PolledModel(), self.table
        columns = [model.new_int_var(0, upper, "") for upper in self.upper.tolist()]
        ends, at_least = table.start[1:-1], table.at_least.tolist()
        parts = np.split(table.column, ends), np.split(table.coefficient, ends)
        for row, coefficients, least in zip(*parts, at_least, strict=False):
            chosen = [columns[x] for x in row.tolist()]
            terms = cp_model.LinearExpr.weighted_sum(chosen, coefficients.tolist())
            model.add(terms >= least)
        model.minimize(cp_model.LinearExpr.weighted_sum(columns, self.cost.tolist()))
        return model


def _summed(row: Ints, column: Ints, coefficient: Ints) -> tuple[Ints, Ints, Ints]:
    """Terms sorted by row and column, one of each, without those of coefficient 0."""
    order = np.lexsort((column, row))
    row, column, coefficient = row[order], column[order], coefficient[order]
    new = np.ones(len(row), bool)
    new[1:] = (row[1:] != row[:-1]) | (column[1:] != column[:-1])
    if not new.all():
        coefficient = np.add.reduceat(coefficient, np.flatnonzero(new))
        row, column = row[new], column[new]
    kept = coefficient != 0
    return row[kept], column[kept], coefficient[kept]


def _dense(found: Any, count: int) -> Floats:
    """A sparse vector of the solver as an array."""
    values = np.zeros(count)
    values[np.fromiter(found.ids, np.int64, len(found.ids))] = found.values
    return values


def _rounded(duals: Floats, places: int) -> Iterator[tuple[int, int]]:
    """Rows with positive duals, with their duals in units of ``2**-places``."""
    factor = 1 << places
    for k in np.flatnonzero((duals > 0) & np.isfinite(duals)).tolist():
        weight = int(float(duals[k]) * factor)
        if weight:
            yield k, weight
