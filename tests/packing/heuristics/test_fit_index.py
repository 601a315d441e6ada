"""The index finds what looking at every placed buffer finds."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.oracles import problems

from cpplan.model.problem import Problem
from cpplan.packing.heuristics import fit_index_kernel as kernel
from cpplan.packing.heuristics.fit_index import fit_index
from cpplan.packing.heuristics.layout import first_fit_in_order
from cpplan.runtime.deadline import Deadline

NEVER = 2**62


def place(problem: Problem, order: np.ndarray) -> np.ndarray:
    index = fit_index(problem)
    offset, placed = np.zeros(len(problem), np.int64), np.zeros(len(problem), bool)
    for row, at in problem.fixed.items():
        kernel.insert(index, row, at)
        offset[row], placed[row] = at, True
    kernel.place(index, order, 0, offset, placed, NEVER)
    return offset


def random_problem(seed: int, count: int) -> Problem:
    """Lifespans of very different lengths, so that there are several levels."""
    rng = np.random.default_rng(seed)
    lower = rng.integers(0, 4000, count)
    return Problem(
        tuple(f"b{k}" for k in range(count)),
        lower,
        lower + 1 + (2.0 ** rng.uniform(0, 11, count)).astype(int),
        rng.integers(0, 500, count),
        alignment=2 ** rng.integers(0, 5, count),
    )


@given(problem=problems())
def test_first_fit_with_gaps_and_fixed_offsets(problem):
    order = np.lexsort((problem.lower, -problem.size))
    expected = first_fit_in_order(problem, order, Deadline(math.inf))
    filled = np.isin(np.arange(len(problem)), problem.spans.buffer)
    assert place(problem, order)[filled].tolist() == expected[filled].tolist()


@given(seed=st.integers(0, 1000), count=st.integers(1, 300))
def test_first_fit_over_many_levels(seed, count):
    problem = random_problem(seed, count)
    order = np.random.default_rng(seed).permutation(count)
    expected = first_fit_in_order(problem, order, Deadline(math.inf))
    filled = problem.size > 0
    assert place(problem, order)[filled].tolist() == expected[filled].tolist()


def test_removed_buffers_free_their_place():
    problem = random_problem(3, 200)
    order = np.arange(200)
    index = fit_index(problem)
    offset, placed = np.zeros(200, np.int64), np.zeros(200, bool)
    kernel.place(index, order, 0, offset, placed, NEVER)
    first = offset.copy()
    for row in order[100:]:
        kernel.remove(index, row)
        placed[row] = False
    kernel.place(index, order, 0, offset, placed, NEVER)
    assert offset.tolist() == first.tolist()
    for row in order:
        kernel.remove(index, row)
    assert index.bucket_fill.sum() == 0


def test_many_reads_end_a_call_which_the_next_one_goes_on_from():
    problem = random_problem(3, 200)
    order, index = np.arange(200), fit_index(problem)
    offset, placed = np.zeros(200, np.int64), np.zeros(200, bool)
    done, calls = 0, 0
    while done < 200:
        before = done
        done, reads = kernel.place(index, order, done, offset, placed, 500)
        assert before < done == placed.sum()
        assert reads > 500 or done == 200
        calls += 1
    assert calls > 2
    assert offset.tolist() == place(problem, order).tolist()
