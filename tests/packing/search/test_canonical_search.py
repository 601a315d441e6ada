"""The canonical search against brute force: what fits is found, what does not is proved not to."""

from __future__ import annotations

import random

import numpy as np
import pytest
from support.instances import chain, perfect_packing, triangle
from support.oracles import brute_force_peak
from support.published import minimalloc

from cpplan.model.problem import Gap, Problem
from cpplan.packing.bounds import lower_bound
from cpplan.packing.heuristics import get
from cpplan.packing.reduction import reduce_problem
from cpplan.packing.search import canonical_search
from cpplan.packing.search.canonical_search import CanonicalSearch, applies_to
from cpplan.packing.search.outcome import Outcome
from cpplan.runtime.deadline import Deadline
from cpplan.verification.verifier import check_offsets


def first_packing(problem: Problem) -> Outcome:
    """Everything on top of one another, and the live bytes as bound."""
    step = np.lcm.reduce(problem.alignment)
    rounded = -(-problem.size // step) * step
    offsets = np.concatenate([[0], np.cumsum(rounded)[:-1]])
    return Outcome(offsets, int((offsets + problem.size).max()), 0)


def solve(problem: Problem, **options: object) -> Outcome:
    chosen = {"nodes": 10**7, "goal": 0, "ceiling": None, "deadline": Deadline(600)} | options
    outcome = CanonicalSearch(problem, seed=0).run(first_packing(problem), **chosen)
    check_offsets(problem, outcome.offsets, "canonical search")
    assert outcome.peak == (outcome.offsets + problem.size).max()
    return outcome


def holed_problem(rng: random.Random, count: int) -> Problem:
    """Buffers with alignments and holes, many of them alike."""
    steps = rng.randint(2, 7)
    lower = [rng.randrange(steps) for _ in range(count)]
    upper = [rng.randint(low + 1, steps) for low in lower]
    alignments = rng.choice([(1,), (1, 2), (1, 2, 3, 4), (4,)])
    gaps = {}
    for row in range(count):
        if upper[row] - lower[row] > 2 and rng.random() < 0.4:
            begin = rng.randint(lower[row] + 1, upper[row] - 2)
            gaps[row] = [Gap(begin, rng.randint(begin + 1, upper[row] - 1))]
    problem = Problem(
        tuple(f"b{row}" for row in range(count)),
        lower=lower,
        upper=upper,
        size=[rng.randint(1, 6) for _ in range(count)],
        alignment=[rng.choice(alignments) for _ in range(count)],
        gaps=gaps,
    )
    if count > 2 and rng.random() < 0.5:
        rows = np.arange(count)
        rows[1] = 0
        problem = Problem(
            problem.names,
            lower=problem.lower[rows],
            upper=problem.upper[rows],
            size=problem.size[rows],
            alignment=problem.alignment[rows],
            gaps={new: gaps[row] for new, row in enumerate(rows.tolist()) if row in gaps},
        )
    return problem


def random_parts(seeds: range, count: int):
    for seed in seeds:
        rng = random.Random(seed)
        reduction = reduce_problem(holed_problem(rng, rng.randint(1, count)))
        for part in range(int(reduction.part.max()) + 1):
            yield reduction.part_problem(part)[0]


def test_the_smallest_peak_of_small_problems():
    for problem in random_parts(range(150), 6):
        outcome = solve(problem)
        assert outcome.peak == brute_force_peak(problem)
        # Ended by proof: the bound is the peak, or the last attempt found one at the bound.
        assert outcome.bound <= outcome.peak


@pytest.mark.slow
def test_the_smallest_peak_of_many_small_problems():
    for problem in random_parts(range(1000, 5000), 7):
        assert solve(problem).peak == brute_force_peak(problem)


@pytest.mark.parametrize("room", [0, 5_000])
def test_trees_that_find_no_room_start_afresh_and_end(monkeypatch, room):
    """Begun again with twice the nodes each round, every tree is finished some time."""
    monkeypatch.setattr(canonical_search, "_KEPT_BYTES", room)
    monkeypatch.setattr(canonical_search, "_FIRST_NODES", 2)
    for problem in random_parts(range(400, 430), 6):
        search = CanonicalSearch(problem, seed=0)
        outcome = search.run(
            first_packing(problem), nodes=10**6, goal=0, ceiling=None, deadline=Deadline(600)
        )
        assert outcome.peak == brute_force_peak(problem)
        assert sum(attempt.bytes for attempt in search._begun.values()) <= room


def test_every_order_of_ties_decides_every_capacity(monkeypatch):
    """Each word alone, at each capacity around the optimum: found from there on, refuted below."""
    for word in canonical_search.WORDS:
        monkeypatch.setattr(canonical_search, "WORDS", (word,))
        for problem in random_parts(range(300, 330), 6):
            best = brute_force_peak(problem)
            for capacity in range(max(1, best - 3), best + 4):
                outcome = solve(problem, goal=capacity, ceiling=capacity)
                if capacity < best:
                    assert capacity < outcome.bound <= best
                else:
                    assert outcome.peak <= capacity


def test_three_that_meet_in_pairs():
    assert solve(triangle())[1:3] == (3, 3)


def test_nothing_is_left_to_do_where_the_first_packing_is_optimal():
    problem = Problem(("a", "b"), lower=[0, 0], upper=[1, 1], size=[4, 8])
    state = first_packing(problem)._replace(bound=12)
    search = CanonicalSearch(problem, seed=0)
    assert search.run(state, nodes=100, goal=0, ceiling=None, deadline=Deadline(60)) is state


def test_parts_that_do_not_touch_fail_apart():
    """100 triangles side by side, joined by one thin buffer: each fails alone, not in product."""
    one = triangle()
    lower = np.concatenate([one.lower + 3 * k for k in range(100)] + [[0]])
    upper = np.concatenate([one.upper + 3 * k for k in range(100)] + [[300]])
    size = np.concatenate([np.tile(one.size, 100), [1]])
    gaps = {3 * k: [Gap(3 * k + 1, 3 * k + 2)] for k in range(100)}
    names = tuple(f"b{k}" for k in range(301))
    problem = Problem(names, lower=lower, upper=upper, size=size, gaps=gaps)
    outcome = solve(reduce_problem(problem).part_problem(0)[0], nodes=50_000)
    assert (outcome.peak, outcome.bound) == (4, 4)


def test_few_nodes_at_a_time_reach_the_same():
    """A search that is continued node by node goes the way of one that is not interrupted."""
    problem = reduce_problem(perfect_packing(3, 25)).part_problem(0)[0]
    whole = solve(problem)
    search, state = CanonicalSearch(problem, seed=0), first_packing(problem)
    while state.bound < state.peak:
        state = search.run(state, nodes=7, goal=0, ceiling=None, deadline=Deadline(600))
    assert state.peak == whole.peak
    assert (state.offsets == whole.offsets).all()


def test_more_room_is_made_in_mid_search(monkeypatch):
    from cpplan.packing.search import canonical_arrays

    problem = reduce_problem(perfect_packing(5, 30)).part_problem(0)[0]
    expected = solve(problem)
    monkeypatch.setattr(canonical_arrays, "_CHANGES_A_BUFFER", 1)
    outcome = solve(problem)
    assert (outcome.offsets == expected.offsets).all()


@pytest.mark.parametrize("seed", range(6))
def test_perfect_packings_of_forty(seed):
    problem = reduce_problem(perfect_packing(seed, 40)).part_problem(0)[0]
    assert solve(problem, goal=4096, ceiling=4096, nodes=400_000).peak == 4096


def test_improvements_are_reported_as_they_come():
    reports: list[Outcome] = []
    problem = reduce_problem(perfect_packing(1, 30)).part_problem(0)[0]
    outcome = solve(problem, report=reports.append)
    assert reports[-1] is outcome
    assert outcome.found_by == "canonical search"
    gaps = [report.peak - report.bound for report in reports]
    assert gaps == sorted(gaps, reverse=True)


def test_nothing_is_done_once_time_is_up():
    problem, deadline = chain(), Deadline(60)
    deadline.cancel()
    state = first_packing(problem)
    search = CanonicalSearch(problem, seed=0)
    assert search.run(state, nodes=100, goal=0, ceiling=None, deadline=deadline) is state


def test_what_the_canonical_order_cannot_represent():
    columns = {"lower": [0, 0], "upper": [3, 3], "size": [4, 4]}
    assert applies_to(Problem(("a", "b"), **columns))
    assert applies_to(Problem(("a", "b"), **columns, gaps={0: [Gap(1, 2)]}))
    assert not applies_to(Problem(("a", "b"), **columns, gaps={0: [Gap(1, 2, 2, 4)]}))
    assert not applies_to(Problem(("a", "b"), **columns, fixed={0: 8}))
    assert not applies_to(Problem((), lower=[], upper=[], size=[]))


@pytest.mark.parametrize("instance", "ACDFHJ")
def test_minimalloc_s_challenging_instances_fit(instance):
    problem = minimalloc(instance)
    reduction = reduce_problem(problem)
    for part in range(int(reduction.part.max()) + 1):
        rows = reduction.part_problem(part)[0]
        offsets = get("lowest_offset_first")(rows, Deadline(60))
        state = Outcome(offsets, int((offsets + rows.size).max()), lower_bound(rows).value)
        outcome = CanonicalSearch(rows, seed=0).run(
            state, nodes=400_000, goal=1 << 20, ceiling=1 << 20, deadline=Deadline(600)
        )
        check_offsets(rows, outcome.offsets, "canonical search")
        assert outcome.peak <= 1 << 20
