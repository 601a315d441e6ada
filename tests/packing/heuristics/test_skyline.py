"""Lowest offset first over a skyline places as the plain one does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpplan.model.problem import Problem
from cpplan.packing.heuristics import skyline as skyline_module
from cpplan.packing.heuristics.by_lowest_offset import place_lowest_first
from cpplan.packing.heuristics.skyline import Skyline, lifespan_tree
from cpplan.runtime.deadline import Deadline, TimeUpError
from cpplan.verification.verifier import check_offsets
from cpplan.zoo.packing import random_lifespans


def random_problem(count: int, seed: int, *, aligned: bool = False) -> Problem:
    """Mostly short lifespans, some that span nearly all; few distinct sizes, so that tops meet."""
    random = np.random.default_rng(seed)
    lower = random.integers(0, 2 * count, count)
    width = np.where(random.random(count) < 0.2, count, random.integers(1, 6, count))
    size = random.integers(1, 6, count)
    alignment = random.choice([1, 2, 4], count) if aligned else None
    return Problem(tuple(map(str, range(count))), lower, lower + width, size, alignment)


@given(seed=st.integers(0, 10_000), count=st.integers(1, 60))
def test_skyline_agrees_with_plain_lowest_first(seed: int, count: int) -> None:
    problem = random_problem(count, seed)
    ranked = np.random.default_rng(seed).permutation(count)
    expected = place_lowest_first(problem, ranked, Deadline(60))
    assert expected is not None
    assert Skyline(problem).place(ranked).tolist() == expected.tolist()


@given(seed=st.integers(0, 10_000))
def test_alignments_are_kept(seed: int) -> None:
    problem = random_problem(40, seed, aligned=True)
    offsets = Skyline(problem).place(np.random.default_rng(seed).permutation(40))
    check_offsets(problem, offsets, "skyline")


@given(seed=st.integers(0, 10_000))
def test_a_limit_is_kept_or_refused(seed: int) -> None:
    problem = random_problem(30, seed)
    skyline, ranked = Skyline(problem), np.arange(30)
    free = skyline.place(ranked)
    peak = int((free + problem.size).max())
    assert skyline.place(ranked, peak - 1) is None
    # What was given up halfway leaves nothing behind.
    assert skyline.place(ranked, peak).tolist() == free.tolist()


def test_empty_problem_has_an_empty_skyline() -> None:
    problem = Problem((), lower=[], upper=[], size=[])
    assert Skyline(problem).place(np.arange(0)).tolist() == []


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 13, 100])
def test_every_buffer_is_at_one_leaf_within_its_boxes(count: int) -> None:
    problem = random_problem(count, seed=count)
    row, box = lifespan_tree(problem.lower, problem.upper)
    assert sorted(row[row >= 0].tolist()) == list(range(count))
    for leaf in np.flatnonzero(row >= 0):
        node, lower, upper = leaf + len(row), problem.lower[row[leaf]], problem.upper[row[leaf]]
        while node:
            assert box[0, node] <= lower <= box[1, node]
            assert box[2, node] <= upper <= box[3, node]
            node //= 2


def test_time_may_be_up_in_the_middle_of_a_placement(monkeypatch):
    monkeypatch.setattr(skyline_module, "_SLICE", 4)
    problem = random_lifespans(200, seed=0)
    skyline, ranked = Skyline(problem), np.arange(200)
    whole = skyline.place(ranked)
    with pytest.raises(TimeUpError):
        skyline.place(ranked, deadline=Deadline(0))
    # In slices, and after one that was given up, the same placement.
    assert skyline.place(ranked, deadline=Deadline(60)).tolist() == whole.tolist()
    with pytest.raises(TimeUpError):
        Skyline(problem, Deadline(0))
