"""Linear programs as columns of arrays, solved by GLOP.

    minimise  sum of c_x x   with  least_r <= sum of a_rx x <= most_r  for every row r,
                                   lower_x <= x <= upper_x

The solver reads whole arrays: to hand it 100,000 coefficients takes some 50 ms, a fifth of what it
takes one by one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from ortools.glop import parameters_pb2 as glop
from ortools.math_opt import (
    callback_pb2,
    model_parameters_pb2,
    model_pb2,
    parameters_pb2,
    result_pb2,
)
from ortools.math_opt.core.python import solver

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# Ends of the solver at which a program may have no solution.
_WITHOUT_SOLUTION = (
    result_pb2.TERMINATION_REASON_INFEASIBLE,
    result_pb2.TERMINATION_REASON_NUMERICAL_ERROR,
    result_pb2.TERMINATION_REASON_OTHER_ERROR,
)


class LinearProgram(NamedTuple):
    """A linear program.

    Attributes
    ----------
    cost, lower, upper
        Cost and limits of every variable.
    row, column, coefficient
        Terms, sorted by row, at most one for each row and column.
    least, most
        Limits of every row.
    """

    cost: Floats
    lower: Floats
    upper: Floats
    row: Ints
    column: Ints
    coefficient: Floats
    least: Floats
    most: Floats


class LinearSolution(NamedTuple):
    """The result of a solver within its time.

    Attributes
    ----------
    optimal, perhaps_infeasible
        True if the program was solved; true if the solver found no solution.
    duals
        Dual of every row; ``None`` if there are none.
    values
        Value of every variable; zeros if there are none.
    iterations
        Iterations of the simplex method.
    """

    optimal: bool
    perhaps_infeasible: bool
    duals: Floats | None
    values: Floats
    iterations: int


def solve(
    program: LinearProgram,
    seconds: float,
    *,
    deterministic: bool = False,
    settings: glop.GlopParameters | None = None,
) -> LinearSolution:
    """Solve a linear program within a time limit, in seconds or, if so, in GLOP's units of work.

    Examples
    --------
    Three of the first and one of the second are at least 4; the second costs less:

    >>> one, none = np.ones(2), np.zeros(2)
    >>> terms = np.array([0, 0]), np.array([0, 1]), np.array([3.0, 1.0])
    >>> limits = np.array([4.0]), np.array([np.inf])
    >>> solve(LinearProgram(np.array([2.0, 0.5]), none, 2 * one, *terms, *limits), 60.0)[2:4]
    (array([0.66666667]), array([0.66666667, 2.        ]))
    """
    parameters = parameters_pb2.SolveParametersProto(glop=settings)
    if deterministic:
        parameters.glop.max_deterministic_time = seconds
    else:
        parameters.time_limit.FromNanoseconds(max(1, int(1e9 * min(seconds, 1e9))))
    result = solver.solve(
        _as_proto(program), parameters_pb2.SOLVER_TYPE_GLOP,
        parameters_pb2.SolverInitializerProto(), parameters,
        model_parameters_pb2.ModelSolveParametersProto(), None,
        callback_pb2.CallbackRegistrationProto(), None, None,
    )  # fmt: skip
    reason, duals = result.termination.reason, None
    values = np.zeros(len(program.cost))
    for found in result.solutions[:1]:
        values = _dense(found.primal_solution.variable_values, len(program.cost))
        if found.HasField("dual_solution"):
            duals = _dense(found.dual_solution.dual_values, len(program.least))
    return LinearSolution(
        reason == result_pb2.TERMINATION_REASON_OPTIMAL,
        reason in _WITHOUT_SOLUTION,
        duals,
        values,
        result.solve_stats.simplex_iterations,
    )


def _as_proto(program: LinearProgram) -> model_pb2.ModelProto:
    """The program in the solver's format."""
    model, columns, rows = model_pb2.ModelProto(), len(program.cost), len(program.least)
    model.variables.ids.extend(range(columns))
    model.variables.lower_bounds.extend(program.lower.tolist())
    model.variables.upper_bounds.extend(program.upper.tolist())
    model.variables.integers.extend([False] * columns)
    paid = np.flatnonzero(program.cost)
    model.objective.linear_coefficients.ids.extend(paid.tolist())
    model.objective.linear_coefficients.values.extend(program.cost[paid].tolist())
    model.linear_constraints.ids.extend(range(rows))
    model.linear_constraints.lower_bounds.extend(program.least.tolist())
    model.linear_constraints.upper_bounds.extend(program.most.tolist())
    matrix = model.linear_constraint_matrix
    matrix.row_ids.extend(program.row.tolist())
    matrix.column_ids.extend(program.column.tolist())
    matrix.coefficients.extend(program.coefficient.tolist())
    return model


def _dense(found: Any, count: int) -> Floats:
    """A sparse vector of the solver as an array."""
    values = np.zeros(count)
    values[np.fromiter(found.ids, np.int64, len(found.ids))] = found.values
    return values
