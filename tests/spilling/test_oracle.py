"""Spilling against brute force over all that the pools may hold."""

from __future__ import annotations

import pytest
from support.cases import seeds
from support.spill_oracle import random_spill_case

import cpplan


@pytest.mark.parametrize("seed", seeds(20))
def test_given_order_moves_the_fewest_bytes_of_equal_tensors(seed: int) -> None:
    case = random_spill_case(seed, uniform=True)
    least, plan = case.least(any_order=False), case.solve()
    assert plan.moved_bytes == least
    assert (plan.status == "infeasible") == (least is None)
    if least is not None:
        assert plan.status == "optimal"
        cpplan.simulate(case.graph, plan)


@pytest.mark.parametrize("seed", seeds(20, 1000))
def test_given_order_is_bounded_by_brute_force(seed: int) -> None:
    case = random_spill_case(seed)
    least, plan = case.least(any_order=False), case.solve()
    if least is None:
        assert plan.status == "infeasible"
        return
    assert plan.moved_bytes_bound == least <= plan.moved_bytes
    cpplan.simulate(case.graph, plan)
