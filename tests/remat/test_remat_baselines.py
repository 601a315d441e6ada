"""Named baselines of rematerialization."""

from __future__ import annotations

import pytest
from support.remat_oracle import remat_chain

from cpplan.remat import heuristics as baselines
from cpplan.remat.problem import remat_problem
from cpplan.runtime.deadline import Deadline

LIMITED = ("chen", "dtr", "farthest_use", "checkmate_lp", "checkmate_milp")


@pytest.mark.parametrize("name", LIMITED)
def test_baselines_keep_the_limit(name):
    """n = 16 in 10 slots: the optimum costs 41."""
    problem = remat_problem(remat_chain(16))
    schedule = baselines.get(name)(problem, 10, Deadline(60))
    assert schedule is not None
    assert problem.is_schedule(schedule)
    assert problem.peak(schedule) <= 10
    assert problem.total_cost(schedule) >= 41


def test_built_in_baselines_are_registered():
    assert set(baselines.names()) >= {"given_order", "chen_sqrt_n", *LIMITED}


def test_two_baselines_ignore_the_limit():
    """n = 16: 33 ops once need 18 B. Four segments need 8 B and 43 runs: the optimum."""
    problem = remat_problem(remat_chain(16))
    given = baselines.get("given_order")(problem, 1, Deadline(60))
    assert given == tuple(range(33))
    assert problem.peak(given) == 18
    segments = baselines.get("chen_sqrt_n")(problem, 1, Deadline(60))
    assert segments is not None
    assert problem.is_schedule(segments)
    assert problem.peak(segments) == 8
    assert problem.total_cost(segments) == 43
    assert segments == baselines.get("chen_sqrt_n")(problem, 100, Deadline(60))
