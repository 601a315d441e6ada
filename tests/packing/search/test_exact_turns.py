"""The exact searches take turns, and come before what takes longer."""

from __future__ import annotations

import pytest

import cpplan
from cpplan.packing import portfolio
from cpplan.packing.search.canonical_search import CanonicalSearch
from cpplan.packing.search.exact_search import ExactSearch
from cpplan.packing.search.niche_search import NicheSearch
from cpplan.packing.search.outcome import Outcome
from cpplan.packing.search.rounds import Rounds
from cpplan.packing.solve import heuristics
from cpplan.runtime.deadline import Deadline
from cpplan.zoo.packing import near_perfect_packing, perfect_packing, random_lifespans


def bump(problem) -> Outcome:
    return Outcome(problem.size.cumsum() - problem.size, int(problem.size.sum()), 0)


def test_neither_search_waits_long_for_the_other(monkeypatch):
    """At first they change places after a few nodes a buffer, however many are allowed."""
    taken: list[tuple[str, int]] = []

    def run(self: Rounds, state: Outcome, *, nodes: int, **aim: object) -> Outcome:
        taken.append((self.name, nodes))
        return state

    monkeypatch.setattr(Rounds, "run", run)
    problem = random_lifespans(50, seed=0)
    ExactSearch(problem, seed=0).run(
        bump(problem), nodes=3500, target=1, limit=None, deadline=Deadline(float("inf"))
    )
    names = NicheSearch.name, CanonicalSearch.name
    assert taken == [
        *(
            (names[k], nodes)
            for nodes in (500, 1000, 2000)
            for k, nodes in enumerate((int(0.8 * nodes), int(0.2 * nodes)))
        ),
    ]


def test_turns_end_with_a_proof():
    """The first search that closes the gap ends the run: the other is not even begun."""
    problem, _, height = perfect_packing(30, seed=0, pinwheels=0.0)
    search = ExactSearch(problem, seed=0)
    found = search.run(
        bump(problem)._replace(bound=height),
        nodes=10**6, target=height, limit=None, deadline=Deadline(float("inf")),
    )  # fmt: skip
    assert found.peak == height
    assert CanonicalSearch.name not in search._begun


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
