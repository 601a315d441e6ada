"""The merged problem: its layouts are exactly those that are valid at every size."""

from __future__ import annotations

import random

import numpy as np
import pytest
from support.cases import seeds
from support.oracles import clashes
from support.sizes_oracle import apart, arenas, random_sizes

from cpplan.model.problem import Gap, Problem
from cpplan.packing.sizes.size_set import SizeSet


@pytest.mark.parametrize("seed", seeds(30))
def test_pairs_are_apart_in_the_merged_problem_as_they_are_at_some_size(seed):
    problem, bytes = random_sizes(random.Random(seed), 2 + seed % 5)
    merged = SizeSet(problem, bytes).merged
    for (one, other), forbidden in apart(problem, bytes).items():
        # Compared as the set of differences between two offsets that are ruled out.
        wanted = {d for low, high in forbidden for d in range(low + 1, high)}
        found = {d for low, high in clashes(merged, one, other) for d in range(low + 1, high)}
        assert found == wanted


def test_without_empty_buffers_lifespans_and_gaps_are_the_given_ones():
    problem = Problem(("a", "b"), [0, 1], [4, 3], [0, 0], gaps={0: [Gap(1, 2)]})
    merged = SizeSet(problem, np.array([[1, 9], [5, 2]])).merged
    assert merged.size.tolist() == [5, 9]
    assert merged.lower.tolist() == [0, 1]
    assert merged.upper.tolist() == [4, 3]
    assert merged.gaps == {0: [Gap(1, 2)]}


def test_a_size_that_is_nowhere_larger_than_another_adds_nothing():
    """At size 0 the first buffer is empty, but at size 1 both have more."""
    problem = Problem(("a", "b"), [0, 0], [1, 1], [0, 0])
    merged = SizeSet(problem, np.array([[0, 3], [4, 5]])).merged
    assert merged.upper.tolist() == [1, 1]
    assert not merged.gaps


def test_patterns_of_empty_buffers_follow_one_another():
    """a is empty during the first run, b during the second; c has 1 in one and 2 in the other."""
    problem = Problem(("a", "b", "c"), [0, 1, 0], [2, 2, 3], [0, 0, 0])
    merged = SizeSet(problem, np.array([[0, 7, 1], [5, 0, 2]])).merged
    assert merged.size.tolist() == [5, 7, 2]
    assert merged.upper.tolist() == [5, 5, 6]
    assert merged.gaps == {
        0: [Gap(0, 2), Gap(2, 3)],
        1: [Gap(2, 4), Gap(4, 5)],
        2: [Gap(0, 3, 0, 1)],
    }


@pytest.mark.parametrize("seed", range(20))
def test_arenas_are_the_highest_ends(seed):
    rng = random.Random(seed)
    problem, bytes = random_sizes(rng, rng.randint(0, 5))
    offset = np.array([rng.randint(0, 20) for _ in range(len(problem))], np.int64)
    assert tuple(SizeSet(problem, bytes).arenas(offset)) == arenas(bytes, offset)
