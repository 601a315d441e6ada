"""Every named baseline is correct; each is the algorithm its name says."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.instances import chain, perfect_packing

from cpplan.model.problem import Gap, Problem
from cpplan.packing import heuristics
from cpplan.packing.heuristics.by_lowest_offset import largest_total, preorder
from cpplan.packing.heuristics.greedy import conflict_counts, follow_hint
from cpplan.packing.heuristics.layout import best_fit_in_order, first_fit_in_order
from cpplan.runtime.deadline import Deadline, TimeUpError


def run(name: str, problem: Problem) -> np.ndarray:
    return heuristics.get(name)(problem, Deadline(math.inf))


def peak(name: str, problem: Problem) -> int:
    return int((run(name, problem) + problem.size).max(initial=0))


@pytest.mark.parametrize("name", sorted({*heuristics.names(as_published=False)} - {"bump"}))
def test_a_chain_needs_two_links(name):
    assert peak(name, chain(6, size=8)) == 16


def test_bump_never_reuses():
    assert peak("bump", chain(6, size=8)) == 48


def test_bump_aligns_each_buffer_by_its_own_alignment():
    problem = Problem(("a", "b"), [0, 1], [1, 2], [10, 4], alignment=[1, 16])
    assert run("bump", problem).tolist() == [0, 16]


def test_first_fit_takes_the_lowest_hole_and_best_fit_the_tightest():
    """Between a and c lie 6 free bytes, between c and e 4; x needs 4."""
    problem = Problem(
        ("a", "hole6", "c", "hole4", "e", "x"),
        lower=[0, 0, 0, 0, 0, 1],
        upper=[2, 1, 2, 1, 2, 2],
        size=[10, 6, 2, 4, 10, 4],
        fixed={0: 0, 1: 10, 2: 16, 3: 18, 4: 22},
    )
    assert run("first_fit", problem)[5] == 10
    assert run("best_fit", problem)[5] == 18


@pytest.mark.parametrize("name", ["first_fit", "best_fit"])
def test_a_list_of_holes_gives_what_looking_at_everything_gives(name):
    """The general path, which knows no time, places each buffer at the same address."""
    in_order = {"first_fit": first_fit_in_order, "best_fit": best_fit_in_order}[name]
    for seed in range(100):
        rng = np.random.default_rng(seed)
        lower = rng.integers(0, 30, 40)
        problem = Problem(
            tuple(f"b{k}" for k in range(40)),
            lower,
            lower + rng.integers(1, 12, 40),
            rng.integers(0, 50, 40),
            2 ** rng.integers(0, 5, 40),
        )
        order = np.lexsort((-problem.size, problem.lower))
        some = problem.size > 0
        slow = in_order(problem, order, Deadline(math.inf))
        assert run(name, problem)[some].tolist() == slow[some].tolist()


def test_greedy_by_size_places_the_largest_first():
    problem = Problem(("small", "large"), [0, 0], [1, 1], [4, 8])
    assert run("greedy_by_size", problem).tolist() == [8, 0]


def test_greedy_by_breadth_starts_at_the_broadest_step():
    """Step 1 holds 9 bytes (b, c), step 0 holds 8 (a): b comes before the larger a."""
    problem = Problem(("a", "b", "c"), [0, 1, 1], [1, 3, 2], [8, 5, 4])
    offsets = run("greedy_by_breadth", problem)
    assert offsets[1:].tolist() == [0, 5]


def test_greedy_by_conflicts_starts_with_the_busiest():
    problem = Problem(("x", "busy", "y"), [0, 0, 2], [1, 3, 3], [8, 2, 8])
    assert conflict_counts(problem).tolist() == [1, 2, 1]
    assert run("greedy_by_conflicts", problem)[1] == 0


def test_conflicts_do_not_count_where_a_buffer_rests():
    problem = Problem(("a", "b"), [0, 1], [3, 2], [4, 4], gaps={0: [Gap(1, 2)]})
    assert conflict_counts(problem).tolist() == [0, 0]


def test_lowest_offset_first_beats_size_order_on_a_perfect_packing():
    problem = perfect_packing(1, 20)
    assert peak("lowest_offset_first", problem) == 4096
    assert peak("greedy_by_size", problem) > 4096


def test_hints_move_up_where_they_clash():
    problem = Problem(("a", "b"), [0, 0], [1, 1], [4, 8], hint={0: 0, 1: 2})
    assert follow_hint(problem, Deadline(math.inf)).tolist() == [0, 4]


def test_preorders_sort_by_total_width_and_area():
    problem = Problem(("a", "b", "c"), [0, 1, 3], [2, 3, 9], [4, 8, 1])
    assert largest_total(problem).tolist() == [12, 12, 1]
    assert preorder(problem, "TA").tolist() == [1, 0, 2]
    assert preorder(problem, "WA").tolist() == [2, 1, 0]


@pytest.mark.parametrize("name", heuristics.names(as_published=False))
def test_a_spent_deadline_stops_it(name):
    deadline = Deadline(10)
    deadline.cancel()
    with pytest.raises(TimeUpError):
        heuristics.get(name)(chain(), deadline)


@pytest.mark.parametrize("name", heuristics.names())
def test_little_work_counts_little(name):
    """Work is counted in chunks; the last one counts as many buffers as it has."""
    deadline = Deadline(10, deterministic=True)
    heuristics.get(name)(chain(6, size=8), deadline)
    assert 10 - deadline.remaining() < 0.005
