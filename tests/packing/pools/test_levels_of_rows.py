"""Levels of the ends of some buffers: brute force agrees, with one pool and with two."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from support.oracles import random_problem
from support.sizes_oracle import pushed_down

import cpplan
from cpplan.model.errors import InputError, VerificationError
from cpplan.model.pool import Pool
from cpplan.packing.pools import objective as planned
from cpplan.packing.pools.bounds import objective_bound
from cpplan.verification import pool_objective as checked


@pytest.fixture(autouse=True)
def kept(monkeypatch):
    """An objective: the peak, then the end of what lives to the last step."""

    def last(problem):
        return np.flatnonzero(problem.upper == problem.upper.max(initial=0)).tolist()

    def levels(problem):
        pools = range(len(problem.pools))
        return planned.peak_level(problem, pools), planned.peak_level(problem, pools, last(problem))

    def checked_levels(problem):
        pools = range(len(problem.pools))
        return [
            checked.sum_of_peaks(problem, pools),
            checked.sum_of_peaks(problem, pools, last(problem)),
        ]

    monkeypatch.setattr(planned, "OBJECTIVES", {**planned.OBJECTIVES, "kept": levels})
    monkeypatch.setattr(checked, "OBJECTIVES", {**checked.OBJECTIVES, "kept": checked_levels})


def least(problem):
    """Smallest peak, and smallest end of what is kept among the layouts of that peak."""
    rows = problem.upper == problem.upper.max()
    ends = [np.array(offset) + problem.size for offset in pushed_down(problem, [problem.size])]
    return min((int(end.max()), int(end[rows].max())) for end in ends)


@pytest.mark.parametrize("seed", range(12))
def test_one_pool_agrees_with_brute_force(seed):
    problem = replace(random_problem(random.Random(seed), 5), fixed={}, gaps={})
    plan = cpplan.solve(problem, objective="kept", deterministic=True, time_limit=5)
    cpplan.verify(problem, plan)
    assert (plan.status, plan.objective_value) == ("optimal", least(problem))
    bound, _ = objective_bound(problem, "kept", plan.objective_value)
    assert bound <= plan.objective_value


def test_two_pools_share_out_what_is_kept():
    pools = Pool("fast", capacity=8), Pool("slow")
    problem = cpplan.Problem(("a", "b", "c"), [0, 0, 1], [1, 2, 2], [8, 4, 2], pools=pools)
    plan = cpplan.solve(problem, objective="kept", time_limit=5)
    # 12 bytes are live at step 0, and at step 1 the 6 that are kept.
    assert (plan.status, plan.objective_value) == ("optimal", (12, 6))


def test_a_pool_with_a_capacity_limits_it():
    problem = cpplan.Problem(
        ("a", "b"), lower=[0, 0], upper=[1, 1], size=[8, 4], pools=[Pool("p", capacity=10)]
    )
    plan = cpplan.solve(problem, objective="kept", time_limit=5)
    assert (plan.status, plan.offset) == ("infeasible", None)
    with pytest.raises(InputError, match="limit pools by their capacity"):
        cpplan.solve(problem, objective="kept", memory_limit=10)


def test_a_wrong_value_or_bound_of_a_level_is_refused():
    problem = cpplan.Problem(("a", "b", "c"), lower=[0, 0, 1], upper=[1, 2, 2], size=[8, 4, 2])
    plan = cpplan.solve(problem, objective="kept", time_limit=5)
    assert plan.objective_value == plan.objective_bound == (12, 6)
    for changed in (
        replace(plan, objective_value=(12, 5), objective_bound=(12, 5)),
        replace(plan, objective_value=(), objective_bound=()),
        replace(plan, offset=np.array([0, 8, 0])),
    ):
        with pytest.raises(VerificationError):
            cpplan.verify(problem, changed)
