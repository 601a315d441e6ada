"""Searched orders against brute force over all orders."""

from __future__ import annotations

import pytest
from support.cases import seeds
from support.spill_oracle import random_spill_case

import cpplan


@pytest.mark.parametrize("seed", seeds(15, 500))
def test_searched_order_is_bounded_by_brute_force(seed: int) -> None:
    case = random_spill_case(seed, uniform=seed % 2 == 0)
    least, plan = case.least(any_order=True), case.solve("search")
    if least is None:
        assert plan.status == "infeasible"
        return
    given = case.solve()
    assert plan.scope == "every order"
    assert plan.moved_bytes_bound <= least <= plan.moved_bytes
    assert given.moved_bytes is None or plan.moved_bytes <= given.moved_bytes
    assert (plan.status == "optimal") == (plan.moved_bytes == plan.moved_bytes_bound)
    cpplan.simulate(case.graph, plan)


def test_searched_orders_mostly_move_the_fewest_bytes() -> None:
    found = []
    for seed in range(700, 720):
        case = random_spill_case(seed, uniform=True)
        least = case.least(any_order=True)
        if least is not None:
            found.append(case.solve("search").moved_bytes == least)
    assert sum(found) >= 0.95 * len(found)
