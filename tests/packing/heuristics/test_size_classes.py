"""Slots of one size each: the first plan of a great many buffers where nothing is compiled."""

from __future__ import annotations

import random

import numpy as np
import pytest
from support.cases import seeds
from support.oracles import random_problem

from cpplan.model.problem import Problem
from cpplan.packing.bounds import lower_bound
from cpplan.packing.heuristics.size_classes import size_classes
from cpplan.runtime.deadline import Deadline, TimeUpError
from cpplan.verification.verifier import check_offsets
from cpplan.zoo.packing import random_lifespans


def test_a_slot_is_handed_on_as_soon_as_it_is_free():
    # a and b take two slots of 5 bytes; c follows a, which ends first, and d follows b.
    problem = Problem(
        ("a", "b", "c", "d"), lower=[0, 1, 2, 4], upper=[2, 4, 5, 6], size=[4, 5, 5, 4]
    )
    assert size_classes(problem, Deadline(60)).tolist() == [0, 5, 0, 5]


def test_sizes_far_apart_share_no_slot():
    # One slot of 100 bytes and one of 2, not two of 100.
    problem = Problem(("a", "b", "c"), lower=[0, 0, 1], upper=[2, 1, 2], size=[100, 2, 1])
    offset = size_classes(problem, Deadline(60))
    assert (offset + problem.size).max() <= 103
    check_offsets(problem, offset, "size_classes")


@pytest.mark.parametrize("seed", seeds(100))
def test_offsets_are_valid_whatever_the_problem(seed):
    """Gaps, alignments, fixed offsets, buffers of no bytes."""
    rng = random.Random(seed)
    problem = random_problem(rng, rng.randint(0, 30))
    check_offsets(problem, size_classes(problem, Deadline(60)), "size_classes")


@pytest.mark.parametrize("live", [5, 500])
@pytest.mark.parametrize("alignment", [1, 64])
def test_many_random_lifespans_take_a_few_times_their_bound(live, alignment):
    problem = random_lifespans(20_000, seed=3, live=live, alignment=alignment)
    offset = size_classes(problem, Deadline(60))
    check_offsets(problem, offset, "size_classes")
    assert int((offset + problem.size).max()) <= 4 * lower_bound(problem).value


def test_time_for_one_division_is_enough():
    """One division of 1,000 buffers counts as a millisecond of the deterministic clock."""
    problem = random_lifespans(1000, seed=1)
    deadline = Deadline(0.0015, deterministic=True)
    check_offsets(problem, size_classes(problem, deadline), "size_classes")
    with pytest.raises(TimeUpError):
        size_classes(problem, Deadline(0.0005, deterministic=True))


def test_size_classes_are_deterministic():
    problem = random_lifespans(3000, seed=5)
    one, other = (size_classes(problem, Deadline(60)) for _ in range(2))
    assert np.array_equal(one, other)
