"""Local searches for many buffers do not wait for their loops longer than others can spare."""

from __future__ import annotations

from cpplan.packing.heuristics.greedy import bump
from cpplan.packing.search import staged_insertion
from cpplan.packing.search.outcome import Outcome
from cpplan.runtime.deadline import Deadline
from cpplan.zoo.packing import random_lifespans


def test_a_turn_without_loops_leaves_the_state_as_it_is(monkeypatch):
    waited = []
    monkeypatch.setattr(
        staged_insertion, "prepare", lambda group, until: waited.append(until.seconds)
    )
    problem = random_lifespans(50, seed=0)
    offsets = bump(problem)
    state = Outcome(offsets, int((offsets + problem.size).max()), 0)
    search = staged_insertion.StagedInsertion(problem, 0)
    assert search.run(state, moves=5, target=0, deadline=Deadline(60)) is state
    assert search.best(state) is state
    assert waited[0] <= 6.0
