"""Priority search never ends above where it started, keeps its count, and repeats itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.published import DATASETS

import cpplan
from cpplan.model.problem import Gap, Problem
from cpplan.packing.bounds import lower_bound
from cpplan.packing.heuristics.bump_allocator import bump
from cpplan.packing.reduction import reduce_problem
from cpplan.packing.search.outcome import Outcome
from cpplan.packing.search.priority_search import PrioritySearch
from cpplan.program.anf import to_anf
from cpplan.program.liveness import to_problem
from cpplan.runtime.deadline import Deadline, TimeUpError
from cpplan.verification.verifier import check_offsets


def layers(count: int, seed: int) -> Problem:
    """Forward, each layer keeps one buffer for its backward and uses a short one in both."""
    random = np.random.default_rng(seed)
    kept, short = random.integers(1, 100, (2, count))
    step = np.arange(count)
    lower = np.concatenate([step, step, 2 * count - 1 - step])
    upper = np.concatenate([2 * count - step, step + 2, 2 * count + 1 - step])
    size = np.concatenate([kept, short, short])
    return Problem(tuple(map(str, range(3 * count))), lower, upper, size)


def start(problem: Problem) -> Outcome:
    offsets = bump(problem)
    return Outcome(offsets, int((offsets + problem.size).max()), lower_bound(problem).value)


@settings(max_examples=20)
@given(seed=st.integers(0, 1000), aligned=st.booleans())
def test_packings_are_valid_and_near_the_live_bytes(seed: int, aligned: bool) -> None:
    problem = layers(20, seed).aligned_to(8 if aligned else 1)
    state = start(problem)
    found = PrioritySearch(problem, seed).run(
        state, moves=200, target=state.bound, deadline=Deadline(60, deterministic=True)
    )
    check_offsets(problem, found.offsets, "priority search")
    assert found.peak == int((found.offsets + problem.size).max())
    assert state.bound <= found.peak <= 1.05 * state.bound


def test_two_runs_make_one_and_both_repeat_themselves() -> None:
    problem = layers(40, seed=1)
    state = start(problem)

    def run(*turns: int) -> Outcome:
        search, reached = PrioritySearch(problem, seed=3), state
        for moves in turns:
            deadline = Deadline(60, deterministic=True)
            reached = search.run(reached, moves=moves, target=0, deadline=deadline)
        return reached

    assert run(30, 30).offsets.tolist() == run(60).offsets.tolist()


def test_expired_deadline_keeps_the_lower_packing() -> None:
    problem = layers(40, seed=1)
    state, search = start(problem), PrioritySearch(problem, seed=0)
    with pytest.raises(TimeUpError):
        search.run(state, moves=10**6, target=0, deadline=Deadline(0.01, deterministic=True))
    assert search.best(state).peak < state.peak


def test_gaps_and_fixed_offsets_are_not_applied_to() -> None:
    columns = ("a", "b"), [0, 1], [4, 3], [8, 4]
    assert PrioritySearch.applies_to(Problem(*columns))
    assert not PrioritySearch.applies_to(Problem(*columns, gaps={0: [Gap(1, 2)]}))
    assert not PrioritySearch.applies_to(Problem(*columns, fixed={0: 0}))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2", "lstm", "vit_b_16"])
def test_training_graphs_reach_their_live_bytes(name: str) -> None:
    graph = cpplan.load(DATASETS / "zoo" / f"{name}.train.json.gz")
    problem = reduce_problem(to_problem(to_anf(graph))).problem
    state = start(problem)
    deadline = Deadline(60, deterministic=True)
    found = PrioritySearch(problem, seed=0).run(
        state, moves=1000, target=state.bound, deadline=deadline
    )
    check_offsets(problem, found.offsets, "priority search")
    assert found.peak == state.bound
