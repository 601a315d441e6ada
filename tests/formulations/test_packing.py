"""The packing model alone: by hand, against brute force, and what its hint is worth."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ortools.sat.python import cp_model
from support.instances import perfect_packing, triangle

from cpplan.model.problem import Problem
from cpplan.packing.heuristics.by_lowest_offset import PREORDERS, preorder
from cpplan.packing.reduction import address_unit
from cpplan.verification.verifier import check_offsets
from formulations.packing import build, equal_buffers


def solve(packing, *, fixed_search: bool = False):
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.presolve_inclusion_work_limit = 0
    if fixed_search:
        solver.parameters.search_branching = cp_model.FIXED_SEARCH
    return solver, solver.solve(packing.model)


def minimise(problem: Problem, upper: int | None = None) -> int:
    limit = int(problem.size.sum() + problem.alignment.sum()) if upper is None else upper
    limit += max((at + int(problem.size[row]) for row, at in problem.fixed.items()), default=0)
    packing = build(problem, unit=address_unit(problem), upper=limit, minimise=True)
    solver, status = solve(packing)
    assert status == cp_model.OPTIMAL
    offsets = packing.extract(solver)
    check_offsets(problem, offsets, "formulation")
    peak = int((offsets + problem.size).max(initial=0))
    assert packing.proved_bound(solver) == peak
    return peak


def test_two_buffers_that_meet_are_stacked():
    problem = Problem(("a", "b"), lower=[0, 1], upper=[2, 3], size=[4, 8])
    assert minimise(problem) == 12


def test_two_buffers_that_do_not_meet_share():
    problem = Problem(("a", "b"), lower=[0, 2], upper=[2, 3], size=[4, 8])
    assert minimise(problem) == 8


def test_triangle_needs_three():
    assert minimise(triangle()) == 3


def test_own_alignments_count():
    """TVM's planner puts b at 16; b at 0 and a behind it need 14."""
    problem = Problem(("a", "b"), lower=[0, 0], upper=[1, 1], size=[10, 4], alignment=[1, 16])
    assert minimise(problem) == 14


def test_fixed_buffer_stays_and_may_be_out_of_reach():
    problem = Problem(("a", "b"), lower=[0, 0], upper=[1, 1], size=[4, 8], fixed={0: 6})
    assert minimise(problem) == 18
    _, status = solve(build(problem, unit=2, upper=9))
    assert status == cp_model.INFEASIBLE


def test_a_buffer_larger_than_the_limit_is_infeasible():
    problem = Problem(("a",), lower=[0], upper=[1], size=[8])
    _, status = solve(build(problem, unit=8, upper=7))
    assert status == cp_model.INFEASIBLE


@pytest.mark.parametrize("word", PREORDERS)
def test_every_preorder_finds_what_fits_and_proves_what_does_not(word):
    problem = perfect_packing(0, 30)
    order = preorder(problem, word)
    for upper, expected in ((4096, cp_model.OPTIMAL), (4095, cp_model.INFEASIBLE)):
        packing = build(problem, unit=1, upper=upper, preorder=order)
        _, status = solve(packing, fixed_search=True)
        assert status == expected


def test_the_unit_keeps_sizes_that_are_not_on_the_grid():
    """Alignment 4; sizes 5 and 6 round to 8: one lies at 0, one at 8; the peak is 13, not 16."""
    problem = Problem(("a", "b"), lower=[0, 0], upper=[1, 1], size=[5, 6], alignment=[4, 4])
    assert address_unit(problem) == 8
    assert minimise(problem) == 13


def test_equal_buffers_are_alike_in_every_respect():
    problem = Problem(
        ("a", "b", "c", "d", "e"),
        lower=[0, 0, 0, 0, 0],
        upper=[1, 1, 2, 1, 1],
        size=[4, 4, 4, 4, 4],
        alignment=[1, 1, 1, 2, 1],
        fixed={4: 0},
    )
    assert equal_buffers(problem) == [[0, 1]]


@pytest.mark.parametrize("proved", [12, 2**53 - 1, 2**53 + 3, 2**60 + 2**7 + 2**6 + 1, 2**61 - 1])
def test_a_bound_that_no_float_holds_is_not_rounded_up(proved: int) -> None:
    packing = build(triangle(), unit=1, upper=3, minimise=True)
    bound = packing.proved_bound(SimpleNamespace(best_objective_bound=float(proved)))
    assert proved - 2 ** max(0, proved.bit_length() - 52) <= bound <= proved
    assert bound == proved or proved > 2**53
