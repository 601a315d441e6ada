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
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from ortools.glop import parameters_pb2 as glop
from ortools.sat.python import cp_model

from formulations.linear_program import Floats, Ints, LinearProgram, LinearSolution, solve
from formulations.polled_model import PolledModel, poll

# Numbers of the two columns that are constants: 0 and 1.
ZERO, ONE = -1, -2
# GLOP's default, the primal simplex method on reduced rows, takes three to twenty times as long on
# rows of retained storages.
_SETTINGS = glop.GlopParameters(use_preprocessing=False, use_dual_simplex=True)
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
        for derived in ("table", "_scaled"):
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
        solution, work = self._solve(self.cost, seconds, deterministic)
        if not solution.perhaps_infeasible:
            if solution.duals is None:
                return Relaxed(None, False, work)
            bound = self.constant + self._certified(solution.duals, self.cost)
            return Relaxed(bound, False, work, solution.duals, solution.values * self.upper)
        # Minimise the largest violation of a row: the duals of this program prove infeasibility.
        spent = work if deterministic else time.monotonic() - began
        solution, more = self._solve(None, max(0.0, seconds - spent), deterministic)
        duals = solution.duals
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
    def _scaled(self) -> tuple[Floats, LinearProgram]:
        """The divisor of each row, and all rows with columns from 0 to 1, but for their costs.

        Rows of bytes and of counts become alike.
        """
        table, columns = self.table, len(self.cost)
        row, reached = table.row, table.coefficient * self.upper[table.column]
        scale = np.zeros(len(table.at_least))
        np.maximum.at(scale, row, np.abs(reached))
        return scale, LinearProgram(
            np.zeros(columns), np.zeros(columns), np.ones(columns),
            row, table.column, reached / scale[row],
            table.at_least / scale, np.full(len(scale), math.inf),
        )  # fmt: skip

    def _solve(
        self, cost: Ints | None, seconds: float, deterministic: bool
    ) -> tuple[LinearSolution, float]:
        """The solution of the relaxation, its duals in units of the costs, and the work done.

        Without costs, the largest violation of a row is minimised.
        """
        scale, program = self._scaled
        unit = 1.0 if cost is None else float(cost.max(initial=0) or 1)
        program = _with_violation(program) if cost is None else program._replace(cost=cost / unit)
        found = solve(program, seconds, deterministic=deterministic, settings=_SETTINGS)
        duals = None if found.duals is None else unit * found.duals / scale
        found = found._replace(duals=duals, values=found.values[: len(self.cost)])
        per_term = _SECONDS_PER_ITERATION * (found.iterations + 1) + _SECONDS_PER_TERM
        return found, per_term * self.terms

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


def _with_violation(program: LinearProgram) -> LinearProgram:
    """The program with one more column, by which every row may be missed and which alone costs."""
    rows, columns = len(program.least), len(program.cost)
    row = np.append(program.row, np.arange(rows))
    order = np.argsort(row, kind="stable")
    return program._replace(
        cost=np.append(np.zeros(columns), 1.0),
        lower=np.zeros(columns + 1),
        upper=np.append(program.upper, math.inf),
        row=row[order],
        column=np.append(program.column, np.full(rows, columns))[order],
        coefficient=np.append(program.coefficient, np.ones(rows))[order],
    )


def _rounded(duals: Floats, places: int) -> Iterator[tuple[int, int]]:
    """Rows with positive duals, with their duals in units of ``2**-places``."""
    factor = 1 << places
    for k in np.flatnonzero((duals > 0) & np.isfinite(duals)).tolist():
        weight = int(float(duals[k]) * factor)
        if weight:
            yield k, weight
