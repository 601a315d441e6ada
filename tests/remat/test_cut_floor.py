"""Bytes that every schedule needs at the first run of one unit."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cases import seeds
from support.remat_oracle import interesting_limits, least_cost, random_remat_problem

from cpplan import Graph, Op, Tensor, load, solve, to_anf
from cpplan.model.residency import Residency
from cpplan.remat.cut_floor import bytes_at_first_runs, cut_floor
from cpplan.remat.problem import remat_problem
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
        floor = cut_floor(problem, limit, Budget(Deadline(60)), most=max(limits))
        if floor is not None:
            assert limit < floor.bytes <= least
            assert floor.certificate is not None


def test_a_result_that_is_made_twice_is_not_there_meanwhile():
    """The output of 4 B makes way for g, which needs 9 of 12 B, and is made again in the end."""
    tensors = Tensor("a", 4), Tensor("b", 5), Tensor("w", 1, kind="workspace"), Tensor("c", 3)
    tensors += Tensor("y", 4, kind="output"), Tensor("d", 5), Tensor("v", 2, kind="workspace")
    ops = (
        Op("e", outputs=("a",)),
        Op("f", inputs=("a",), outputs=("b",), workspaces=("w",)),
        Op("h", inputs=("b",), outputs=("c", "y")),
        Op("k", inputs=("y",), outputs=("d",), workspaces=("v",)),
        Op("g", inputs=("d",), outputs=("z",)),
    )
    graph = Graph("twice", (*tensors, Tensor("z", 4)), ops)
    problem = remat_problem(graph)
    assert least_cost(problem, 12) == 8
    guessed = bytes_at_first_runs(problem, 12, precedence(problem), Deadline(60))
    assert guessed.tolist() == [4, 10, 12, 11, 13]
    assert cut_floor(problem, 12, Budget(Deadline(60)), most=15) is None
    plan = solve(graph, remat=True, memory_limit=12, time_limit=5)
    assert (plan.status, plan.peak, plan.cost) == ("optimal", 12, 8)


def test_floor_of_a_training_step_is_proved_at_once():
    """Two logits and their gradient are live together, beside what the rest must be made from."""
    graph, least = load(ZOO / "transformer.train.json.gz"), 266_747_908
    plan = solve(graph, remat=True, memory_limit=255_000_000, time_limit=5, deterministic=True)
    assert (plan.status, plan.lower_bound) == ("infeasible", least)
    checked = replay(to_anf(graph), Residency())
    assert holds_no_schedule(graph, Residency(), plan.certificate, least - 1, (), *checked)
    assert not holds_no_schedule(graph, Residency(), plan.certificate, least, (), *checked)
