"""Prices of room at every step, from the linear relaxation of spilling.

With a price l_t >= 0 for each byte of room at step t, every storage chooses its gaps by itself: it
pays for the room that it takes and for the bytes that it moves. The least sum of all payments, less
the price of the pool's whole room, bounds the bytes moved by every plan (Lagrangian duality). A
storage's choice is a shortest path, so the best prices prove as much as the linear relaxation: they
are its duals. Any prices prove a bound, so rounding them is safe.
"""

from __future__ import annotations

import math
from itertools import chain

import numpy as np

from formulations.linear_program import LinearProgram, solve
from formulations.polled_model import poll
from formulations.spilling import SpillModel

# CP-SAT's limits beyond which a row has none.
_ENDLESS = 2.0**62


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
    solution = solve(_relaxation(model), seconds)
    if not solution.optimal or solution.duals is None:
        return None
    scale = model.unit_moved / model.unit
    prices = {step: -float(solution.duals[row]) * scale for step, row in model.rows.items()}
    return {step: price for step, price in prices.items() if price > 1e-12}


def _relaxation(model: SpillModel) -> LinearProgram:
    """The linear relaxation of a model for CP-SAT, all of whose constraints are linear."""
    proto = model.model.proto
    cost = np.zeros(len(proto.variables))
    cost[list(proto.objective.vars)] = list(proto.objective.coeffs)
    # A proto's list takes no negative index.
    domains = [tuple(variable.domain) for variable in proto.variables]
    limits = np.array([(d[0], d[-1]) for d in domains], np.float64).reshape(-1, 2)
    rows = []
    for constraint in proto.constraints:
        poll()
        linear = constraint.linear
        rows.append((list(linear.vars), list(linear.coeffs), tuple(linear.domain)))
    columns, coefficients, sums = zip(*rows, strict=True) if rows else ((), (), ())
    domain = np.array(sums, np.float64).reshape(-1, 2)
    return LinearProgram(
        cost, limits[:, 0], limits[:, 1],
        np.repeat(np.arange(len(rows)), [len(row) for row in columns]),
        np.array([*chain.from_iterable(columns)], np.int64),
        np.array([*chain.from_iterable(coefficients)], np.float64),
        np.where(domain[:, 0] > -_ENDLESS, domain[:, 0], -math.inf),
        np.where(domain[:, 1] < _ENDLESS, domain[:, 1], math.inf),
    )  # fmt: skip
