"""Annealing rounds cool down by their moves, or by the time that is left for them."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from support.remat_oracle import remat_chain

from cpplan.remat.heuristics.checkpoints import given_order
from cpplan.remat.problem import remat_problem
from cpplan.remat.search import local_search
from cpplan.remat.search.local_search import Cooling, search_schedules
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline


def temperatures(cooling, calls, deadline, work):
    """Temperatures of every call until time is up."""
    steps = []
    for call in range(calls):
        if deadline.expired():
            break
        steps.append(cooling.step(call))
        deadline.spend(work)
    return steps


@pytest.mark.parametrize("seconds", [10, math.inf])
def test_a_round_with_time_cools_by_its_moves(seconds):
    deadline = Deadline(seconds, deterministic=True)
    steps = temperatures(Cooling(1.0, 0.01, 20, deadline), 20, deadline, 0.1)
    for call, (hot, cold) in enumerate(steps):
        assert hot == pytest.approx(0.01 ** (call / 20))
        assert cold == pytest.approx(0.01 ** ((call + 1) / 20))


@pytest.mark.parametrize("work", [0.6, 1.0, 2.5, 6.0])
def test_a_round_that_time_ends_is_cold_by_then(work):
    deadline = Deadline(10, deterministic=True)
    steps = temperatures(Cooling(1.0, 0.01, 200, deadline), 200, deadline, work)
    assert len(steps) == math.ceil(10 / work)
    assert steps[0][0] == 1.0
    assert steps[-1][1] < 0.02 or len(steps) < 3
    assert all(late[0] < early[0] for early, late in pairwise(steps))


def test_a_slow_clock_leaves_a_walk_that_has_cooled(monkeypatch):
    made = []

    class Watched(Cooling):
        def step(self, call):
            made.append(super().step(call))
            return made[-1]

    monkeypatch.setattr(local_search, "Cooling", Watched)
    monkeypatch.setattr(local_search, "_CALL", 200)

    class Busy(Deadline):
        """A very busy machine."""

        def spend(self, work):
            super().spend(100 * work)

    problem = remat_problem(remat_chain(8))
    search_schedules(
        problem, 5, given_order(problem), Budget(Busy(3, deterministic=True)), target_cost=0
    )
    mean = sum(problem.cost) / len(problem)
    assert len(made) > 10
    assert made[-1][1] < 2 * local_search._LOCAL_HEATS[1] * mean
