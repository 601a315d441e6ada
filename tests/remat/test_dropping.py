"""Greedy dropping: within the limit, in order, cheap where eviction along an order is dear."""

from __future__ import annotations

import pytest
from support.cases import seeds
from support.published import DATASETS
from support.remat_oracle import random_remat_problem, remat_chain

import cpplan
from cpplan.model.residency import Residency
from cpplan.remat.heuristics import dropping
from cpplan.remat.heuristics.checkpoints import given_order
from cpplan.remat.heuristics.dropping import drop
from cpplan.remat.problem import remat_problem
from cpplan.runtime.deadline import Deadline, TimeUpError


@pytest.mark.parametrize("seed", seeds(30))
def test_schedules_are_valid_and_no_larger(seed):
    problem = random_remat_problem(seed, 8)
    order = given_order(problem)
    for limit in range(problem.peak(order), 0, -5):
        for aim in (1.0, 0.8):
            schedule = drop(problem, order, limit, Deadline(60), aim=aim)
            assert problem.is_schedule(schedule)
            assert tuple(dict.fromkeys(schedule)) == order
            assert problem.peak(schedule) <= problem.peak(order)


def test_values_are_retained_where_that_fits(monkeypatch):
    """Values dropped for nothing are retained again: nowhere dearer, mostly cheaper."""
    cases = []
    for name in ("layered_100", "layered_250", "vgg11_training", "randwire_1"):
        problem = remat_problem(cpplan.load(DATASETS / f"ordering/{name}.json"))
        order = given_order(problem)
        peak = problem.peak(order)
        cases += [(problem, order, int(part * peak)) for part in (0.9, 0.8, 0.7, 0.6, 0.5)]
    found = [drop(*case, Deadline(60)) for case in cases]
    monkeypatch.setattr(dropping, "_LEVELS", 0)
    cheaper = 0
    for (problem, order, limit), schedule in zip(cases, found, strict=True):
        dropped = drop(problem, order, limit, Deadline(60))
        assert problem.peak(schedule) <= max(limit, problem.peak(dropped))
        assert problem.total_cost(schedule) <= problem.total_cost(dropped)
        cheaper += problem.total_cost(schedule) < problem.total_cost(dropped)
    assert cheaper > len(cases) // 2


@pytest.mark.parametrize(
    ("file", "share", "extra"),
    [
        ("ordering/layered_250.json", 0.8, 0.04),
        pytest.param("ordering/layered_1000.json", 0.8, 0.10, marks=pytest.mark.slow),
        ("zoo/lstm.train.json.gz", 0.9, 0.001),
        ("zoo/gpt2.train.json.gz", 0.6, 0.01),
        ("zoo/vit_b_16.train.json.gz", 0.6, 0.04),
    ],
)
def test_real_and_layered_graphs_cost_little(file, share, extra):
    """Eviction along the order costs 7 to 680 % here, or finds nothing."""
    graph = cpplan.load(DATASETS / file)
    problem = remat_problem(graph, Residency(outputs="outside"))
    order = given_order(problem)
    limit = int(share * problem.peak(order))
    schedule = drop(problem, order, limit, Deadline(60, deterministic=True))
    assert problem.peak(schedule) <= limit
    assert problem.total_cost(schedule) < (1 + extra) * problem.total_cost(order)


def test_work_is_counted():
    problem = remat_problem(remat_chain(30))
    deadline = Deadline(10, deterministic=True)
    drop(problem, given_order(problem), 8, deadline)
    assert deadline.remaining() < 10
    with pytest.raises(TimeUpError):
        drop(problem, given_order(problem), 8, Deadline(0, deterministic=True))
