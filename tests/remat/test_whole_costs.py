"""Costs in whole units: exact where their sums are small enough, else rounded down."""

from __future__ import annotations

from fractions import Fraction

import pytest

from cpplan.model.graph import Graph, Op, Tensor
from cpplan.remat.problem import remat_problem


def problem_of(*costs):
    tensors = [Tensor(f"t{k}", 4) for k in range(len(costs))]
    ops = [Op(f"o{k}", outputs=(f"t{k}",), cost=cost) for k, cost in enumerate(costs)]
    return remat_problem(Graph("g", tuple(tensors), tuple(ops)))


@pytest.mark.parametrize(
    ("costs", "whole", "unit"),
    [
        ((6, 4, 0), [3, 2, 0], Fraction(2)),
        ((0.5, 0.75), [2, 3], Fraction(1, 4)),
        ((0, 0), [0, 0], Fraction(1)),
        ((), [], Fraction(1)),
    ],
)
def test_small_costs_are_exact(costs, whole, unit):
    problem = problem_of(*costs)
    found, size = problem.whole_costs(10, 100)
    assert (found.tolist(), size) == (whole, unit)
    assert problem.exact_base == sum(map(Fraction, costs))


@pytest.mark.parametrize("costs", [(7, 11, 30), (0.1, 0.2, 5.0), (2**60, 3, 1)])
def test_large_sums_round_costs_down(costs):
    found, unit = problem_of(*costs).whole_costs(10, 100)
    assert 10 * found.sum() <= 100
    for whole, cost in zip(found.tolist(), costs, strict=True):
        assert whole * unit <= Fraction(cost) < (whole + 1) * unit
