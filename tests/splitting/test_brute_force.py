"""Plans in pieces against brute force over all splittings of small networks."""

from __future__ import annotations

import random

import pytest

import cpplan
from tests.support.cases import seeds
from tests.support.split_oracle import Twins, random_twins


def gap(seed: int) -> int:
    """Bytes by which the plan of a random network exceeds the least over all splittings."""
    rng = random.Random(seed)
    twins = random_twins(rng, 22)
    graph, in_place = twins.graph(), rng.random() < 0.5
    least = twins.elements.least_peak(in_place=in_place)
    plan = cpplan.solve(graph, split=True, in_place=in_place, time_limit=20, workers=1)
    cpplan.simulate(graph, plan)
    assert plan.peak is not None
    assert plan.lower_bound is not None
    assert plan.cost == plan.base_cost
    assert plan.lower_bound <= least <= plan.peak, f"seed {seed}"
    return plan.peak - least


def test_eight_networks_need_what_brute_force_finds() -> None:
    assert max(map(gap, seeds(8))) == 0


@pytest.mark.slow
def test_two_hundred_networks_need_what_brute_force_finds() -> None:
    assert max(map(gap, range(200))) == 0


def test_elements_computed_again_need_less() -> None:
    twins = Twins()
    x = twins.image(4, 1, 1)
    twins.conv(twins.conv(x, 1, 3, 1, depthwise=False), 1, 3, 1, depthwise=False)
    twins.graph()
    elements = twins.elements
    once = sum(elements.cost)
    least = elements.least_peak()
    assert elements.least_cost(least) == once
    # The image of 4 B and a result are there at the start, the output of 4 B at the end.
    assert elements.least_cost(4) is None


def test_an_op_between_others_runs_in_place_on_their_bands() -> None:
    twins = Twins()
    x = twins.image(4, 1, 1)
    twins.conv(twins.relu(x), 1, 3, 1, depthwise=False)
    graph = twins.graph()
    plan = cpplan.solve(graph, split=True, in_place=True, time_limit=10)
    cpplan.simulate(graph, plan)
    assert plan.peak == twins.elements.least_peak(in_place=True) == 6
