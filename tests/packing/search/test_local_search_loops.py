"""Local searches for many buffers do not wait for their loops longer than others can spare."""

from __future__ import annotations

import importlib

import pytest

from cpplan.packing.heuristics.bump_allocator import bump
from cpplan.packing.loops import SKYLINE
from cpplan.packing.search import priority_search
from cpplan.packing.search.outcome import Outcome
from cpplan.runtime.deadline import Deadline
from cpplan.zoo.packing import random_lifespans


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("staged_insertion", "StagedInsertion"),
        ("windowed_insertion", "WindowedInsertion"),
    ],
)
def test_a_turn_without_loops_leaves_the_state_as_it_is(monkeypatch, module, name):
    found, waited = importlib.import_module(f"cpplan.packing.search.{module}"), []
    monkeypatch.setattr(found, "prepare", lambda group, until: waited.append(until.seconds))
    problem = random_lifespans(50, seed=0)
    offsets = bump(problem)
    state = Outcome(offsets, int((offsets + problem.size).max()), 0)
    search = getattr(found, name)(problem, 0)
    assert search.run(state, moves=5, target=0, deadline=Deadline(60)) is state
    assert search.best(state) is state
    assert waited[0] <= 6.0


def test_priorities_wait_for_no_loops_but_have_them_compiled(monkeypatch):
    begun = []
    monkeypatch.setattr(priority_search, "is_ready", lambda group: False)
    monkeypatch.setattr(priority_search, "begin", begun.append)
    problem = random_lifespans(50, seed=0)
    offsets = bump(problem)
    state = Outcome(offsets, int((offsets + problem.size).max()), 0)
    search = priority_search.PrioritySearch(problem, 0)
    assert search.run(state, moves=5, target=0, deadline=Deadline(60)) is state
    assert begun == [SKYLINE]
