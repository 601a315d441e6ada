"""The rematerialization model alone: by hand, against brute force, published cases, its hint."""

from __future__ import annotations

import pytest
from ortools.sat.python import cp_model
from support.cases import seeds
from support.published import remat_chains
from support.remat_oracle import (
    cheapest_schedule,
    interesting_limits,
    random_remat_problem,
    remat_chain,
)
from support.solvers import new_solver

from cpplan.model.remat_problem import RematProblem
from cpplan.remat.problem import remat_problem
from formulations.rematerialization import build, worth_repeating
from formulations.runs import needed_runs


def minimise_cost(problem: RematProblem, limit: int, **more: object) -> float | None:
    """The proved optimum; ``None`` if there is none."""
    remat = build(problem, memory_limit=limit, **more)
    solver = new_solver(linear=False)
    status = solver.solve(remat.model)
    if status == cp_model.INFEASIBLE:
        return None
    assert status == cp_model.OPTIMAL
    schedule = remat.extract(solver)
    assert problem.is_schedule(schedule)
    assert problem.peak(schedule) <= limit
    cost = problem.total_cost(schedule)
    assert cost == remat.cost_of(solver.objective_value)
    assert cost == remat.cost_of(solver.best_objective_bound)
    return cost


@pytest.mark.parametrize("order", [None, range(5)])
def test_least_cost_of_a_chain_equals_counts_by_hand(order):
    """In 4 slots, 5 runs. In 3, t0 gives way to t2 and is made again; in 2, g1 has no room."""
    problem = remat_problem(remat_chain(2, 1000))
    costs = [minimise_cost(problem, limit, order=order) for limit in (4000, 3999, 3000, 2999)]
    assert costs == [5, 6, 6, None]


def test_costs_that_are_no_integers_are_exact():
    problem = remat_problem(remat_chain(2, 1, [0.1, 0.2, 0.3], [1.7, 1]))
    remat = build(problem, memory_limit=3)
    solver = new_solver(linear=False)
    assert solver.solve(remat.model) == cp_model.OPTIMAL
    assert remat.cost_of(solver.objective_value) == pytest.approx(3.4, abs=1e-9)
    # Rounded down, if at all: it stands as a bound.
    assert remat.cost_of(solver.best_objective_bound) <= problem.total_cost([0, 1, 2, 3, 0, 4])


def test_more_runs_are_cheaper():
    """n = 3 in 3 slots: t0 is made three times and t1 twice, 7 + 3."""
    problem = remat_problem(remat_chain(3))
    assert minimise_cost(problem, 3, copies=2) is None
    assert minimise_cost(problem, 3, copies=3) == 10


def test_a_hint_with_three_copies_is_complete():
    for seed in seeds(8):
        problem = random_remat_problem(seed, 5)
        limit = interesting_limits(problem)[-2]
        schedule = cheapest_schedule(problem, limit, copies=3)
        remat = build(problem, memory_limit=limit, copies=3)
        assert problem.peak(remat.hint(schedule)) <= limit
        assert_complete(remat)


def test_the_hint_on_the_staged_grid_is_complete():
    placed = 0
    for seed in range(1, 24, 2):
        problem = random_remat_problem(seed, 6)
        schedule = cheapest_schedule(problem, interesting_limits(problem)[-2], copies=3)
        order = list(dict.fromkeys(schedule))
        remat = build(problem, memory_limit=10**6, copies=3, order=order)
        hinted = remat.hint(schedule)
        if hinted is not None:
            placed += 1
            assert list(dict.fromkeys(hinted)) == order
            assert_complete(remat)
    assert placed >= 8


def assert_complete(remat) -> None:
    hinted = remat.model.proto.solution_hint
    assert sorted(hinted.vars) == list(range(len(remat.model.proto.variables)))
    solver = new_solver(linear=False)
    lines: list[str] = []
    solver.log_callback = lines.append
    solver.parameters.log_search_progress = True
    solver.parameters.log_to_stdout = False
    assert solver.solve(remat.model) == cp_model.OPTIMAL
    if hinted.vars:
        assert "is complete and is feasible" in "\n".join(lines)


def test_no_place_for_too_many_runs():
    problem = remat_problem(remat_chain(2))
    often = [0, 1, 2, 3, 0, 4]
    assert build(problem, memory_limit=9).hint(often) == tuple(often)
    assert build(problem, memory_limit=9, copies=1).hint(often) is None
    staged = build(problem, memory_limit=9, copies=5, order=range(5))
    assert staged.hint(often) == tuple(often)


def test_runs_that_serve_nobody_are_not_needed():
    """The second run of 0 is read by nobody: the third comes first."""
    problem = remat_problem(remat_chain(2))
    needed = [True, True, True, False, True, True, True]
    assert needed_runs(problem, [0, 1, 2, 0, 3, 0, 4]) == needed


def test_a_first_run_may_wait_for_the_second():
    """Nobody waits for the first 0; with the order fixed it has its place."""
    problem = remat_problem(remat_chain(2))
    assert needed_runs(problem, [0, 0, 1, 2, 3, 0, 4])[:2] == [False, True]
    assert needed_runs(problem, [0, 0, 1, 2, 3, 0, 4], fixed=True)[:2] == [True, True]


def test_what_is_read_once_is_not_worth_repeating():
    """In a chain of two: f2 and the backward units have one reader; g1, f0 and f1 have two."""
    problem = remat_problem(remat_chain(2))
    assert worth_repeating(problem) == [True, True, False, False, False]
    assert worth_repeating(problem, fixed=True) == [True, True, True, True, False]


def test_a_limit_below_what_is_always_live():
    problem = remat_problem(remat_chain(2))
    assert minimise_cost(problem, -1) is None


def test_least_costs_equal_those_published_for_chains():
    """Checkmate's linear graphs; C runs of each suffice up to C = n."""
    for case in remat_chains(4):
        problem = remat_problem(remat_chain(case["n"]))
        found = minimise_cost(problem, case["budget"], copies=case["n"], order=range(case["T"]))
        assert found == case["min_total_evals"], case
