"""Bounds and objectives of several pools: by hand, and never above what brute force finds."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from support.cases import seeds
from support.pool_oracles import OBJECTIVES, brute_force_objective, random_pooled

from cpplan.model.errors import InputError
from cpplan.model.pool import Pool
from cpplan.model.problem import Problem
from cpplan.packing.pools.bounds import excess_bound, least_peak, objective_bound
from cpplan.packing.pools.objective import objective_levels, objective_value


def together(*sizes: int, **more: object) -> Problem:
    """Buffers that are all live at one step."""
    count = len(sizes)
    names = tuple(f"b{k}" for k in range(count))
    return Problem(names, [0] * count, [1] * count, sizes, **more)  # type: ignore[arg-type]


def test_no_bound_is_above_the_optimum():
    met = dict.fromkeys(OBJECTIVES, 0)
    for seed in seeds(60):
        problem = random_pooled(random.Random(f"bounds {seed}"))
        for objective in OBJECTIVES:
            optimum = brute_force_objective(problem, objective)
            if optimum is None:
                continue
            assert excess_bound(problem).value == 0
            bound, names = objective_bound(problem, objective, optimum)
            assert bound <= optimum, (seed, objective)
            assert len(names) == len(bound)
            met[objective] += bound == optimum
    assert min(met.values()) > 15


def test_bytes_in_other_pools_are_a_subset_sum():
    """At most 6 of the sizes 4, 5 and 6 fit into 7 B, so 9 B are left over, not 8."""
    problem = together(4, 5, 6, pools=(Pool("fast", 7), Pool("slow")))
    assert least_peak(problem, 1, [7, None]).value == 9


def test_buffer_larger_than_other_pools_counts_in_full():
    problem = together(8, 3, pools=(Pool("fast", 7), Pool("slow")))
    assert least_peak(problem, 1, [7, None]).value == 8


def test_buffer_of_one_candidate_pool_counts_in_full():
    """b0 may only go to slow: 4 of fast's 7 bytes are of use to b1, none to b0."""
    problem = together(3, 4, pools=(Pool("fast", 7), Pool("slow")), candidates={0: (1,)})
    assert least_peak(problem, 1, [7, None]).value == 3
    assert least_peak(problem, 0, [7, None]).value == 0


def test_too_many_subset_sums_fall_back_to_the_capacity():
    """10^12 odd bytes: no table of sums, but 2·10^12 + 2 − 10^12 are left all the same."""
    problem = together(10**12 + 1, 10**12 + 1, 3, pools=(Pool("fast", 10**12 + 2), Pool("slow")))
    bound = least_peak(problem, 1, [10**12 + 2, None])
    assert 10**12 + 3 <= bound.value <= 10**12 + 4


def test_roundings_count_where_all_offsets_are_aligned():
    """Three of 5 bytes, aligned to 4: 8 + 8 + 5 in one pool, 5 + (8 + 5) in two: 18, not 15."""
    one = together(5, 5, 5, alignment=[4, 4, 4])
    assert objective_bound(one, "total", (21,))[0] == (21,)
    two = replace(one, pools=(Pool("p"), Pool("q")))
    assert brute_force_objective(two, "total") == (18,)
    assert objective_bound(two, "total", (18,))[0] == (18,)


def test_later_levels_hold_for_what_does_as_well_in_the_former():
    """slow must hold 4 of 12 bytes; only if it holds no more, fast holds 8."""
    problem = together(4, 8, pools=(Pool("fast", 8), Pool("slow")))
    assert objective_bound(problem, "preference", (4, 4, 8))[0] == (4, 4, 8)
    assert objective_bound(problem, "preference", (8, 8, 4))[0] == (4, 4, 0)


def test_missing_bytes_are_those_that_no_spreading_saves():
    problem = together(8, 4, pools=(Pool("fast", 4), Pool("slow", 6)))
    bound = excess_bound(problem)
    assert (bound.value, bound.step) == (2, 0)
    # All bytes would fit as a liquid, but no two of 4 B into one pool of 6 B.
    three = together(4, 4, 4, pools=(Pool("p", 6), Pool("q", 6)))
    assert excess_bound(three).value == 1


def test_costs_are_exact_decimals():
    """0.1 a byte and 0.2 a read: 10 · 0.1 + 3 · 0.2 = 1.6, which no sum of doubles is."""
    pools = (Pool("p", cost_per_byte=0.1, read_latency=0.2),)
    problem = together(10, pools=pools, reads=[3], writes=[0])
    zero = np.zeros(1, np.int64)
    assert objective_value(problem, "cost", zero, zero) == (1.6,)
    (level,) = objective_levels(problem, "cost")
    assert (level.scale, level.weight, level.access.tolist()) == (10, (1,), [[6]])


def test_a_third_of_a_byte_a_cycle_is_exact_too():
    pools = (Pool("p", cost_per_byte=0, write_bandwidth=3),)
    problem = together(1, 2, pools=pools, reads=[0, 0])
    zero = np.zeros(2, np.int64)
    assert objective_value(problem, "cost", zero, np.array([0, 1])) == (1,)


def test_costs_without_a_common_scale_are_rounded_down():
    third = 1 / 3  # 0.3333333333333333 has a denominator of 10^16
    problem = together(3 * 2**30, pools=(Pool("p", cost_per_byte=third),))
    zero = np.zeros(1, np.int64)
    (value,) = objective_value(problem, "cost", zero, zero)
    exact = third * 3 * 2**30 + 0
    assert exact * (1 - 1e-5) <= value <= exact
    (level,) = objective_levels(problem, "cost")
    assert level.scale & (level.scale - 1) == 0


def test_costs_beyond_exact_arithmetic_are_refused():
    for pool in (Pool("p", cost_per_byte=1e300), Pool("p", read_bandwidth=1e-320)):
        with pytest.raises(InputError, match="add up to more than 2"):
            objective_levels(together(8, pools=(pool,)), "cost")
