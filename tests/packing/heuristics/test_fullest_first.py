"""Packing of many buffers: what is full is packed first, and nothing looks at all pairs."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import cpplan
from cpplan.model.problem import Gap, Problem
from cpplan.packing import heuristics
from cpplan.packing.heuristics.by_lowest_offset import PREORDERS
from cpplan.packing.heuristics.fullest_first import fullest_first
from cpplan.packing.heuristics.layout import first_fit_in_order
from cpplan.packing.heuristics.skyline import Skyline
from cpplan.packing.tuning import PackingTuning
from cpplan.runtime.deadline import Deadline
from cpplan.verification.verifier import check_offsets
from cpplan.zoo.packing import random_lifespans


@pytest.mark.parametrize("alignment", [1, 64])
def test_thousands_of_random_lifespans_meet_their_live_bytes(alignment):
    problem = random_lifespans(5000, seed=2, alignment=alignment)
    plan = cpplan.solve(problem, time_limit=60, workers=1)
    assert plan.status == "optimal"
    assert plan.found_by == "fullest_first"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_a_hundred_thousand_within_half_a_percent(seed):
    """Insertion in windows improves the plan of ``fullest_first`` to 0.5 % above the bound."""
    plan = cpplan.solve(random_lifespans(100_000, seed=seed), time_limit=60, workers=1)
    assert plan.peak <= 1.005 * plan.lower_bound


def test_fullest_first_is_deterministic():
    problem = random_lifespans(3000, seed=5, live=100)
    one, other = (fullest_first(problem, Deadline(math.inf)) for _ in range(2))
    assert one.tobytes() == other.tobytes()


def test_no_ranking_of_few_buffers_is_tried_again_and_again(monkeypatch):
    """Rounded up, both need 10 bytes; with either one first, the other ends at 12."""
    tried = []

    def count(self, ranked, *rest):
        tried.append(tuple(ranked.tolist()))
        return place(self, ranked, *rest)

    place = Skyline.place
    monkeypatch.setattr(Skyline, "place", count)
    problem = Problem(("a", "b"), [0, 0], [1, 1], [4, 6], alignment=[4, 6])
    offset = fullest_first(problem, Deadline(math.inf))
    assert (offset + problem.size).max() == 12
    assert set(tried) == {(0, 1), (1, 0)}
    passes = len(PackingTuning().full_steps)
    assert len(tried) <= passes * (len(PREORDERS) + 2)


def test_gaps_and_fixed_offsets_among_many():
    plain = random_lifespans(3000, seed=4)
    first, last = int(plain.lower[5]), int(plain.upper[5])
    problem = replace(plain, gaps={5: [Gap(first, (first + last) // 2 + 1)]}, fixed={9: 4096})
    offset = fullest_first(problem, Deadline(math.inf))
    check_offsets(problem, offset, "fullest_first")


@pytest.mark.parametrize("fixed", [{}, {3: 512, 1500: 0}])
def test_first_fit_of_many_is_first_fit(tune, fixed):
    problem = replace(random_lifespans(2000, seed=1, live=20), fixed=fixed)
    order = np.lexsort((problem.lower, -problem.size))
    many = first_fit_in_order(problem, order, Deadline(math.inf))
    tune(PackingTuning, many_buffers=10_000)
    assert first_fit_in_order(problem, order, Deadline(math.inf)).tolist() == many.tolist()


def test_registered_heuristic_runs_on_a_million_buffers():
    @heuristics.register("mine", portfolio=True)
    def mine(problem, deadline):
        return np.cumsum(problem.size) - problem.size

    assert "mine" in heuristics.portfolio(10**6)
    heuristics.unregister("mine")
    assert "mine" not in heuristics.portfolio(10**6)
