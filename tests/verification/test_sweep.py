"""The sweeps over rectangles, in Python, in arrays and compiled, agree whatever is wrong."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracles import problems

from cpplan.model.errors import VerificationError
from cpplan.packing.heuristics.by_size import first_fit_by_size
from cpplan.runtime.deadline import Deadline
from cpplan.verification import rectangles
from cpplan.verification.rectangles import all_apart, apart_in_arrays, cut_gaps, find_overlap
from cpplan.verification.verifier import check_offsets
from cpplan.zoo.packing import random_lifespans

SWEEPS = (all_apart, apart_in_arrays)


@given(problem=problems(), seed=st.integers(0, 1000))
def test_sweeps_agree_with_pairwise_check(problem, seed):
    offsets = np.random.default_rng(seed).integers(0, 30, len(problem))
    filled = cut_gaps(problem)
    apart = find_overlap(filled, offsets) is None
    assert [sweep(filled, offsets) for sweep in SWEEPS] == [apart, apart]


@pytest.mark.parametrize("sweep", SWEEPS)
@pytest.mark.parametrize("seed", range(3))
def test_sweep_agrees_when_one_buffer_is_moved(seed, sweep):
    """Three hundred live at once: the arrays of the sweep grow beyond where they start."""
    problem = random_lifespans(1000, seed=seed, live=300)
    filled = cut_gaps(problem)
    offsets = first_fit_by_size(problem, Deadline(60))
    assert sweep(filled, offsets)
    random = np.random.default_rng(seed)
    for row in random.integers(0, 1000, 30):
        moved = offsets.copy()
        moved[row] = max(0, moved[row] + random.integers(-2000, 2000))
        assert sweep(filled, moved) == (find_overlap(filled, moved) is None)


def test_no_rectangles_are_apart():
    none = np.zeros(0, np.int64)
    assert apart_in_arrays(rectangles.Rectangles(none, none, none, none, none), none)


def test_nothing_is_compiled_to_check_a_packing(monkeypatch):
    """A run whose time is up has no seconds left for that."""
    monkeypatch.setattr(rectangles, "_MANY", 0)
    monkeypatch.setattr(rectangles, "_VERY_MANY", 0)
    monkeypatch.setattr(rectangles, "_sweep_is_compiled", lambda: False)
    monkeypatch.setattr(rectangles, "all_apart", None)
    filled = cut_gaps(random_lifespans(20, seed=0))
    assert find_overlap(filled, np.arange(20) * 2**30) is None


def test_compiler_is_not_imported_to_check_a_hundred_thousand(monkeypatch):
    """To import it takes longer than the check."""
    monkeypatch.setattr(rectangles, "_sweep_is_compiled", None)
    monkeypatch.delitem(sys.modules, "llvmlite", raising=False)
    filled = cut_gaps(random_lifespans(3000, seed=0))
    assert find_overlap(filled, np.arange(3000) * 2**40) is None


@pytest.mark.parametrize("compiled", [True, False])
def test_overlap_found_by_a_quick_sweep_is_named(monkeypatch, compiled):
    monkeypatch.setattr(rectangles, "_MANY", 100)
    monkeypatch.setattr(rectangles, "_VERY_MANY", 100)
    monkeypatch.setattr(rectangles, "_sweep_is_compiled", lambda: compiled)
    problem = random_lifespans(200, seed=0)
    offsets = first_fit_by_size(problem, Deadline(60))
    check_offsets(problem, offsets, "mine")
    step = int(problem.lower[7])
    other = next(row for row in problem.live_at(step).tolist() if row != 7)
    offsets[7] = offsets[other]
    with pytest.raises(VerificationError, match="overlap at step"):
        check_offsets(problem, offsets, "mine")
