"""Segments: chains by hand, random graphs, a training graph."""

from __future__ import annotations

import math

import pytest
from support.published import DATASETS
from support.remat_oracle import random_remat_problem, remat_chain

import cpplan
from cpplan.remat.heuristics.checkpoints import checkpoint, given_order
from cpplan.remat.problem import remat_problem
from cpplan.runtime.deadline import Deadline, TimeUpError


def test_segments_of_a_chain():
    """n = 4 in 5 slots: t0 is run again for the last unit (published optimum 10)."""
    problem = remat_problem(remat_chain(4))
    assert checkpoint(problem, 5, Deadline(10)) == (0, 1, 2, 3, 4, 5, 6, 7, 0, 8)
    assert checkpoint(problem, 6, Deadline(10)) == tuple(range(9))


def test_root_of_the_layers():
    """n = 100 in 2 √n + 3 slots; every unit of the forward part runs twice at most."""
    problem = remat_problem(remat_chain(100))
    schedule = checkpoint(problem, 2 * math.isqrt(100) + 3, Deadline(60))
    assert schedule is not None
    assert problem.is_schedule(schedule)
    assert 201 < len(schedule) <= 301
    assert max(map(schedule.count, range(201))) == 2


@pytest.mark.parametrize("seed", range(20))
def test_an_order_that_fits_is_left_alone(seed):
    problem = random_remat_problem(seed, 6)
    order = given_order(problem)
    assert checkpoint(problem, problem.peak(order), Deadline(10)) == order


def test_training_step_fits_into_60_percent():
    problem = remat_problem(cpplan.load(DATASETS / "training/resnet18_training.json"))
    limit = problem.peak(given_order(problem)) * 6 // 10
    schedule = checkpoint(problem, limit, Deadline(60))
    assert schedule is not None
    assert problem.is_schedule(schedule)
    assert problem.peak(schedule) <= limit


def test_expired_deadline_raises():
    with pytest.raises(TimeUpError):
        checkpoint(remat_problem(remat_chain(2)), 3, Deadline(0))
