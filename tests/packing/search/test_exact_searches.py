"""The contract of every exact packing search: the smallest peak, proved, however it is run."""

from __future__ import annotations

import pytest
from support.cases import seeds
from support.instances import chain, perfect_packing
from support.oracles import brute_force_peak
from support.packing_parts import first_packing, parts, solve
from support.published import minimalloc

from cpplan.model.problem import Gap, Problem
from cpplan.packing.bounds import lower_bound
from cpplan.packing.heuristics import get
from cpplan.packing.reduction import reduce_problem
from cpplan.packing.search import canonical_search, niche_search
from cpplan.packing.search.canonical_search import CanonicalSearch
from cpplan.packing.search.niche_search import NicheSearch
from cpplan.packing.search.outcome import Outcome
from cpplan.runtime.deadline import Deadline
from cpplan.verification.verifier import check_offsets

SEARCHES = {"niche": (niche_search, NicheSearch), "canonical": (canonical_search, CanonicalSearch)}
every_search = pytest.mark.parametrize(("module", "search"), SEARCHES.values(), ids=SEARCHES)


@every_search
def test_the_peak_of_small_problems_is_that_of_brute_force(module, search):
    checked = 0
    for problem in parts(seeds(150), 6, module.applies_to):
        outcome = solve(search, problem)
        assert outcome.bound <= outcome.peak == brute_force_peak(problem)
        checked += 1
    assert checked >= 100


@pytest.mark.slow  # thousands of brute forces
@every_search
def test_the_peak_of_many_small_problems_is_that_of_brute_force(module, search):
    for problem in parts(seeds(4000, first=1000), 7, module.applies_to):
        assert solve(search, problem).peak == brute_force_peak(problem)


@every_search
def test_every_word_decides_every_capacity(module, search, monkeypatch):
    """Each word alone, at each capacity around the optimum: found from there on, refuted below."""
    cases = [(p, brute_force_peak(p)) for p in parts(seeds(16, first=300), 6, module.applies_to)]
    for word in module.WORDS:
        monkeypatch.setattr(module, "WORDS", (word,))
        for problem, best in cases:
            for capacity in range(max(1, best - 3), best + 4):
                outcome = solve(search, problem, target=capacity, limit=capacity)
                if capacity < best:
                    assert capacity < outcome.bound <= best
                else:
                    assert outcome.peak <= capacity


@every_search
def test_few_nodes_at_a_time_reach_the_same_peak(module, search):
    problem = reduce_problem(perfect_packing(3, 25)).part_problem(0)[0]
    whole = solve(search, problem)
    begun, state = search(problem, seed=0), first_packing(problem)
    while state.bound < state.peak and state.peak > whole.peak:
        state = begun.run(state, nodes=7, target=0, limit=None, deadline=Deadline(600))
    assert state.peak == whole.peak


@every_search
@pytest.mark.parametrize("seed", range(6))
def test_perfect_packings_of_forty_are_found(module, search, seed):
    problem = reduce_problem(perfect_packing(seed, 40)).part_problem(0)[0]
    assert solve(search, problem, target=4096, limit=4096, nodes=400_000).peak == 4096


@every_search
def test_an_optimal_first_packing_is_returned(module, search):
    problem = Problem(("a", "b"), lower=[0, 0], upper=[1, 1], size=[4, 8])
    state = first_packing(problem)._replace(bound=12)
    begun = search(problem, seed=0)
    assert begun.run(state, nodes=100, target=0, limit=None, deadline=Deadline(60)) is state


@every_search
def test_a_spent_deadline_leaves_the_first_packing(module, search):
    problem, deadline = chain(), Deadline(60)
    deadline.cancel()
    state = first_packing(problem)
    begun = search(problem, seed=0)
    assert begun.run(state, nodes=100, target=0, limit=None, deadline=deadline) is state


@every_search
def test_improvements_are_reported_as_they_come(module, search):
    reports: list[Outcome] = []
    problem = reduce_problem(perfect_packing(1, 30)).part_problem(0)[0]
    outcome = solve(search, problem, report=reports.append)
    assert reports[-1] is outcome
    assert outcome.found_by == f"{module.__name__.rpartition('.')[2].replace('_', ' ')}"
    gaps = [report.peak - report.bound for report in reports]
    assert gaps == sorted(gaps, reverse=True)


@every_search
def test_windows_and_fixed_offsets_are_not_applied_to(module, search):
    columns = {"lower": [0, 0], "upper": [3, 3], "size": [4, 4]}
    assert module.applies_to(Problem(("a", "b"), **columns))
    assert not module.applies_to(Problem(("a", "b"), **columns, gaps={0: [Gap(1, 2, 2, 4)]}))
    assert not module.applies_to(Problem(("a", "b"), **columns, fixed={0: 8}))


def test_only_the_canonical_search_applies_to_gaps_and_unequal_alignments():
    columns = {"lower": [0, 0], "upper": [3, 3], "size": [4, 6]}
    gaps = Problem(("a", "b"), **columns, gaps={0: [Gap(1, 2)]})
    unequal = Problem(("a", "b"), **columns, alignment=[4, 2])
    for problem in (gaps, unequal):
        assert canonical_search.applies_to(problem)
        assert not niche_search.applies_to(problem)
    assert niche_search.applies_to(Problem(("a", "b"), **columns, alignment=[4, 4]))


def test_minimalloc_s_instances_fit_by_the_canonical_search():
    for instance in "ACDFHJ":
        reduction = reduce_problem(minimalloc(instance))
        for part in range(int(reduction.part.max()) + 1):
            rows = reduction.part_problem(part)[0]
            offsets = get("lowest_offset_first")(rows, Deadline(60))
            peak = int((offsets + rows.size).max())
            outcome = CanonicalSearch(rows, seed=0).run(
                Outcome(offsets, peak, lower_bound(rows).value),
                nodes=400_000,
                target=1 << 20,
                limit=1 << 20,
                deadline=Deadline(600),
            )
            check_offsets(rows, outcome.offsets, "canonical search")
            assert outcome.peak <= 1 << 20
