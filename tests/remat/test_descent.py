"""Fewer and fewer bytes within a cost: optima of small graphs, chains, what is kept throughout."""

from __future__ import annotations

import pytest
from support.published import DATASETS
from support.remat_oracle import least_cost, random_remat_problem, remat_chain

import cpplan
from cpplan.remat.heuristics.checkpoints import given_order
from cpplan.remat.known_schedules import KnownSchedules
from cpplan.remat.problem import remat_problem
from cpplan.remat.search.descent import Descent
from cpplan.runtime.deadline import Deadline


@pytest.mark.parametrize("seed", range(8))
def test_optima_of_random_graphs(seed):
    problem = random_remat_problem(seed, 6)
    order = given_order(problem)
    peaks = range(problem.peak(order), 0, -1)
    costs = {peak: cost for peak in peaks if (cost := least_cost(problem, peak)) is not None}
    for most in set(costs.values()):
        least = min(peak for peak, cost in costs.items() if cost <= most)
        descent = Descent(KnownSchedules(problem, order), most, seed=seed)
        descent.run(Deadline(60), target=least)
        best = descent.best
        assert problem.is_schedule(best.schedule)
        assert problem.total_cost(best.schedule) == best.cost <= most
        assert problem.peak(best.schedule) == best.peak == least


@pytest.mark.parametrize(("n", "slots", "cost"), [(4, 5, 10), (8, 5, 22), (8, 7, 20), (11, 6, 30)])
def test_published_chains(n, slots, cost):
    problem = remat_problem(remat_chain(n))
    descent = Descent(KnownSchedules(problem, range(2 * n + 1)), cost)
    descent.run(Deadline(60), target=slots)
    assert (descent.best.peak, descent.best.cost <= cost) == (slots, True)


def test_first_runs_keep_their_order_where_they_must():
    problem = random_remat_problem(3, 8)
    order = tuple(given_order(problem))
    known = KnownSchedules(problem, order)
    descent = Descent(known, 2 * problem.total_cost(order), joint=False)
    descent.run(Deadline(0.02, deterministic=True))
    assert tuple(dict.fromkeys(descent.best.schedule)) == order


def test_asked_again_it_goes_on_and_is_never_worse():
    problem = remat_problem(remat_chain(16))
    reported = []
    descent = Descent(KnownSchedules(problem, range(33), report=reported.append), 45)
    peaks = [descent.best.peak]
    for _ in range(3):
        descent.run(Deadline(0.02, deterministic=True))
        peaks.append(descent.best.peak)
    assert peaks == sorted(peaks, reverse=True)
    assert peaks[-1] < peaks[0]
    assert min(outcome.peak for outcome in reported if outcome.cost <= 45) == peaks[-1]


def test_without_a_time_limit_it_ends():
    problem = random_remat_problem(1, 3)
    order = given_order(problem)
    descent = Descent(KnownSchedules(problem, order), problem.total_cost(order))
    descent.run(Deadline(float("inf")))
    assert descent.exhausted


def test_oscillation_finds_lower_peaks(monkeypatch):
    """In the same counted time, dropping and retaining at random goes further down."""
    peaks = []
    problem = remat_problem(cpplan.load(DATASETS / "zoo/vit_b_16.train.json.gz"))
    for _ in range(2):
        known = KnownSchedules(problem, given_order(problem))
        descent = Descent(known, 1.25 * known.base)
        descent.run(Deadline(2, deterministic=True))
        peaks.append(descent.best.peak)
        monkeypatch.setattr(Descent, "_oscillate", lambda *_: None)
    assert peaks[0] < peaks[1]
