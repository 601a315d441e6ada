"""The niche search's own: room for waste, planted packings, an open instance."""

from __future__ import annotations

import numpy as np
import pytest
from support.oracles import brute_force_peak
from support.packing_parts import parts, solve
from support.published import minimalloc

from cpplan.model.problem import Problem
from cpplan.packing.reduction import reduce_problem
from cpplan.packing.search import niche_search, niche_state
from cpplan.packing.search import niche_state as niche_nogoods
from cpplan.packing.search.niche_search import NicheSearch, applies_to
from cpplan.zoo import packing as instances


def planted_height(planted: instances.Planted) -> tuple[Problem, int]:
    return reduce_problem(planted.problem).part_problem(0)[0], planted.height


def test_room_that_is_spent_grows(monkeypatch):
    """Without room for waste at first, the search goes on where the room ended."""
    monkeypatch.setattr(niche_state, "_LEVELS", 0)
    for problem in parts(range(400, 430), 6, applies_to):
        assert solve(NicheSearch, problem).peak == brute_force_peak(problem)


def test_failures_that_are_forgotten_are_found_again(monkeypatch):
    """With room for three nogoods of 21 sections, the proofs stay true."""
    for name, value in (("_FEWEST", 3), ("_MOST", 3), ("_SECTIONS", 7)):
        monkeypatch.setattr(niche_nogoods, name, value)
    for problem in parts(range(430, 460), 6, applies_to):
        assert solve(NicheSearch, problem).peak == brute_force_peak(problem)


def test_a_search_that_begins_again_each_turn_stays_exact(monkeypatch):
    monkeypatch.setattr(niche_search, "_FORGET_TURNS", 1)
    monkeypatch.setattr(niche_search, "_FIRST_NODES", 50)
    for problem in parts(range(460, 490), 6, applies_to):
        assert solve(NicheSearch, problem).peak == brute_force_peak(problem)


def test_trees_grow_however_often_the_search_begins_again(monkeypatch):
    monkeypatch.setattr(niche_search, "_FORGET_TURNS", 3)
    search = NicheSearch(Problem(("a", "b"), lower=[0, 1], upper=[2, 3], size=[4, 8]), seed=0)
    search._low, search._high = 12, 19
    attempts = search._in_turns()
    nodes = [next(attempts).nodes for _ in range(8 * 31)]
    assert max(nodes) == nodes[-1] == 16 * niche_search._FIRST_NODES


def test_what_failed_is_forgotten_but_in_perfect_packings(monkeypatch):
    monkeypatch.setattr(niche_search, "_FORGET_TURNS", 2)
    full, height = planted_height(instances.perfect_packing(20, seed=0))
    hollow = Problem(("a", "b", "c"), lower=[0, 1, 2], upper=[2, 3, 4], size=[4, 8, 4])
    for problem, kept in ((full, True), (hollow, False)):
        search = NicheSearch(problem, seed=0)
        search._low, search._high = height, height + 9
        turn = 4 if search._full else 8  # words, at one limit or at two
        attempts = search._in_turns()
        early = next(attempts)
        known = search._known[early.limit]
        late = [next(attempts) for _ in range(2 * turn)][-1]
        assert late.limit == early.limit
        assert (search._known[late.limit].nogoods is known.nogoods) == kept


def test_room_for_failures_grows_once_half_of_it_is_taken():
    few = niche_nogoods.no_nogoods()
    assert niche_nogoods.with_room(few) is few
    taken = len(few.watched) // 2
    few.counter[niche_nogoods.COUNT] = taken
    few.first[: taken + 1] = 3 * np.arange(taken + 1)
    few.section[: 3 * taken] = few.value[: 3 * taken] = np.arange(3 * taken)
    more = niche_nogoods.with_room(few)
    assert len(more.watched) > len(few.watched)
    assert more.counter[niche_nogoods.COUNT] == taken
    for name in ("section", "value"):
        assert (getattr(more, name)[: 3 * taken] == np.arange(3 * taken)).all()
    assert more.first[taken] == 3 * taken


@pytest.mark.parametrize("pinwheels", [0.0, 0.5])
@pytest.mark.parametrize("count", [50, 200])
def test_boxes_without_a_hole_hardly_need_search(count, pinwheels):
    for seed in range(3):
        planted = instances.perfect_packing(count, seed=seed, pinwheels=pinwheels)
        problem, height = planted_height(planted)
        outcome = solve(NicheSearch, problem, target=height, limit=height, nodes=20 * count)
        assert outcome.peak == height


@pytest.mark.parametrize(("seed", "pinwheels"), [(1, 0.0), (0, 0.3)])
def test_failures_far_away_are_not_to_blame(seed, pinwheels):
    """A box of 600 needs tens of thousands of nodes: what fails goes back to where it began."""
    problem, height = planted_height(instances.perfect_packing(600, seed=seed, pinwheels=pinwheels))
    outcome = solve(NicheSearch, problem, target=height, limit=height, nodes=100_000)
    assert outcome.peak == height


def test_failures_are_recognized_after_changes_elsewhere():
    """A box of 800 needs few nodes: without nogoods it is not packed by two million."""
    problem, height = planted_height(instances.perfect_packing(800, seed=3))
    outcome = solve(NicheSearch, problem, target=height, limit=height, nodes=100_000)
    assert outcome.peak == height


@pytest.mark.slow
def test_an_instance_that_was_open_is_packed_at_its_live_bytes():
    problem = minimalloc("D")
    part = reduce_problem(problem).part_problem(0)[0]
    outcome = solve(NicheSearch, part, target=986_112, limit=986_112)
    assert outcome.peak == 986_112 == part.live_bytes().max()
