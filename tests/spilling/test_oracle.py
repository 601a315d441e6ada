"""Spilling against brute force over all that the pools may hold."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.cases import seeds
from support.spill_oracle import random_spill_case

import cpplan
from cpplan.model.pool import Pool


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
    assert plan.moved_bytes_bound == least <= plan.moved_bytes
    cpplan.simulate(case.graph, plan)


@pytest.mark.parametrize("seed", seeds(10))
def test_less_than_one_op_needs_is_infeasible(seed: int) -> None:
    case = random_spill_case(seed)
    case = replace(case, pools=(case.pools[0], Pool("slow")))
    least = int(case.problem().least_load().max())
    small = replace(case, pools=(Pool("fast", max(0, least - 1)), Pool("slow")))
    assert (small.least(any_order=True) is None) == (least > 0)
    for order in ("given", "search"):
        assert (small.solve(order).status == "infeasible") == (least > 0)


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
