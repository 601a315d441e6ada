"""Reductions keep the optimum and every solution."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given
from support.instances import perfect_packing, triangle
from support.oracles import brute_force_peak, problems, random_problem

from cpplan.model.problem import Gap, Problem
from cpplan.packing.bounds import lower_bound
from cpplan.packing.heuristics.greedy import first_fit_by_size
from cpplan.packing.reduction import address_unit, reduce_problem
from cpplan.runtime.deadline import Deadline
from cpplan.verification.verifier import check_offsets


@given(problems())
def test_a_packing_of_the_reduced_problem_is_one_of_the_original(problem):
    reduction = reduce_problem(problem)
    offsets = first_fit_by_size(reduction.problem, Deadline(60))
    check_offsets(problem, reduction.restore(offsets, problem), "restored")


@given(problems(most=5))
def test_the_optimum_stays(problem):
    reduction = reduce_problem(problem)
    whole = brute_force_peak(problem)
    ends = [at + int(problem.size[row]) for row, at in problem.fixed.items()]
    least = max([int(problem.size.max(initial=0)), *ends], default=0)
    assert max(brute_force_peak(reduction.problem), least) == whole


@given(problems())
def test_the_bound_stays(problem):
    reduced = lower_bound(reduce_problem(problem).problem).value
    assert reduced <= lower_bound(problem).value
    if len(reduce_problem(problem).rows) == len(problem):
        assert reduced == lower_bound(problem).value


@given(problems(most=5))
def test_the_address_unit_loses_no_optimum(problem):
    """Rounded down to units, an optimal layout still exists: so brute force over units agrees."""
    unit = address_unit(problem)
    assert all(unit % a == 0 or a % unit == 0 for a in problem.alignment.tolist())
    if unit > 1 and not (problem.size % unit).any():
        scaled = Problem(
            problem.names,
            problem.lower,
            problem.upper,
            problem.size // unit,
            np.maximum(1, problem.alignment // unit),
            {
                row: [Gap(g.lower, g.upper, g.begin // unit, g.end // unit) for g in gaps]
                for row, gaps in problem.gaps.items()
            },
            {row: at // unit for row, at in problem.fixed.items()},
        )
        assert brute_force_peak(scaled) * unit == brute_force_peak(problem)


def test_sections_are_the_maximal_live_sets():
    """b starts before a ends (one section); c starts when both have gone (another part)."""
    problem = Problem(("a", "b", "c"), lower=[0, 5, 20], upper=[10, 15, 30], size=[1, 1, 1])
    reduction = reduce_problem(problem)
    assert len(reduction.step) == 2
    assert reduction.problem.lower.tolist() == [0, 0, 1]
    assert reduction.problem.upper.tolist() == [1, 1, 2]
    assert reduction.part.tolist() == [0, 0, 1]


def test_a_gap_keeps_its_buffer_in_one_part():
    reduction = reduce_problem(triangle())
    assert reduction.part.tolist() == [0, 0, 0]
    assert reduction.problem.gaps == {0: [Gap(1, 2)]}


def test_sections_report_a_step_at_which_their_buffers_are_live():
    for seed in range(50):
        problem = random_problem(random.Random(seed), 6)
        reduction = reduce_problem(problem)
        for section, step in enumerate(reduction.step.tolist()):
            live = set(reduction.problem.live_at(section).tolist())
            assert set(reduction.rows[sorted(live)].tolist()) == set(problem.live_at(step).tolist())


def test_dense_instances_shrink_to_few_sections():
    problem = perfect_packing(0, 100, steps=100_000)
    assert len(reduce_problem(problem).step) < 100
