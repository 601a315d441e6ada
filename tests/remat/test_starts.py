"""The best start: the cheapest that fits, else the smallest."""

from __future__ import annotations

from support.remat_oracle import remat_chain

from cpplan.remat.heuristics.starts import first_schedules
from cpplan.remat.problem import remat_problem
from cpplan.runtime.deadline import Deadline


def test_an_order_that_fits_stays():
    problem = remat_problem(remat_chain(4))
    assert first_schedules(problem, 6, [range(9)], Deadline(10)) == [(tuple(range(9)), "order")]


def test_first_schedule_is_the_cheapest_start():
    """n = 16 in 8 slots: 43 is the published optimum, which checkpoints reach."""
    problem = remat_problem(remat_chain(16))
    ((schedule, _),) = first_schedules(problem, 8, [range(33)], Deadline(60))
    assert problem.is_schedule(schedule)
    assert (problem.peak(schedule), len(schedule)) == (8, 43)


def test_infeasible_limit_gives_the_smallest_start():
    """2 slots are too few for any; eviction gets from 5 down to 3, which is the least."""
    problem = remat_problem(remat_chain(3))
    ((schedule, _),) = first_schedules(problem, 2, [range(7)], Deadline(60))
    assert problem.is_schedule(schedule)
    assert problem.peak(schedule) == 3


def test_expired_deadline_tries_only_the_orders():
    """The orders alone."""
    problem = remat_problem(remat_chain(4))
    assert first_schedules(problem, 4, [range(9)], Deadline(0)) == [(tuple(range(9)), "order")]
