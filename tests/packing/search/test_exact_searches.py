"""The contract of the exact packing search: the smallest peak, proved, however it is run."""

from __future__ import annotations

import pytest
from support.cases import seeds
from support.instances import chain, perfect_packing
from support.oracles import brute_force_peak
from support.packing_parts import first_packing, parts, solve

from cpplan.model.problem import Gap, Problem
from cpplan.packing.reduction import reduce_problem
from cpplan.packing.search import niche_search
from cpplan.packing.search.niche_search import NicheSearch, applies_to
from cpplan.packing.search.outcome import Outcome
from cpplan.runtime.deadline import Deadline


def test_the_peak_of_small_problems_is_that_of_brute_force():
    checked = 0
    for problem in parts(seeds(150), 6, applies_to):
        outcome = solve(NicheSearch, problem)
        assert outcome.bound <= outcome.peak == brute_force_peak(problem)
        checked += 1
    assert checked >= 100


@pytest.mark.slow  # thousands of brute forces
def test_the_peak_of_many_small_problems_is_that_of_brute_force():
    for problem in parts(seeds(4000, first=1000), 7, applies_to):
        assert solve(NicheSearch, problem).peak == brute_force_peak(problem)


def test_every_word_decides_every_capacity(monkeypatch):
    """Each word alone, at each capacity around the optimum: found from there on, refuted below."""
    cases = [(p, brute_force_peak(p)) for p in parts(seeds(16, first=300), 6, applies_to)]
    for word in niche_search.WORDS:
        monkeypatch.setattr(niche_search, "WORDS", (word,))
        for problem, best in cases:
            for capacity in range(max(1, best - 3), best + 4):
                outcome = solve(NicheSearch, problem, target=capacity, limit=capacity)
                if capacity < best:
                    assert capacity < outcome.bound <= best
                else:
                    assert outcome.peak <= capacity


def test_few_nodes_at_a_time_reach_the_same_peak():
    problem = reduce_problem(perfect_packing(3, 25)).part_problem(0)[0]
    whole = solve(NicheSearch, problem)
    begun, state = NicheSearch(problem, seed=0), first_packing(problem)
    while state.bound < state.peak and state.peak > whole.peak:
        state = begun.run(state, nodes=7, target=0, limit=None, deadline=Deadline(600))
    assert state.peak == whole.peak


@pytest.mark.parametrize("seed", range(6))
def test_perfect_packings_of_forty_are_found(seed):
    problem = reduce_problem(perfect_packing(seed, 40)).part_problem(0)[0]
    assert solve(NicheSearch, problem, target=4096, limit=4096, nodes=400_000).peak == 4096


def test_an_optimal_first_packing_is_returned():
    problem = Problem(("a", "b"), lower=[0, 0], upper=[1, 1], size=[4, 8])
    state = first_packing(problem)._replace(bound=12)
    begun = NicheSearch(problem, seed=0)
    assert begun.run(state, nodes=100, target=0, limit=None, deadline=Deadline(60)) is state


def test_a_spent_deadline_leaves_the_first_packing():
    problem, deadline = chain(), Deadline(60)
    deadline.cancel()
    state = first_packing(problem)
    begun = NicheSearch(problem, seed=0)
    assert begun.run(state, nodes=100, target=0, limit=None, deadline=deadline) is state


def test_improvements_are_reported_as_they_come():
    reports: list[Outcome] = []
    problem = reduce_problem(perfect_packing(1, 30)).part_problem(0)[0]
    outcome = solve(NicheSearch, problem, report=reports.append)
    assert reports[-1] is outcome
    assert outcome.found_by == niche_search.NAME
    gaps = [report.peak - report.bound for report in reports]
    assert gaps == sorted(gaps, reverse=True)


def test_windows_and_fixed_offsets_are_not_applied_to():
    columns = {"lower": [0, 0], "upper": [3, 3], "size": [4, 4]}
    assert applies_to(Problem(("a", "b"), **columns))
    assert not applies_to(Problem(("a", "b"), **columns, gaps={0: [Gap(1, 2, 2, 4)]}))
    assert not applies_to(Problem(("a", "b"), **columns, fixed={0: 8}))


def test_gaps_and_unequal_alignments_are_not_applied_to():
    columns = {"lower": [0, 0], "upper": [3, 3], "size": [4, 6]}
    assert not applies_to(Problem(("a", "b"), **columns, gaps={0: [Gap(1, 2)]}))
    assert not applies_to(Problem(("a", "b"), **columns, alignment=[4, 2]))
    assert applies_to(Problem(("a", "b"), **columns, alignment=[4, 4]))
