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


@pytest.mark.slow
def test_two_hundred_graphs_agree_with_brute_force_in_both_orders() -> None:
    compared = 0
    for seed in range(5000, 5200):
        case = random_spill_case(seed, uniform=seed % 2 == 0)
        given, every = case.least(any_order=False), case.least(any_order=True)
        plan, searched = case.solve(), case.solve("search")
        if given is None:
            assert plan.status == "infeasible"
        else:
            assert plan.moved_bytes_bound == given <= plan.moved_bytes
            cpplan.simulate(case.graph, plan)
        if every is None:
            assert searched.status == "infeasible"
        else:
            assert searched.moved_bytes_bound <= every <= searched.moved_bytes
            cpplan.simulate(case.graph, searched)
        compared += 1
    assert compared == 200
