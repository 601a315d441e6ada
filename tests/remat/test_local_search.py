"""The walk over schedules: optima of small graphs, chains, order alone, determinism."""

from __future__ import annotations

import numpy as np
import pytest
from support.cases import seeds
from support.published import DATASETS
from support.remat_oracle import least_cost, random_remat_problem, remat_chain

import cpplan
from cpplan import Graph, Op, Tensor
from cpplan.remat.heuristics.checkpoints import given_order
from cpplan.remat.problem import remat_problem
from cpplan.remat.search.flat_problem import flatten
from cpplan.remat.search.local_search import search_schedules
from cpplan.remat.search.profile_kernel import blank_profile, follow
from cpplan.remat.search.schedule_kernel import anneal, space_for
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline


def check(problem, outcome):
    assert problem.is_schedule(outcome.schedule)
    assert problem.peak(outcome.schedule) == outcome.peak
    assert problem.total_cost(outcome.schedule) == outcome.cost >= outcome.bound


@pytest.mark.parametrize("seed", seeds(8))
def test_optima_of_random_graphs(seed):
    problem = random_remat_problem(seed, 6)
    order = given_order(problem)
    least = problem.peak(order)
    while (cost := least_cost(problem, least - 1)) is not None:
        least -= 1
    for limit in {least, (least + problem.peak(order)) // 2}:
        cost = least_cost(problem, limit)
        outcome = search_schedules(problem, limit, order, Budget(Deadline(60)), moves=30_000)
        check(problem, outcome)
        assert (outcome.peak <= limit, outcome.cost) == (True, cost)


@pytest.mark.parametrize(
    ("n", "slots", "cost"),
    [(4, 3, 15), (4, 5, 10), (8, 3, 45), (8, 5, 22), (8, 7, 20), (11, 6, 30)],
)
def test_published_chains(n, slots, cost):
    problem = remat_problem(remat_chain(n))
    outcome = search_schedules(
        problem, slots, range(2 * n + 1), Budget(Deadline(60)), target_cost=cost, moves=2_000_000
    )
    check(problem, outcome)
    assert (outcome.peak <= slots, outcome.cost) == (True, cost)


def test_nothing_to_free():
    """Only what the caller holds takes memory: no schedule takes less, and no loop reads on."""
    idle = Graph("idle", (Tensor("x", 1, kind="input"),), (Op("f"), Op("g"), Op("h")))
    problem = remat_problem(idle)
    outcome = search_schedules(problem, 0, range(3), Budget(Deadline(60)), moves=3000)
    check(problem, outcome)
    assert (outcome.peak, outcome.cost) == (1, 3)


def test_same_seed_same_schedule():
    problem = remat_problem(remat_chain(12))
    one, two = (
        search_schedules(problem, 7, range(25), Budget(Deadline(60), seed=5), moves=40_000)
        for _ in range(2)
    )
    assert one == two


def test_deterministic_time():
    """The clock does not count: the same work, however long it takes."""
    problem = remat_problem(remat_chain(12))
    one, two = (
        search_schedules(problem, 7, range(25), Budget(Deadline(0.05, deterministic=True)))
        for _ in range(2)
    )
    assert one == two


def test_order_alone():
    """100 layered ops within 80 % of what the given order needs, nothing run twice."""
    problem = remat_problem(cpplan.load(DATASETS / "ordering/layered_100.json"))
    order = given_order(problem)
    limit = problem.peak(order) * 8 // 10
    reached = []
    outcome = search_schedules(
        problem, limit, order, Budget(Deadline(600)), moves=1_000_000, report=reached.append
    )
    check(problem, outcome)
    assert outcome.peak <= limit
    assert outcome == reached[-1]
    assert outcome.cost < 1.005 * outcome.bound


def test_infeasible_limit_gives_the_least_peak():
    """2 slots do not hold what unit 3 accesses: the least peak is 3, and it says so."""
    problem = remat_problem(remat_chain(3))
    outcome = search_schedules(problem, 2, range(7), Budget(Deadline(60)), moves=100_000)
    check(problem, outcome)
    assert outcome.peak == 3


def test_the_loop_measures_what_the_problem_does():
    for seed in range(60):
        problem = random_remat_problem(seed, 6)
        flat, order = flatten(problem), np.array(given_order(problem))
        again = [u for u in order.tolist() if problem.repeatable[u]]
        for schedule in (order, np.array([*order.tolist(), *again], np.int64)):
            limit = problem.peak(order) - 2
            pressure = problem.pressure(schedule)
            beyond = int(np.maximum(pressure - limit, 0).sum())
            profile = blank_profile(flat, len(schedule) + 1)
            measured = follow(flat, schedule, len(schedule), limit, profile)
            assert measured == (pressure.max(), beyond)


@pytest.mark.parametrize("in_place", [False, True])
def test_judged_bytes_are_the_measured_ones(in_place):
    """After many moves, each judged in its window alone, the bytes beyond the limit are right."""
    for seed in range(40):
        problem = random_remat_problem(seed, 4 + seed % 9)
        problem = remat_problem(problem.graph, in_place=in_place)
        flat, order = flatten(problem), given_order(problem)
        limit = int(problem.peak(order) * 0.7)
        schedule = np.zeros(3 * len(order) + 8, np.int64)
        schedule[: len(order)] = order
        best, result = schedule.copy(), np.array([len(order), 1e9, 1e9, 0, 0, 0], np.float64)
        length = anneal(
            flat, limit, schedule, len(order), best, result, 300, 1.0, 1.0, 1.0, 9.0,
            seed % 2 == 0, np.random.default_rng(seed), space_for(flat, len(schedule)),
        )  # fmt: skip
        walked = schedule[:length].tolist()
        assert problem.is_schedule(walked), seed
        assert result[5] == np.maximum(problem.pressure(walked) - limit, 0).sum(), seed


def test_first_runs_keep_their_order_if_they_must():
    for seed in range(10):
        problem = random_remat_problem(seed, 6)
        given = list(range(len(problem)))
        limit = problem.peak(given) - 1
        found = search_schedules(
            problem, limit, given, Budget(Deadline(60)), joint=False, moves=2000
        )
        assert list(dict.fromkeys(found.schedule)) == given, seed
        assert problem.is_schedule(found.schedule)
