"""Guided ejection keeps packings valid, finds what brute force finds, and repeats itself."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.packing_turns import endless, random_problem, stacked

from cpplan.packing.heuristics.layout import first_fit_in_order
from cpplan.packing.search.ejection_search import EjectionSearch
from cpplan.packing.search.outcome import Outcome
from cpplan.runtime.deadline import Deadline, TimeUpError
from cpplan.verification.verifier import check_offsets


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), aligned=st.booleans())
def test_packings_are_valid_after_any_number_of_moves(seed: int, aligned: bool) -> None:
    problem = random_problem(30, seed, aligned=aligned)
    search, state = EjectionSearch(problem, seed), stacked(problem)
    for moves in (1, 7, 300, 3000):
        found = search.run(state, moves=moves, target=state.bound, deadline=endless())
        check_offsets(problem, found.offsets, "ejection")
        assert found.peak == int((found.offsets + problem.size).max())
        assert state.bound <= found.peak <= state.peak
        state = found


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_as_low_as_any_order_of_first_fit_on_ten_problems(seed: int, aligned: bool) -> None:
    problem = random_problem(5, seed, aligned=aligned)
    least = min(
        int((first_fit_in_order(problem, order, endless()) + problem.size).max())
        for order in permutations(range(5))
    )
    search = EjectionSearch(problem, seed)
    found = search.run(stacked(problem), moves=5000, target=least, deadline=endless())
    assert found.peak == least


def test_two_runs_make_one_and_both_repeat_themselves() -> None:
    problem = random_problem(80, seed=1)
    state = stacked(problem)

    def run(*turns: int) -> Outcome:
        search, reached = EjectionSearch(problem, seed=3), state
        for moves in turns:
            reached = search.run(reached, moves=moves, target=state.bound, deadline=endless())
        return reached

    assert run(600, 400).offsets.tolist() == run(1000).offsets.tolist()


def test_search_continues_from_a_lower_packing() -> None:
    problem = random_problem(60, seed=2)
    search, state = EjectionSearch(problem, seed=0), stacked(problem)
    search.run(state, moves=1, target=state.bound, deadline=endless())
    other = EjectionSearch(problem, seed=1).run(
        state, moves=4000, target=state.bound, deadline=endless()
    )
    assert search.run(other, moves=1, target=state.bound, deadline=endless()).peak <= other.peak


def test_expired_deadline_keeps_the_lower_packing() -> None:
    problem = random_problem(80, seed=4)
    search, state = EjectionSearch(problem, seed=0), stacked(problem)
    with pytest.raises(TimeUpError):
        search.run(state, moves=10**6, target=0, deadline=Deadline(0.5, deterministic=True))
    assert search.best(state).peak < state.peak
