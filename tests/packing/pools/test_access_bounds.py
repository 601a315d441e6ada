"""Bounds on bytes outside their cheapest pool: by hand, and never above brute force."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
from support.pool_oracles import brute_force_objective, random_pooled

from cpplan.model.levels import Level
from cpplan.model.pool import Pool
from cpplan.model.problem import Gap, Problem
from cpplan.packing.pools.bounds import least_access
from cpplan.packing.pools.objective import objective_levels


def misplaced(problem: Problem) -> int:
    """The bound on misplaced bytes within the capacities."""
    level = objective_levels(problem, "preference")[-2]
    least, more = least_access(problem, level, [pool.capacity for pool in problem.pools])
    assert least == 0
    return more


def in_two(capacity: int, lower: list[int], upper: list[int], size: list[int], **more) -> Problem:
    names = tuple(f"b{k}" for k in range(len(size)))
    return Problem(names, lower, upper, size, pools=(Pool("p", capacity), Pool("q")), **more)


def test_a_buffer_that_lives_on_pays_once():
    """Two full steps, 8 of 12 B each: b1 (4 B) lives through both and pays for both."""
    assert misplaced(in_two(8, [0, 0, 1], [1, 2, 2], [8, 4, 8])) == 4


def test_apart_in_time_everyone_pays():
    """At each of two steps 8 + 4 B meet in 8: 4 go, twice."""
    assert misplaced(in_two(8, [0, 0, 1, 1], [1, 1, 2, 2], [8, 4, 8, 4])) == 8


def test_too_large_buffer_pays_in_full_and_frees_its_bytes():
    """b0 (9 B) goes anyway; b1 and b2 then fit."""
    assert misplaced(in_two(8, [0, 0, 0], [1, 1, 1], [9, 5, 3])) == 9


def test_pinned_buffer_leaves_less_room():
    """b0 must lie in p: of b1 and b2, 4 B each, none fits beside its 5."""
    assert misplaced(in_two(8, [0, 0, 0], [1, 1, 1], [5, 4, 4], candidates={0: (0,)})) == 8


def test_a_gap_pays_for_itself_only_when_that_is_needed():
    """b0 holds nothing at step 1, where b1 and b2 fill p: nobody pays."""
    lower, upper, size = [0, 1, 1], [3, 2, 2], [8, 4, 4]
    assert misplaced(in_two(8, lower, upper, size)) == 8
    assert misplaced(in_two(8, lower, upper, size, gaps={0: [Gap(1, 2)]})) == 0


def test_every_pool_further_down_is_paid_for():
    """Three of 8 B: one stays in p, one goes to q, one goes on to r."""
    pools = (Pool("p", 8), Pool("q", 8), Pool("r"))
    problem = replace(in_two(8, [0] * 3, [1] * 3, [8] * 3), pools=pools)
    assert misplaced(problem) == 8 + 2 * 8


def test_the_cheapest_byte_s_price_holds_for_all():
    """4 of 8 B must go: at least at b1's 1 a byte, whoever goes; b0's would be 2."""
    problem = in_two(4, [0, 0], [1, 1], [4, 4])
    level = Level((0, 0), (0, 0), np.array([[3, 11], [1, 5]]))
    assert least_access(problem, level, [4, None]) == (4, 4)


def test_no_bound_is_above_the_fewest_misplaced_bytes():
    positive = 0
    for seed in range(150):
        problem = random_pooled(random.Random(f"misplaced {seed}"))
        level = objective_levels(problem, "preference")[-2]
        fewest = brute_force_objective(problem, "preference", [level])
        if fewest is not None:
            assert misplaced(problem) <= fewest[0], seed
            positive += misplaced(problem) > 0
    assert positive > 20
