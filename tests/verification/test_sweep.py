"""The compiled sweep and the one in Python agree, whatever is wrong with a packing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracles import problems

from cpplan.model.errors import VerificationError
from cpplan.packing.heuristics.greedy import first_fit_by_size
from cpplan.runtime.deadline import Deadline
from cpplan.verification import rectangles
from cpplan.verification.rectangles import Rectangles, all_apart, cut_gaps, find_overlap
from cpplan.verification.verifier import check_offsets
from cpplan.zoo.packing import random_lifespans


@given(problem=problems(), seed=st.integers(0, 1000))
def test_sweep_agrees_with_pairwise_check(problem, seed):
    offsets = np.random.default_rng(seed).integers(0, 30, len(problem))
    filled = cut_gaps(problem)
    assert all_apart(filled, offsets) == (find_overlap(filled, offsets) is None)


@pytest.mark.parametrize("seed", range(3))
def test_sweep_agrees_when_one_buffer_is_moved(seed):
    """Three hundred live at once: the arrays of the sweep grow beyond where they start."""
    problem = random_lifespans(1000, seed=seed, live=300)
    filled = cut_gaps(problem)
    offsets = first_fit_by_size(problem, Deadline(60))
    assert all_apart(filled, offsets)
    random = np.random.default_rng(seed)
    for row in random.integers(0, 1000, 30):
        moved = offsets.copy()
        moved[row] = max(0, moved[row] + random.integers(-2000, 2000))
        assert all_apart(filled, moved) == (find_overlap(filled, moved) is None)


def test_no_rectangles_are_apart():
    none = np.zeros(0, np.int64)
    assert all_apart(Rectangles(none, none, none, none, none), none)


def test_overlap_found_by_the_compiled_sweep_is_named(monkeypatch):
    monkeypatch.setattr(rectangles, "_MANY", 100)
    problem = random_lifespans(200, seed=0)
    offsets = first_fit_by_size(problem, Deadline(60))
    check_offsets(problem, offsets, "mine")
    step = int(problem.lower[7])
    other = next(row for row in problem.live_at(step).tolist() if row != 7)
    offsets[7] = offsets[other]
    with pytest.raises(VerificationError, match="overlap at step"):
        check_offsets(problem, offsets, "mine")
