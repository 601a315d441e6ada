"""The exact search comes before what takes longer."""

from __future__ import annotations

import pytest

import cpplan
from cpplan.packing import portfolio
from cpplan.packing.solve import heuristics
from cpplan.zoo.packing import near_perfect_packing, perfect_packing


@pytest.mark.parametrize(("count", "comes_first"), [(220, True), (150, False)])
def test_slow_heuristics_come_after_a_look_of_the_exact_search(count, comes_first, monkeypatch):
    calls: list[str] = []
    probe = portfolio.PartSearch.probe
    monkeypatch.setattr(
        portfolio.PartSearch,
        "probe",
        lambda self, state, aim: (calls.append("probe"), probe(self, state, aim))[1],
    )
    best_fit = heuristics.get("best_fit")
    monkeypatch.setattr(
        heuristics,
        "get",
        lambda name: (
            lambda problem, deadline: (
                calls.append(name),
                best_fit(problem, deadline),
            )[1]
        ),
    )
    planted = near_perfect_packing(count, seed=1, fill=0.97)
    cpplan.solve(
        planted.problem, capacity=planted.height, deterministic=True, time_limit=0.3, workers=1
    )
    assert calls[:3] == ["first_fit", "greedy_by_size", "lowest_offset_first"]
    assert (calls.index("probe") == 3) == comes_first


@pytest.mark.slow
def test_perfect_packings_of_600_are_the_niche_searchs():
    """No step has a byte to spare; the searches that come later find none without waste."""
    planted = perfect_packing(600, seed=1)
    plan = cpplan.solve(planted.problem, time_limit=1000, workers=1, deterministic=True)
    assert plan.peak == planted.height
    assert plan.found_by == "niche search"
