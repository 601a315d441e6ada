"""The model of candidates and offsets at one order: by hand, and against those it contains."""

from __future__ import annotations

import random

import numpy as np
import pytest
from ortools.sat.python import cp_model
from support.cases import seeds
from support.layouts_oracle import check_shifts
from support.oracles import brute_force_peak, random_problem
from support.sharing_instances import setting
from support.sharing_oracle import least_peak, may_lie, random_sharing_graph
from support.solvers import new_solver

from cpplan.aliasing.cp_sat import sharing_model
from cpplan.aliasing.distances import allowed_shifts
from cpplan.model.problem import Problem
from cpplan.packing.reduction import address_unit
from cpplan.runtime.budget import Budget
from cpplan.runtime.cp_sat_proof import prove_peak
from cpplan.runtime.deadline import Deadline
from formulations.packing import build as build_packing
from formulations.sharing import build


def minimise(problem: Problem, shifts=None, *, unit: int = 1, upper: int | None = None) -> int:
    """The proved optimum; the offsets are checked pair by pair."""
    shifts = shifts or {}
    limit = int((problem.size + problem.alignment - 1).sum()) if upper is None else upper
    sharing, run = build(problem, shifts, unit=unit, upper=limit), new_solver()
    assert run.solve(sharing.model) == cp_model.OPTIMAL
    offsets = sharing.extract(run)
    check_shifts(problem, shifts, offsets)
    peak = int((offsets + problem.size).max(initial=0))
    assert (
        sharing.in_bytes(run.objective_value) == sharing.in_bytes(run.best_objective_bound) == peak
    )
    return peak


def three() -> Problem:
    """Two parts (2 and 4 B) and their whole (6 B), all live at once."""
    return Problem(("a", "b", "y"), lower=[0, 0, 0], upper=[1, 1, 1], size=[2, 4, 6])


def test_both_parts_in_their_whole():
    assert minimise(three(), {(0, 2): [0], (1, 2): [-2]}) == 6


def test_one_part_in_the_whole_and_the_other_beside_it():
    assert minimise(three(), {(0, 2): [0]}) == 10
    assert minimise(three(), {(1, 2): [-2]}) == 8


def test_without_distances_all_are_stacked():
    assert minimise(three()) == 12


def test_two_parts_that_would_meet_within_the_whole():
    """Both fit there alone, but over one another they may not lie: b in y, a beside it."""
    assert minimise(three(), {(0, 2): [0], (1, 2): [0]}) == 8
    assert minimise(three(), {(0, 2): [0], (1, 2): [0], (0, 1): [0]}) == 6


def test_the_distance_that_serves_is_chosen():
    """a may lie at either end of y; b, only at its beginning."""
    assert minimise(three(), {(0, 2): [-4, 0], (1, 2): [0]}) == 6


def test_alignment_forbids_a_distance():
    """b at byte 2 of y cannot be a multiple of 4 while y is one: y at 0, b at 8, a in y."""
    problem = Problem(
        ("a", "b", "y"), lower=[0] * 3, upper=[1] * 3, size=[2, 4, 6], alignment=[1, 4, 4]
    )
    assert minimise(problem, {(0, 2): [0], (1, 2): [-2]}) == 10


def test_a_reach_below_zero_is_not_used():
    """y 4 B above b, which is fixed to nothing: b at 0 and y at 4."""
    problem = Problem(("b", "y"), lower=[0, 0], upper=[1, 1], size=[8, 8])
    assert minimise(problem, {(0, 1): [4]}) == 12
    assert minimise(problem, {(0, 1): [-4]}) == 12


def test_below_the_optimum_is_infeasible():
    sharing = build(three(), {(0, 2): [0]}, unit=2, upper=9)
    assert new_solver().solve(sharing.model) == cp_model.INFEASIBLE
    assert new_solver().solve(build(three(), {}, unit=2, upper=4).model) == cp_model.INFEASIBLE


def test_a_lower_bound_above_the_limit_is_infeasible():
    sharing = build(three(), {}, unit=2, upper=12, lower=14)
    assert new_solver().solve(sharing.model) == cp_model.INFEASIBLE


@pytest.mark.parametrize("seed", seeds(20))
def test_without_distances_it_is_the_packing_model(seed):
    problem = random_problem(random.Random(2000 + seed), 1 + seed % 6)
    plain = Problem(problem.names, problem.lower, problem.upper, problem.size, problem.alignment)
    plain = plain.subset(np.flatnonzero(plain.size))
    limit = int((plain.size + plain.alignment).sum())
    packing, run = (
        build_packing(plain, unit=address_unit(plain), upper=limit, minimise=True),
        new_solver(),
    )
    assert run.solve(packing.model) == cp_model.OPTIMAL
    assert minimise(plain) == packing.proved_bound(run) == brute_force_peak(plain)


@pytest.mark.parametrize("seed", seeds(20))
def test_every_distance_is_allowed_and_the_peak_at_most_the_oracle_s(seed):
    """The model has every layout of the oracle, and such as no op names: copies that meet."""
    found = setting(random_sharing_graph(seed, 1 + seed % 5))
    problem = found.problem
    shifts = allowed_shifts(problem, found.candidates, found.rules)
    if len(problem) <= 7:
        assert minimise(problem, shifts) <= least_peak(found.graph, found.program.order)
        for (i, j), distances in shifts.items():
            names = problem.names[i], problem.names[j]
            assert all(may_lie(found.graph, found.program.order, *names, d) for d in distances)


def test_the_search_starts_from_what_it_is_given_and_stops_at_a_bound():
    start = np.array([0, 2, 6])
    proof = prove_peak(sharing_model(three(), {}), start, Budget(Deadline(60)), bound=12)
    assert proof.best is start
    assert (proof.peak, proof.bound) == (12, 12)


@pytest.mark.parametrize("size", [1, 3, 1000, 2**40])
def test_the_search_counts_in_units(size):
    """The same layout at every scale; alignments that divide nothing shrink the unit."""
    problem = Problem(three().names, [0] * 3, [1] * 3, three().size * size)
    shifts = {(0, 2): [0], (1, 2): [-2 * size]}
    start = np.array([0, 2, 6]) * size
    proof = prove_peak(sharing_model(problem, shifts), start, Budget(Deadline(60)))
    assert proof.peak == proof.bound == 6 * size


def test_a_unit_fits_every_alignment_after_the_last_has_shrunk_it():
    """12 B at 0 and 18, past which 32 is the first multiple of 4: a grid of 6 B misses it."""
    problem = Problem(("a", "b", "c"), [0] * 3, [1] * 3, [12] * 3, [18, 18, 4])
    proof = prove_peak(sharing_model(problem, {}), np.array([0, 18, 100]), Budget(Deadline(60)))
    assert sorted(proof.best.tolist()) == [0, 18, 32]
    assert (proof.peak, proof.bound) == (44, 44)
