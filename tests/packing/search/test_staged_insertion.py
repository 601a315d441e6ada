"""Staged insertion keeps packings valid, meets limits where memory is full, and repeats itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.packing_turns import endless, random_problem, stacked

from cpplan.model.problem import Gap, Problem
from cpplan.packing.heuristics.layout import first_fit_in_order
from cpplan.packing.reduction import reduce_problem
from cpplan.packing.search.staged_insertion import StagedInsertion
from cpplan.runtime.deadline import Deadline, TimeUpError
from cpplan.verification.verifier import check_offsets
from cpplan.zoo.packing import random_lifespans


def flat_problem() -> Problem:
    return reduce_problem(random_lifespans(400, seed=2, live=60)).problem


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), aligned=st.booleans())
def test_packings_are_valid_after_any_number_of_moves(seed: int, aligned: bool) -> None:
    problem = reduce_problem(random_problem(30, seed, aligned=aligned)).problem
    search, state = StagedInsertion(problem, seed), stacked(problem)
    for moves in (1, 500, 4000):
        found = search.run(state, moves=moves, target=state.bound, deadline=endless())
        check_offsets(problem, found.offsets, "staged insertion")
        assert found.peak == int((found.offsets + problem.size).max())
        assert state.bound <= found.peak <= state.peak
        state = found


def test_a_hundred_live_buffers_lie_lower_than_by_first_fit() -> None:
    problem = reduce_problem(random_lifespans(1500, seed=5, live=100)).problem
    order = np.argsort(-problem.size * (problem.upper - problem.lower), kind="stable")
    first_fit = int((first_fit_in_order(problem, order, endless()) + problem.size).max())
    state, search = stacked(problem), StagedInsertion(problem, seed=0)
    found = search.run(state, moves=6000, target=state.bound, deadline=endless())
    check_offsets(problem, found.offsets, "staged insertion")
    assert found.found_by == "staged insertion"
    assert found.peak - state.bound < (first_fit - state.bound) / 3


def test_the_same_seed_gives_the_same_packing_in_whatever_portions() -> None:
    problem = flat_problem()
    state = stacked(problem)
    whole = StagedInsertion(problem, 7).run(
        state, moves=10_000, target=state.bound, deadline=endless()
    )
    search, found = StagedInsertion(problem, 7), state
    for _ in range(4):
        found = search.run(found, moves=2500, target=state.bound, deadline=endless())
    assert np.array_equal(whole.offsets, found.offsets)


def test_a_limit_that_is_not_met_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cpplan.packing.search.staged_insertion._PATIENCE", 0)
    problem = flat_problem()
    state, search = stacked(problem), StagedInsertion(problem, 0)
    limits = set()
    for _ in range(8):
        search.run(state, moves=1, target=state.bound, deadline=endless())
        limits.add(search._limit)
    assert len(limits) > 1


def test_it_ends_with_its_deadline_and_keeps_what_it_has() -> None:
    problem = flat_problem()
    state, search = stacked(problem), StagedInsertion(problem, 0)
    first = search.run(state, moves=20_000, target=state.bound, deadline=endless())
    assert state.bound < first.peak < state.peak
    with pytest.raises(TimeUpError):
        search.run(first, moves=100, target=state.bound, deadline=Deadline(0))
    assert search.best(state) == first


def test_gaps_and_fixed_offsets_are_left_to_others() -> None:
    assert StagedInsertion.applies_to(Problem(("a",), [0], [3], [8]))
    assert not StagedInsertion.applies_to(Problem(("a",), [0], [3], [8], gaps={0: [Gap(1, 2)]}))
    assert not StagedInsertion.applies_to(Problem(("a",), [0], [3], [8], fixed={0: 0}))
    assert not StagedInsertion.applies_to(Problem(("a",), [0], [3], [2**42]))


def test_padding_counts_among_the_bytes_that_a_word_holds() -> None:
    names, spans, sizes = ("a", "b", "c"), ([0, 0, 0], [2, 2, 2]), [1, 1, 1]
    assert StagedInsertion.applies_to(Problem(names, *spans, sizes, alignment=[2**40] * 3))
    assert not StagedInsertion.applies_to(Problem(names, *spans, sizes, alignment=[2**41] * 3))


def test_moves_that_look_at_many_rows_end_a_call_and_are_spent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cpplan.packing.search.staged_insertion._ENOUGH", 50_000)
    problem, deadline = flat_problem(), Deadline(1, deterministic=True)
    state, search = stacked(problem), StagedInsertion(problem, 0)
    search.run(state, moves=1, target=state.bound, deadline=deadline)
    stage = search._stage
    assert stage is not None
    assert 0 < stage.moves < 500
    assert 50_000 * 8e-10 < stage.seconds <= 1 - deadline.remaining()
