"""A plain allocator with lists of holes by size: the first plan of a great many buffers."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from support.cases import seeds
from support.oracles import random_problem

from cpplan.model.problem import Problem
from cpplan.packing.bounds import lower_bound
from cpplan.packing.heuristics.segregated_fit import segregated_fit
from cpplan.runtime.deadline import Deadline
from cpplan.verification.verifier import check_offsets
from cpplan.zoo.packing import random_lifespans

ENDLESS = Deadline(math.inf)


def test_holes_are_used_again_and_joined():
    # a and b leave a hole of 12 bytes below c, where d fits; e goes to the top.
    problem = Problem(
        ("a", "b", "c", "d", "e"),
        lower=[0, 0, 0, 2, 3], upper=[1, 2, 4, 4, 4], size=[4, 8, 2, 12, 1],
    )  # fmt: skip
    assert segregated_fit(problem, ENDLESS).tolist() == [0, 4, 12, 0, 14]


def test_alignment_padding_is_a_hole():
    problem = Problem(("a", "b", "c"), [0, 0, 0], [1, 1, 1], [3, 4, 5], alignment=[1, 8, 1])
    assert segregated_fit(problem, ENDLESS).tolist() == [0, 8, 3]


@pytest.mark.parametrize("seed", seeds(100))
def test_offsets_are_valid_whatever_the_problem(seed):
    """Gaps, alignments, fixed offsets, buffers of no bytes."""
    rng = random.Random(seed)
    problem = random_problem(rng, rng.randint(0, 30))
    check_offsets(problem, segregated_fit(problem, ENDLESS), "segregated_fit")


@pytest.mark.parametrize("live", [5, 500])
@pytest.mark.parametrize("alignment", [1, 64])
def test_many_random_lifespans_take_little_more_than_their_bound(live, alignment):
    problem = random_lifespans(20_000, seed=3, live=live, alignment=alignment)
    offset = segregated_fit(problem, ENDLESS)
    check_offsets(problem, offset, "segregated_fit")
    # Far below one after the other, which is thousands of times the bound.
    assert int((offset + problem.size).max()) <= 1.5 * lower_bound(problem).value


def test_segregated_fit_is_deterministic():
    problem = random_lifespans(3000, seed=5)
    assert np.array_equal(segregated_fit(problem, ENDLESS), segregated_fit(problem, ENDLESS))
