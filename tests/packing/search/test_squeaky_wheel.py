"""The squeaky wheel keeps packings valid, lowers what first fit reaches, and repeats itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.packing_turns import endless, random_problem, stacked

from cpplan.model.problem import Gap, Problem
from cpplan.packing.heuristics.layout import first_fit_in_order
from cpplan.packing.reduction import reduce_problem
from cpplan.packing.search.squeaky_wheel import SqueakyWheel
from cpplan.runtime.deadline import Deadline, TimeUpError
from cpplan.verification.verifier import check_offsets
from cpplan.zoo.packing import random_lifespans


def flat_problem() -> Problem:
    return reduce_problem(random_lifespans(400, seed=2, live=60)).problem


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), aligned=st.booleans())
def test_packings_are_valid_after_any_number_of_rounds(seed: int, aligned: bool) -> None:
    problem = reduce_problem(random_problem(30, seed, aligned=aligned)).problem
    search, state = SqueakyWheel(problem, seed), stacked(problem)
    for moves in (1, 2, 30, 100):
        found = search.run(state, moves=moves, target=state.bound, deadline=endless())
        check_offsets(problem, found.offsets, "squeaky wheel")
        assert found.peak == int((found.offsets + problem.size).max())
        assert state.bound <= found.peak <= state.peak
        state = found


def test_hundreds_of_live_buffers_lie_lower_than_by_first_fit() -> None:
    problem = reduce_problem(random_lifespans(1500, seed=5, live=250)).problem
    order = np.argsort(-problem.size * (problem.upper - problem.lower), kind="stable")
    first_fit = int((first_fit_in_order(problem, order, endless()) + problem.size).max())
    state, search = stacked(problem), SqueakyWheel(problem, seed=0)
    found = search.run(state, moves=30, target=state.bound, deadline=endless())
    assert found.found_by == "squeaky wheel"
    assert found.peak - state.bound < (first_fit - state.bound) / 2


def test_the_same_seed_gives_the_same_packing_in_whatever_portions() -> None:
    problem = flat_problem()
    state = stacked(problem)
    whole = SqueakyWheel(problem, 7).run(state, moves=40, target=state.bound, deadline=endless())
    search, found = SqueakyWheel(problem, 7), state
    for _ in range(40):
        found = search.run(found, moves=1, target=state.bound, deadline=endless())
    assert np.array_equal(whole.offsets, found.offsets)


def test_it_ends_with_its_deadline_and_keeps_what_it_has() -> None:
    problem = flat_problem()
    state, search = stacked(problem), SqueakyWheel(problem, 0)
    first = search.run(state, moves=1, target=state.bound, deadline=endless())
    assert first.peak > state.bound
    with pytest.raises(TimeUpError):
        search.run(first, moves=100, target=state.bound, deadline=Deadline(0))
    assert search.best(state) == first


def test_gaps_and_fixed_offsets_are_left_to_others() -> None:
    assert SqueakyWheel.applies_to(Problem(("a",), [0], [3], [8]))
    assert not SqueakyWheel.applies_to(Problem(("a",), [0], [3], [8], gaps={0: [Gap(1, 2)]}))
    assert not SqueakyWheel.applies_to(Problem(("a",), [0], [3], [8], fixed={0: 0}))
