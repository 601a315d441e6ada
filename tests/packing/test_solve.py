"""First plans of many buffers come before heuristics that may end late; insertion lowers them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cpplan.packing import solve as packing
from cpplan.packing.heuristics import registered
from cpplan.packing.incumbent import Incumbent
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline, TimeUpError
from cpplan.verification.verifier import check_offsets
from cpplan.zoo.packing import random_lifespans


def never_in_time(problem, deadline):
    raise TimeUpError


def pack(problem) -> Incumbent:
    incumbent = Incumbent(problem)
    packing.pack(incumbent, Budget(Deadline(60)), most_effort=0)
    return incumbent


@pytest.mark.parametrize("hinted", [False, True])
def test_a_plain_plan_is_there_before_anything_that_may_end_late(monkeypatch, hinted):
    problem = random_lifespans(3000, seed=1)
    if hinted:
        problem = replace(problem, hint={0: 0})
    monkeypatch.setitem(registered._REGISTRY._functions, "fullest_first", never_in_time)
    monkeypatch.setattr(packing, "follow_hint", never_in_time)
    incumbent = pack(problem)
    assert incumbent.found_by == "segregated_fit"
    assert incumbent.peak < 2 * incumbent.bound.value


def test_insertion_in_stages_comes_before_slower_searches():
    problem = random_lifespans(900, seed=3)
    incumbent = pack(problem)
    before = incumbent.peak
    soon = Deadline(0.5, deterministic=True)
    packing.pack(incumbent, Budget(soon), by_heuristics=False)
    assert incumbent.found_by == "staged insertion"
    gap = incumbent.peak - incumbent.bound.value
    assert gap <= (before - incumbent.bound.value) / 2
    offsets = incumbent.reduction.restore(incumbent.offsets, problem)
    check_offsets(problem, offsets, incumbent.found_by)
