"""Bounds without search: never above what some layout needs, and tight where that is known."""

from __future__ import annotations

import random

import numpy as np
import pytest
from support.cases import seeds
from support.sizes_oracle import arenas as arenas_of
from support.sizes_oracle import pushed_down, random_sizes

from cpplan.model.levels import ArenaLevel
from cpplan.model.problem import Problem
from cpplan.packing.reduction import reduce_problem
from cpplan.packing.sizes.arenas import Arenas, objective_levels
from cpplan.packing.sizes.bounds import arena_bounds
from cpplan.packing.sizes.size_set import SizeSet


@pytest.mark.parametrize("seed", seeds(30))
def test_bound_is_at_most_every_layout(seed):
    problem, bytes = random_sizes(random.Random(seed), 1 + seed % 5)
    bounds = arena_bounds(SizeSet(problem, bytes))
    for offset in pushed_down(problem, bytes):
        assert (np.array(arenas_of(bytes, offset)) >= bounds).all()


@pytest.mark.parametrize("objective", ["largest", "ratio"])
@pytest.mark.parametrize("seed", seeds(30))
def test_no_layout_as_good_on_the_levels_before_is_better(seed, objective):
    problem, bytes = random_sizes(random.Random(seed), 1 + seed % 5)
    sizes = SizeSet(problem, bytes)
    alone = np.array([3 + k for k in range(len(bytes))])
    bounds = arena_bounds(sizes)
    levels = objective_levels(bounds, alone, objective, prefix_stable=True)
    layouts = list(pushed_down(problem, bytes))
    reduction = reduce_problem(sizes.merged)

    def values(offset):
        return [level.value(np.array(arenas_of(bytes, offset))) for level in levels]

    start = min(layouts, key=values)
    objective = Arenas(sizes, reduction, levels)
    best = objective.values(start[reduction.rows])
    for number in range(len(levels)):
        assert objective.bound(number, best).value <= best[number]


def test_room_below_is_rounded_up_to_the_alignment():
    """5 and 6 aligned to 4, at one step: what is on top starts at 8."""
    problem = Problem(("a", "b"), [0, 0], [1, 1], [0, 0], alignment=[4, 4])
    sizes = SizeSet(problem, np.array([[1, 2], [5, 6]]))
    assert arena_bounds(sizes).tolist() == [9, 13]


def test_one_buffer_is_on_top_at_all_sizes():
    """10 and 10 at most. a on top: 11 and 20 (of 5 and 11 alone); b: 14 and 11.

    Each size has a bound of 11, but one of the prices is at least 14 / 5.
    """
    problem = Problem(("a", "b"), [0, 0], [1, 1], [0, 0])
    sizes = SizeSet(problem, np.array([[1, 4], [10, 1], [1, 10]]))
    assert arena_bounds(sizes).tolist() == [11, 11, 11]
    price = ArenaLevel("price", np.array([0, 1]), np.array([5, 11]), np.array([0, 0]), 1000)
    start = np.array([0, 10])
    reduction = reduce_problem(sizes.merged)
    prices = Arenas(sizes, reduction, [price])
    assert prices.values(start) == (2800,)
    # a on top costs 11 / 5 and 20 / 11: less.
    assert prices.bound(0, ()).value == 2200
    only_second = ArenaLevel("at 1", np.array([1]), np.array([1]), np.array([0]))
    both = [only_second, ArenaLevel("at 0", np.array([0]), np.array([1]), np.array([0]))]
    arenas = Arenas(sizes, reduction, both)
    # With a on top the arena at 1 would be 20: b has to be, and needs 14 at size 0.
    assert arenas.values(start) == (11, 14)
    assert [arenas.bound(number, (11, 14)).value for number in range(2)] == [11, 14]
