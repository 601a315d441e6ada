"""The niche search against brute force: what fits is found, what does not is proved not to."""

from __future__ import annotations

import random

import numpy as np
import pytest
from support.instances import perfect_packing
from support.oracles import brute_force_peak
from support.published import minimalloc

from cpplan.model.problem import Gap, Problem
from cpplan.packing.reduction import reduce_problem
from cpplan.packing.search import niche_arrays, niche_search
from cpplan.packing.search.niche_search import NicheSearch, applies_to
from cpplan.packing.search.outcome import Outcome
from cpplan.runtime.deadline import Deadline
from cpplan.verification.verifier import check_offsets
from cpplan.zoo import packing as instances


def first_packing(problem: Problem) -> Outcome:
    """Everything on top of one another, and no bound."""
    step = np.lcm.reduce(problem.alignment)
    rounded = -(-problem.size // step) * step
    offsets = np.concatenate([[0], np.cumsum(rounded)[:-1]])
    return Outcome(offsets, int((offsets + problem.size).max()), 0)


def solve(problem: Problem, **options: object) -> Outcome:
    chosen = {"nodes": 10**7, "goal": 0, "ceiling": None, "deadline": Deadline(600)} | options
    outcome = NicheSearch(problem, seed=0).run(first_packing(problem), **chosen)
    check_offsets(problem, outcome.offsets, "niche search")
    assert outcome.peak == (outcome.offsets + problem.size).max()
    return outcome


def random_parts(seeds: range, most: int):
    """Small parts, many buffers of them alike, some with an alignment that all have."""
    for seed in seeds:
        rng = random.Random(seed)
        count, steps = rng.randint(1, most), rng.randint(2, 7)
        lower = [rng.randrange(steps) for _ in range(count)]
        upper = [rng.randint(low + 1, steps) for low in lower]
        size = [rng.randint(1, 7) for _ in range(count)]
        if count > 2 and rng.random() < 0.5:
            lower[1], upper[1], size[1] = lower[0], upper[0], size[0]
        alignment = [rng.choice((1, 1, 2, 4))] * count
        names = tuple(f"b{row}" for row in range(count))
        reduction = reduce_problem(Problem(names, lower, upper, size, alignment))
        for part in range(int(reduction.part.max()) + 1):
            yield reduction.part_problem(part)[0]


def planted_height(planted: instances.Planted) -> tuple[Problem, int]:
    return reduce_problem(planted.problem).part_problem(0)[0], planted.height


def test_the_smallest_peak_of_small_problems():
    for problem in random_parts(range(80), 6):
        assert applies_to(problem)
        assert solve(problem).peak == brute_force_peak(problem)


@pytest.mark.slow
def test_the_smallest_peak_of_many_small_problems():
    for problem in random_parts(range(1000, 3000), 6):
        assert solve(problem).peak == brute_force_peak(problem)


def test_every_order_of_ways_decides_every_capacity(monkeypatch):
    """Each word alone, at each capacity around the optimum: found from there on, refuted below."""
    for word in niche_search.WORDS:
        monkeypatch.setattr(niche_search, "WORDS", (word,))
        for problem in random_parts(range(300, 320), 6):
            best = brute_force_peak(problem)
            for capacity in range(max(1, best - 3), best + 4):
                outcome = solve(problem, goal=capacity, ceiling=capacity)
                if capacity < best:
                    assert capacity < outcome.bound <= best
                else:
                    assert outcome.peak <= capacity


def test_few_nodes_at_a_time_reach_the_same():
    problem = reduce_problem(perfect_packing(3, 25)).part_problem(0)[0]
    whole = solve(problem)
    search, state = NicheSearch(problem, seed=0), first_packing(problem)
    while state.bound < state.peak:
        state = search.run(state, nodes=7, goal=0, ceiling=None, deadline=Deadline(600))
        if state.peak <= whole.peak:
            break
    assert state.peak == whole.peak


def test_room_that_is_spent_grows(monkeypatch):
    """Without room for waste at first, the search goes on where the room ended."""
    monkeypatch.setattr(niche_arrays, "_LEVELS", 0)
    for problem in random_parts(range(400, 430), 6):
        assert solve(problem).peak == brute_force_peak(problem)


@pytest.mark.parametrize("pinwheels", [0.0, 0.5])
@pytest.mark.parametrize("count", [50, 200])
def test_boxes_without_a_hole_hardly_need_search(count, pinwheels):
    for seed in range(3):
        planted = instances.perfect_packing(count, seed=seed, pinwheels=pinwheels)
        problem, height = planted_height(planted)
        outcome = solve(problem, goal=height, ceiling=height, nodes=20 * count)
        assert outcome.peak == height


def test_what_it_cannot_represent():
    gaps = {0: [Gap(1, 2)]}
    assert not applies_to(Problem(("a",), lower=[0], upper=[3], size=[8], gaps=gaps))
    assert not applies_to(Problem(("a",), lower=[0], upper=[3], size=[8], fixed={0: 0}))
    two = {"lower": [0, 0], "upper": [1, 1], "size": [4, 6]}
    assert not applies_to(Problem(("a", "b"), **two, alignment=[4, 2]))
    assert applies_to(Problem(("a", "b"), **two, alignment=[4, 4]))


@pytest.mark.slow
def test_an_instance_that_was_open_is_packed_at_its_live_bytes():
    problem = minimalloc("D")
    part = reduce_problem(problem).part_problem(0)[0]
    outcome = solve(part, goal=986_112, ceiling=986_112)
    assert outcome.peak == 986_112 == part.live_bytes().max()
