"""The canonical search's own: trees begun afresh, parts that fail apart, room that grows."""

from __future__ import annotations

import numpy as np
import pytest
from support.instances import perfect_packing, triangle
from support.oracles import brute_force_peak
from support.packing_parts import first_packing, parts, solve

from cpplan.model.problem import Gap, Problem
from cpplan.packing.reduction import reduce_problem
from cpplan.packing.search.canonical_search import CanonicalSearch, applies_to
from cpplan.runtime.deadline import Deadline


@pytest.mark.parametrize("room", [0, 5_000])
def test_trees_that_find_no_room_start_afresh_and_end(monkeypatch, room):
    """Begun again with twice the nodes each round, every tree is finished some time."""
    monkeypatch.setattr("cpplan.packing.search.canonical_search._KEPT_BYTES", room)
    monkeypatch.setattr("cpplan.packing.search.canonical_search._FIRST_NODES", 2)
    for problem in parts(range(400, 430), 6, applies_to):
        search = CanonicalSearch(problem, seed=0)
        outcome = search.run(
            first_packing(problem), nodes=10**6, target=0, limit=None, deadline=Deadline(600)
        )
        assert outcome.peak == brute_force_peak(problem)
        assert sum(attempt.bytes for attempt in search._begun.values()) <= room


def test_three_that_meet_in_pairs():
    assert solve(CanonicalSearch, triangle())[1:3] == (3, 3)


def test_parts_that_do_not_touch_fail_apart():
    """100 triangles side by side, joined by one thin buffer: each fails alone, not in product."""
    one = triangle()
    lower = np.concatenate([one.lower + 3 * k for k in range(100)] + [[0]])
    upper = np.concatenate([one.upper + 3 * k for k in range(100)] + [[300]])
    size = np.concatenate([np.tile(one.size, 100), [1]])
    gaps = {3 * k: [Gap(3 * k + 1, 3 * k + 2)] for k in range(100)}
    names = tuple(f"b{k}" for k in range(301))
    problem = Problem(names, lower=lower, upper=upper, size=size, gaps=gaps)
    outcome = solve(CanonicalSearch, reduce_problem(problem).part_problem(0)[0], nodes=50_000)
    assert (outcome.peak, outcome.bound) == (4, 4)


def test_few_nodes_at_a_time_reach_the_same():
    """A search that is continued node by node goes the way of one that is not interrupted."""
    problem = reduce_problem(perfect_packing(3, 25)).part_problem(0)[0]
    whole = solve(CanonicalSearch, problem)
    search, state = CanonicalSearch(problem, seed=0), first_packing(problem)
    while state.bound < state.peak:
        state = search.run(state, nodes=7, target=0, limit=None, deadline=Deadline(600))
    assert state.peak == whole.peak
    assert (state.offsets == whole.offsets).all()


def test_more_room_is_made_in_mid_search(monkeypatch):
    from cpplan.packing.search import canonical_state

    problem = reduce_problem(perfect_packing(5, 30)).part_problem(0)[0]
    expected = solve(CanonicalSearch, problem)
    monkeypatch.setattr(canonical_state, "_CHANGES_A_BUFFER", 1)
    outcome = solve(CanonicalSearch, problem)
    assert (outcome.offsets == expected.offsets).all()


def test_trees_that_are_not_kept_share_one_room(monkeypatch):
    """Room made for one tree serves the next: the number of changes only doubles, and is kept."""
    from cpplan.packing.search import canonical_search, canonical_state

    monkeypatch.setattr(canonical_search, "_KEPT_BYTES", 0)
    monkeypatch.setattr(canonical_search, "_FIRST_NODES", 50)
    monkeypatch.setattr(canonical_state, "_CHANGES_A_BUFFER", 1)
    made = []
    more = canonical_state.with_more_room
    monkeypatch.setattr(
        canonical_search, "with_more_room", lambda search: made.append(search) or more(search)
    )
    problem = reduce_problem(perfect_packing(5, 60)).part_problem(0)[0]
    search = CanonicalSearch(problem, seed=0)
    search.run(first_packing(problem), nodes=20_000, target=0, limit=None, deadline=Deadline(600))
    assert made
    assert len(search._passing.search.trail) == len(search._first.trail) << len(made)


def test_a_tree_in_used_room_is_the_same(monkeypatch):
    from cpplan.packing.search import canonical_search

    monkeypatch.setattr(canonical_search, "_FIRST_NODES", 50)
    problem = reduce_problem(perfect_packing(5, 60)).part_problem(0)[0]
    reusing = solve(CanonicalSearch, problem, nodes=20_000)
    begin = canonical_search.begin_again
    monkeypatch.setattr(canonical_search, "begin_again", lambda first, spare: begin(first, None))
    afresh = solve(CanonicalSearch, problem, nodes=20_000)
    assert (reusing.peak, reusing.bound) == (afresh.peak, afresh.bound)
    assert (reusing.offsets == afresh.offsets).all()
