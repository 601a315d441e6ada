"""Small runs of every search, which compile its loops for the types used in planning."""

from __future__ import annotations

import numpy as np

from cpplan.model.problem import Problem
from cpplan.packing.heuristics.fit_index import index_first_fit
from cpplan.packing.heuristics.segregated_fit import segregated_fit
from cpplan.packing.heuristics.skyline import Skyline
from cpplan.packing.search.insertion_search import InsertionSearch
from cpplan.packing.search.niche_search import NicheSearch
from cpplan.packing.search.outcome import Outcome
from cpplan.packing.search.staged_insertion import StagedInsertion
from cpplan.packing.sizes.fit_kernel import first_fit
from cpplan.runtime.deadline import Deadline

_ENDLESS = Deadline(float("inf"))


def use_niche() -> None:
    """Search exactly through 1000 nodes on 200 buffers, by niches."""
    problem = _random_packing(200)
    search = NicheSearch(problem, seed=0)
    search.run(_stacked(problem), nodes=1000, target=0, limit=None, deadline=_ENDLESS)


def use_sizes() -> None:
    """Place three buffers of several sizes by first fit."""
    problem = _random_packing(3)
    columns = problem.lower, problem.upper, problem.size, problem.alignment
    first_fit(np.arange(3), *columns, np.full(3, 300), np.zeros(3, int), np.zeros(3, int))


def use_many_buffers() -> None:
    """Place 2000 buffers by segregated fit and by first fit with an index."""
    problem = _random_packing(2000)
    segregated_fit(problem, _ENDLESS)
    index_first_fit(problem, np.arange(len(problem)), _ENDLESS)


def use_insertion() -> None:
    """Make nine moves of the insertion search."""
    problem = _random_packing(9)
    InsertionSearch(problem, seed=0).run(_stacked(problem), moves=9, target=0, deadline=_ENDLESS)


def use_skyline() -> None:
    """Place nine buffers on a skyline."""
    Skyline(_random_packing(9)).place(np.arange(9))


def use_staged() -> None:
    """Make one move of the staged insertion."""
    problem = _random_packing(9)
    StagedInsertion(problem, seed=0).run(_stacked(problem), moves=1, target=0, deadline=_ENDLESS)


def _random_packing(count: int) -> Problem:
    random = np.random.default_rng(0)
    lower = random.integers(0, count, count)
    upper = lower + random.integers(1, 20, count)
    return Problem(tuple(map(str, range(count))), lower, upper, random.integers(1, 100, count))


def _stacked(problem: Problem) -> Outcome:
    """The packing in which no two buffers share a byte."""
    return Outcome(np.cumsum(problem.size) - problem.size, int(problem.size.sum()), 0)
