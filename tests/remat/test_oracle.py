"""The oracle against all schedules there are, and by hand."""

from __future__ import annotations

import pytest
from support.cases import seeds
from support.remat_oracle import (
    cheapest_schedule,
    every_schedule,
    interesting_limits,
    least_cost,
    random_remat_problem,
    remat_chain,
)

from cpplan.remat.problem import remat_problem


def test_a_chain_by_hand():
    """With all three at once, 5 runs. With 3 bytes, t0 gives way to t2 and is made again: 6."""
    problem = remat_problem(remat_chain(2))
    assert least_cost(problem, 4) == 5
    assert least_cost(problem, 3) == 6
    assert least_cost(problem, 2) is None


@pytest.mark.parametrize("seed", seeds(25))
def test_no_schedule_is_cheaper(seed):
    """Compared with all schedules of up to six runs in which no unit runs more than twice."""
    problem = random_remat_problem(seed, 1 + seed % 4)
    schedules = [s for s in every_schedule(problem, 6) if max(map(s.count, s)) <= 2]
    for limit in interesting_limits(problem):
        costs = [problem.total_cost(s) for s in schedules if problem.peak(s) <= limit]
        found = cheapest_schedule(problem, limit, copies=2)
        if found is None:
            assert not costs
            continue
        assert problem.is_schedule(found)
        assert problem.peak(found) <= limit
        assert problem.total_cost(found) <= min(costs, default=float("inf"))
        if len(found) <= 6:
            assert problem.total_cost(found) == min(costs)


@pytest.mark.parametrize("seed", seeds(10))
def test_more_runs_never_cost_more(seed):
    problem = random_remat_problem(500 + seed, 5)
    for limit in interesting_limits(problem):
        once, twice, often = (least_cost(problem, limit, copies) for copies in (1, 2, None))
        assert twice is None or often is not None
        if twice is not None:
            assert often <= twice
        if once is not None:
            assert twice == once == sum(problem.cost)
