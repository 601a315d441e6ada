"""Runs that nothing reads are left out of schedules, which are then no larger and no costlier."""

from __future__ import annotations

import numpy as np
import pytest
from support.cases import seeds
from support.remat_oracle import random_remat_problem

from cpplan.model.graph import Graph, Op, Tensor
from cpplan.remat.heuristics.checkpoints import given_order
from cpplan.remat.heuristics.dropping import drop, without_unread_runs
from cpplan.remat.known_schedules import KnownSchedules
from cpplan.remat.portfolio import ScheduleSearch
from cpplan.remat.problem import remat_problem
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline


def early_output():
    """An output of 10 bytes before a value of 20 bytes: within 30 bytes, it is computed last."""
    tensors = Tensor("y", 10, kind="output"), Tensor("t", 20), Tensor("z", 5, kind="output")
    ops = (
        Op("f", outputs=("y",), cost=3),
        Op("g", outputs=("t",), cost=1),
        Op("h", inputs=("t",), outputs=("z",), cost=1),
    )
    return remat_problem(Graph("g", tensors, ops))


def longer(problem, seed):
    """A valid schedule with more runs at random places; nothing reads many of them."""
    random = np.random.default_rng(seed)
    found = list(given_order(problem))
    for unit in np.flatnonzero(problem.repeatable).tolist() * 2:
        found.insert(int(random.integers(found.index(unit) + 1, len(found) + 1)), unit)
    return found


def is_read(problem, schedule, k):
    """True if the results of a run are read before they are written again, or kept at the end."""
    written = set(problem.writes[schedule[k]])
    for unit in schedule[k + 1 :]:
        if not written.isdisjoint(problem.reads[unit]):
            return True
        written -= set(problem.writes[unit])
    return any(problem.ordering.kept[storage] for storage in written)


@pytest.mark.parametrize("seed", seeds(30))
def test_what_is_left_is_valid_and_no_larger_and_every_repeated_run_is_read(seed):
    problem = random_remat_problem(seed, 8)
    schedule = longer(problem, seed)
    assert problem.is_schedule(schedule)
    for joint in (True, False):
        found = without_unread_runs(problem, schedule, joint=joint)
        assert problem.is_schedule(found)
        assert problem.peak(found) <= problem.peak(schedule)
        assert problem.total_cost(found) <= problem.total_cost(schedule)
        assert without_unread_runs(problem, found, joint=joint) == found
        first = {unit: found.index(unit) for unit in found}
        for k, unit in enumerate(found):
            assert first[unit] == k or is_read(problem, found, k)
    assert list(dict.fromkeys(found)) == list(dict.fromkeys(schedule))


def test_output_dropped_to_the_end_is_computed_there_alone():
    problem = early_output()
    dropped = drop(problem, range(3), 30, Deadline(600))
    assert dropped == (0, 1, 2, 0)
    assert without_unread_runs(problem, dropped) == (1, 2, 0)
    assert without_unread_runs(problem, dropped, joint=False) == dropped


def test_search_leaves_out_runs_of_heuristics_that_nothing_reads():
    problem = early_output()
    search = ScheduleSearch(KnownSchedules(problem, range(3)))
    assert search.lower(30, Budget(Deadline(600))).cost == problem.total_cost(range(3))
