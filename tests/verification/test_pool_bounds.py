"""Bounds of several pools proved again: as much as the planner's, and never above the optimum."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from support.cases import seeds
from support.pool_oracles import OBJECTIVES, brute_force_objective, random_pooled

from cpplan.model.errors import VerificationError
from cpplan.model.pool import Pool
from cpplan.model.problem import Problem
from cpplan.packing.pools.bounds import objective_bound
from cpplan.packing.pools.objective import objective_value
from cpplan.verification.pool_bounds import proved_levels, proved_total
from cpplan.verification.pool_objective import objective_levels


def values_of(problem: Problem, objective: str, pool: np.ndarray, offset: np.ndarray) -> tuple:
    levels = objective_levels(problem, objective)
    return tuple(level.shown(level.of(problem, pool, offset)) for level in levels)


def random_layout(problem: Problem, rng: random.Random) -> tuple[np.ndarray, np.ndarray]:
    pool = [rng.choice(list(problem.candidates_of(row))) for row in range(len(problem))]
    offset = [rng.randint(0, 40) for _ in range(len(problem))]
    return np.array(pool, np.int64), np.array(offset, np.int64)


def test_checker_and_planner_agree_on_what_a_layout_costs() -> None:
    for seed in range(300):
        rng = random.Random(f"values {seed}")
        problem = random_pooled(rng, 8)
        pool, offset = random_layout(problem, rng)
        for objective in OBJECTIVES:
            planned = objective_value(problem, objective, pool, offset)
            assert values_of(problem, objective, pool, offset) == planned, (seed, objective)


def test_checker_and_planner_agree_on_costs_that_have_to_be_rounded() -> None:
    """Thirds and sevenths as long decimals: no common step is coarse enough for 2^30 bytes."""
    for seed in range(100):
        rng = random.Random(f"rounded {seed}")
        base = random_pooled(rng, 5)
        pools = tuple(
            replace(pool, cost_per_byte=rng.random(), read_latency=rng.choice([0, 1 / 3, 1e-30]))
            for pool in base.pools
        )
        problem = replace(base, size=base.size * rng.choice([0, 1, 2**20, 2**30]), gaps={},
                          pools=pools, fixed={})  # fmt: skip
        pool, offset = random_layout(problem, rng)
        planned = objective_value(problem, "cost", pool, offset)
        assert values_of(problem, "cost", pool, offset) == planned, seed


def test_the_checker_proves_what_the_planner_proves_and_nothing_false() -> None:
    met = 0
    for seed in seeds(30):
        problem = random_pooled(random.Random(f"bounds {seed}"), 4)
        for objective in OBJECTIVES:
            optimum = brute_force_objective(problem, objective)
            if optimum is None:
                continue
            proved = proved_levels(problem, objective, optimum)
            planned, _ = objective_bound(problem, objective, optimum)
            assert planned <= proved <= optimum, (seed, objective)
            met += proved == optimum
    assert met > 40


def test_the_checker_proves_what_the_planner_proves_of_many_buffers() -> None:
    for seed in seeds(6):
        rng = random.Random(f"many {seed}")
        count = 200
        lower = [rng.randint(0, 300) for _ in range(count)]
        upper = [at + rng.randint(1, 40) for at in lower]
        size = [rng.choice([1, 3, 7, 64, 100, 4096]) * rng.randint(1, 30) for _ in range(count)]
        pools = (
            Pool("a", 4000, read_latency=1),
            Pool("b", 30000, 4, read_latency=2.5, cost_per_byte=0.1),
            Pool("c", read_latency=10, read_bandwidth=3),
        )
        alignment = [rng.choice([4, 8, 12]) for _ in range(count)]
        problem = Problem([f"b{k}" for k in range(count)], lower, upper, size, alignment,
                          pools=pools)  # fmt: skip
        for objective in OBJECTIVES:
            value = objective_bound(
                problem, objective, (0,) * len(objective_levels(problem, objective))
            )[0]
            planned, _ = objective_bound(problem, objective, value)
            assert planned == proved_levels(problem, objective, value), (seed, objective)
        assert objective_bound(problem, "total", (0,))[0][0] == proved_total(problem)


def test_bytes_known_to_be_shared_cost_what_the_cheapest_pools_ask() -> None:
    pools = Pool("p", 4), Pool("q", cost_per_byte=2)
    problem = Problem(("a",), [0], [1], [1], pools=pools, reads=[0], writes=[0])
    assert proved_levels(problem, "cost", (1,), 10) == (4 + 2 * 6,)
    assert proved_levels(problem, "total", (1,), 10) == (10,)


def test_an_unknown_objective_is_refused() -> None:
    with pytest.raises(VerificationError, match="'price', which is no objective"):
        objective_levels(Problem(("a",), [0], [1], [1]), "price")
