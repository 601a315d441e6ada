"""Prices of room at every step, from the linear relaxation of spilling.

With a price l_t >= 0 for each byte of room at step t, every storage chooses its gaps by itself: it
pays for the room that it takes and for the bytes that it moves. The least sum of all payments, less
the price of the pool's whole room, bounds the bytes moved by every plan (Lagrangian duality). A
storage's choice is a shortest path, so the best prices prove as much as the linear relaxation: they
are its duals. Any prices prove a bound, so rounding them is safe.
"""

from __future__ import annotations

from ortools.linear_solver import pywraplp

from formulations.polled_model import poll
from formulations.spilling import SpillModel


def relaxed_prices(model: SpillModel, seconds: float) -> dict[int, float] | None:
    """Step -> price of a byte of room, bytes moved; ``None`` if the relaxation was not solved.

    Examples
    --------
    >>> from cpplan.model.pool import Pool
    >>> from cpplan.model.residency import Residency
    >>> from cpplan.model.small_graphs import kept_meanwhile
    >>> from cpplan.program.anf import to_anf
    >>> from cpplan.spilling.problem import spill_problem
    >>> from formulations.spilling import build
    >>> pools = Pool("fast", 16), Pool("slow")
    >>> problem = spill_problem(to_anf(kept_meanwhile()), Residency(), pools)
    >>> relaxed_prices(build(problem), 60.0)
    {2: 2.0}
    """
    solver = pywraplp.Solver.CreateSolver("GLOP")
    proto = model.model.proto
    objective = proto.objective
    cost = dict(zip(objective.vars, objective.coeffs, strict=True))
    variables = [solver.NumVar(v.domain[0], v.domain[1], "") for v in proto.variables]
    for number, variable in enumerate(variables):
        solver.Objective().SetCoefficient(variable, float(cost.get(number, 0)))
    solver.Objective().SetMinimization()
    infinity = solver.infinity()
    rows = []
    for constraint in proto.constraints:
        poll()
        linear = constraint.linear
        low, high = linear.domain[0], linear.domain[1]
        row = solver.Constraint(
            float(low) if low > -(2**62) else -infinity, float(high) if high < 2**62 else infinity
        )
        for variable, coefficient in zip(linear.vars, linear.coeffs, strict=True):
            row.SetCoefficient(variables[variable], float(coefficient))
        rows.append(row)
    solver.SetTimeLimit(max(1, int(1000 * seconds)))
    if solver.Solve() != pywraplp.Solver.OPTIMAL:
        return None
    scale = model.unit_moved / model.unit
    prices = {step: -rows[row].dual_value() * scale for step, row in model.rows.items()}
    return {step: price for step, price in prices.items() if price > 1e-12}
