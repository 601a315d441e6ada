"""Schedules from minimum cuts: valid, and within limits that no other start keeps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.cases import seeds
from support.published import DATASETS
from support.remat_oracle import random_remat_problem, remat_chain

import cpplan
from cpplan.model.residency import Residency
from cpplan.remat.heuristics.checkpoints import given_order
from cpplan.remat.heuristics.dropping import drop
from cpplan.remat.heuristics.minimum_cuts import NAME, orders_by_need, retain_by_cuts
from cpplan.remat.heuristics.starts import first_schedules
from cpplan.remat.problem import remat_problem
from cpplan.runtime.deadline import Deadline, TimeUpError


@pytest.mark.parametrize("seed", seeds(30))
def test_schedules_are_valid_and_keep_the_order_of_first_runs(seed):
    problem = random_remat_problem(seed, 10)
    for order in (given_order(problem), *orders_by_need(problem)):
        assert problem.ordering.is_order(order)
        for limit in range(problem.peak(order), 0, -5):
            schedule = retain_by_cuts(problem, limit, order, Deadline(60))
            assert problem.is_schedule(schedule)
            assert tuple(dict.fromkeys(schedule)) == order


def test_orders_within_the_limit_stay():
    problem = remat_problem(remat_chain(6))
    order = given_order(problem)
    assert retain_by_cuts(problem, problem.peak(order), order, Deadline(60)) == order


def test_values_of_a_recurrent_layer_are_freed_together():
    """At 80 % of the live bytes, freeing one value after another costs 113 % more."""
    graph = cpplan.load(DATASETS / "zoo/lstm.train.json.gz")
    problem = remat_problem(graph, Residency(outputs="outside"))
    order = given_order(problem)
    limit, base = problem.peak(order) * 8 // 10, problem.total_cost(order)
    schedule = retain_by_cuts(problem, limit, order, Deadline(60, deterministic=True))
    assert problem.peak(schedule) <= limit
    assert problem.total_cost(schedule) < 1.4 * base
    dropped = drop(problem, order, limit, Deadline(60, deterministic=True))
    assert problem.total_cost(dropped) > 1.6 * base


def test_a_cut_follows_the_first_order_where_dropping_is_dear() -> None:
    """No time is left for the other orders."""
    graph = cpplan.load(DATASETS / "zoo/lstm.train.json.gz")
    problem = remat_problem(graph, Residency(outputs="outside"))
    given = given_order(problem)
    limit, base = problem.peak(given) * 8 // 10, problem.total_cost(given)

    def orders() -> Iterator[tuple[int, ...]]:
        yield given
        raise TimeUpError

    start, *_ = first_schedules(problem, limit, orders(), Deadline(60, deterministic=True))
    assert start.name == NAME
    assert problem.total_cost(start.schedule) < 1.4 * base


@pytest.mark.slow
def test_start_fits_where_a_shared_weight_has_two_gradients():
    """GPT-2's step with gradients: everything else starts 4 % above this limit, or more."""
    graph = cpplan.load(DATASETS / "zoo/gpt2.train.json.gz")
    problem = remat_problem(graph, Residency(outputs="keep"))
    order = given_order(problem)
    limit = problem.peak(order) * 6 // 10
    start, *_ = first_schedules(problem, limit, [order], Deadline(60, deterministic=True))
    assert start.name == NAME
    assert problem.peak(start.schedule) <= limit
    assert problem.total_cost(start.schedule) < 1.4 * problem.total_cost(order)


def test_work_is_counted():
    problem = remat_problem(remat_chain(30))
    deadline = Deadline(10, deterministic=True)
    retain_by_cuts(problem, 8, given_order(problem), deadline)
    assert deadline.remaining() < 10
    with pytest.raises(TimeUpError):
        retain_by_cuts(problem, 8, given_order(problem), Deadline(0, deterministic=True))


@pytest.mark.parametrize("seed", seeds(10))
def test_starts_keep_the_given_order_if_asked(seed):
    problem = random_remat_problem(seed, 10)
    order = given_order(problem)
    starts = first_schedules(problem, 1, [order], Deadline(60), reorder=False)
    assert [tuple(dict.fromkeys(start.schedule)) for start in starts] == [order] * len(starts)


def test_a_plan_keeps_the_given_order_where_little_fits():
    """Starts along other orders were once taken for the given one."""
    graph = cpplan.load(DATASETS / "ordering/vgg11_training.json")
    limit = cpplan.solve(graph, time_limit=1, deterministic=True).peak // 2
    options = {"memory_limit": limit, "time_limit": 0.4, "deterministic": True}
    plan = cpplan.solve(graph, remat=True, order="given", **options)
    assert plan.offset is not None
    assert list(dict.fromkeys(plan.order)) == [op.name for op in graph.ops]
