"""Schedules by CP-SAT: improved and proved, fixed orders, limits of time and work, interruption."""

from __future__ import annotations

from itertools import pairwise

import pytest
from support.remat_oracle import (
    first_order,
    interesting_limits,
    least_cost,
    random_remat_problem,
    remat_chain,
)

from cpplan.remat.heuristics.chain import as_chain, solve_chain
from cpplan.remat.problem import remat_problem
from cpplan.remat.search.cp_sat_remat import (
    NAME,
    ScheduleProof,
    cost_beyond,
    improve_schedule,
    prove_schedule,
)
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline


@pytest.mark.parametrize("seed", range(1, 40, 2))
def test_proved_bound_holds_for_every_schedule(seed):
    problem = random_remat_problem(seed, 5)
    limit, too_small = interesting_limits(problem)[-2:]
    best = least_cost(problem, limit)
    budget = Budget(Deadline(60))
    assert least_cost(problem, too_small, copies=2) is None
    assert improve_schedule(problem, too_small, first_order(problem), budget) is None
    found = improve_schedule(problem, limit, first_order(problem), budget)
    assert found is not None
    assert problem.is_schedule(found.schedule)
    assert problem.peak(found.schedule) == found.peak <= limit
    assert problem.total_cost(found.schedule) == found.cost == least_cost(problem, limit, copies=2)
    assert found.bound <= best <= found.cost


def test_a_poor_start_becomes_the_cheapest_schedule():
    """Checkmate's chain n = 4 in 5 slots: 10, by the published table."""
    problem = remat_problem(remat_chain(4))
    poor = [0, 1, 2, 3, 4, 5, 0, 1, 2, 6, 0, 1, 7, 0, 8]
    found = improve_schedule(problem, 5, poor, Budget(Deadline(60)))
    assert (problem.total_cost(poor), found.cost, found.found_by) == (15, 10, NAME)
    # A schedule that runs some unit three times costs 11.
    assert (found.bound, found.bound_by, cost_beyond(problem, 2)) == (10, NAME, 11)


def test_few_runs_prove_little():
    """n = 4 in 3 slots takes 15, with t0 made four times: two runs of each prove but 9 + 2."""
    problem = remat_problem(remat_chain(4))
    best = solve_chain(problem, as_chain(problem), 3, Deadline(60)).schedule
    found = improve_schedule(problem, 3, best, Budget(Deadline(60)), copies=2)
    assert (found.cost, found.schedule, found.found_by) == (15, best, "given")
    assert found.bound <= 11
    assert improve_schedule(problem, 3, range(9), Budget(Deadline(60)), copies=2) is None
    assert improve_schedule(problem, 3, range(9), Budget(Deadline(60)), copies=4).cost == 15


def test_a_fixed_order_proves_nothing_of_others():
    """A chain has but one order; that is not known here, unless asked about this order alone."""
    problem = remat_problem(remat_chain(4))
    found = improve_schedule(problem, 5, range(9), Budget(Deadline(60)), free_order=False)
    assert (found.cost, found.bound) == (10, 9)
    nothing = ScheduleProof(None, None, 9)
    proof = prove_schedule(problem, 5, nothing, Budget(Deadline(60)), order=range(9))
    assert (proof.cost, proof.bound) == (10, 10)


def test_a_bound_that_is_met_ends_it_at_once():
    problem = remat_problem(remat_chain(2))
    plain = improve_schedule(problem, 9, range(5), Budget(Deadline(60)))
    assert (plain.cost, plain.bound, plain.found_by) == (5, 5, "given")


def test_reports_improve_and_end_with_the_result():
    problem, reports = remat_problem(remat_chain(8)), []
    found = improve_schedule(problem, 5, range(17), Budget(Deadline(60)), report=reports.append)
    assert reports[-1] == found
    assert found.cost == 22
    for earlier, later in pairwise(reports):
        assert later.cost <= earlier.cost
        assert later.bound >= earlier.bound


def test_a_deadline_that_has_passed_leaves_what_there_was():
    deadline = Deadline(60)
    deadline.cancel()
    problem = remat_problem(remat_chain(2))
    start = (0, 1, 2, 0, 3, 0, 4)
    assert improve_schedule(problem, 3, start, Budget(deadline)) is not None
    assert improve_schedule(problem, 3, start, Budget(deadline)).schedule == start
    assert improve_schedule(problem, 3, range(5), Budget(deadline)) is None


@pytest.mark.parametrize("workers", [1, 2])
def test_deterministic_time_gives_the_same_schedule_twice(workers):
    problem = remat_problem(remat_chain(12))
    start = solve_chain(problem, as_chain(problem), 4, Deadline(60)).schedule
    one, two = (
        improve_schedule(
            problem,
            6,
            start,
            Budget(Deadline(0.1, deterministic=True), workers, seed=3),
            copies=3,
        )
        for _ in range(2)
    )
    assert one == two


def test_an_interrupt_gets_through():
    problem = remat_problem(remat_chain(8))

    def interrupt(outcome: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        improve_schedule(problem, 5, range(17), Budget(Deadline(60)), report=interrupt)
