"""Heuristics over several pools, and hill climbing: validity, preference, determinism."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from support.cases import seeds
from support.instances import perfect_packing
from support.pool_oracles import check_pooled, random_pooled

from cpplan.model.pool import Pool
from cpplan.model.problem import Problem
from cpplan.packing import heuristics
from cpplan.packing.heuristics.by_climbing import hill_climb
from cpplan.packing.heuristics.in_pools import PoolFit, run_in_pools
from cpplan.packing.pools.objective import objective_levels
from cpplan.runtime.deadline import Deadline, TimeUpError


@pytest.mark.parametrize("name", heuristics.names(as_published=False))
def test_placed_layouts_are_valid_in_pools(name):
    placed = 0
    for seed in seeds(20):
        problem = random_pooled(random.Random(f"in pools {seed}"), most=8)
        layout = run_in_pools(name, problem, Deadline(60))
        if layout is not None:
            check_pooled(problem, *layout)
            placed += 1
    assert placed >= 5


def test_one_pool_gives_the_offsets_of_the_plain_heuristic():
    problem = perfect_packing(1, 30)
    for name in heuristics.names(as_published=False):
        layout = run_in_pools(name, problem, Deadline(60))
        assert layout.offset.tolist() == heuristics.get(name)(problem, Deadline(60)).tolist()


def test_each_buffer_s_own_order_of_pools_counts():
    """b1 prefers q; b0 fills p; b2 comes too late for p and ends beside b1."""
    problem = Problem(
        ("b0", "b1", "b2"),
        [0, 0, 0],
        [1, 1, 1],
        [8, 6, 4],
        pools=(Pool("p", 8), Pool("q")),
        candidates={1: (1, 0)},
    )
    layout = run_in_pools("greedy_by_size", problem, Deadline(60))
    assert layout.pool.tolist() == [0, 1, 1]
    assert layout.offset.tolist() == [0, 0, 6]


def test_buffer_larger_than_every_pool_gives_no_layout():
    problem = Problem(("a",), [0], [1], [8], pools=(Pool("p", 4), Pool("q", 7)))
    assert run_in_pools("first_fit", problem, Deadline(60)) is None


def test_first_fit_sticks_out_least_where_nothing_fits():
    problem = Problem(("a",), [0], [1], [8], pools=(Pool("p", 4), Pool("q", 7)))
    assert PoolFit(problem).place([0], Deadline(60)).pool.tolist() == [1]


def test_a_level_tells_where_a_buffer_costs_least():
    """By preference both lie in p, 12 B; q already costs 8 B, so that b is free there."""
    pools = (Pool("p"), Pool("q"))
    problem = Problem(("a", "b"), [0, 1], [1, 2], [8, 8], pools=pools, candidates={0: (1,)})
    (total,) = objective_levels(problem, "total")
    assert PoolFit(problem).place([0, 1], Deadline(60)).pool.tolist() == [1, 0]
    assert PoolFit(problem, total).place([0, 1], Deadline(60)).pool.tolist() == [1, 1]


def test_climbing_improves_on_the_order_it_starts_from():
    problem = perfect_packing(4, 25)
    by_size = heuristics.get("first_fit_by_size")(problem, Deadline(60))
    climbed = hill_climb(problem, Deadline(60))
    assert (climbed + problem.size).max() < (by_size + problem.size).max()
    assert climbed.tolist() == hill_climb(problem, Deadline(60)).tolist()


def test_climbing_keeps_what_it_has_when_time_is_up():
    problem = perfect_packing(4, 25)
    deadline = Deadline(0.01, deterministic=True)
    offsets = hill_climb(problem, deadline)
    assert deadline.expired()
    check_pooled(problem, np.zeros(25, np.int64), offsets)
    with pytest.raises(TimeUpError):
        hill_climb(problem, deadline)


def test_a_spent_deadline_stops_it():
    problem = replace(perfect_packing(4, 25), pools=(Pool("p"), Pool("q")))
    with pytest.raises(TimeUpError):
        PoolFit(problem).place(range(25), Deadline(0))
