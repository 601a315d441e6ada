"""Bytes that every schedule needs at the first run of one unit."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cases import seeds
from support.remat_oracle import interesting_limits, least_cost, random_remat_problem

from cpplan import load, solve, to_anf
from cpplan.model.residency import Residency
from cpplan.remat.cut_floor import bytes_at_first_runs, cut_floor
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline
from cpplan.verification.access_trace import replay
from cpplan.verification.cited_bounds import holds_no_schedule
from formulations.retained_at_cuts import precedence

ZOO = Path(__file__).resolve().parents[2] / "datasets" / "zoo"


@pytest.mark.parametrize("seed", seeds(40))
def test_no_schedule_has_fewer_bytes(seed):
    problem = random_remat_problem(seed, 2 + seed % 5)
    limits = interesting_limits(problem)
    least = min(limit for limit in limits if least_cost(problem, limit) is not None)
    for limit in limits:
        needs = bytes_at_first_runs(problem, limit, precedence(problem), Deadline(600))
        if limit >= least:
            assert needs.max() <= limit
        floor = cut_floor(problem, limit, Budget(Deadline(60)), most=max(limits))
        if floor is not None:
            assert limit < floor.bytes <= least
            assert floor.certificate is not None


def test_floor_of_a_training_step_is_proved_at_once():
    """Two logits and their gradient are live together, beside what the rest must be made from."""
    graph, least = load(ZOO / "transformer.train.json.gz"), 266_747_908
    plan = solve(graph, remat=True, memory_limit=255_000_000, time_limit=5, deterministic=True)
    assert (plan.status, plan.lower_bound) == ("infeasible", least)
    checked = replay(to_anf(graph), Residency())
    assert holds_no_schedule(graph, Residency(), plan.certificate, least - 1, (), *checked)
    assert not holds_no_schedule(graph, Residency(), plan.certificate, least, (), *checked)
