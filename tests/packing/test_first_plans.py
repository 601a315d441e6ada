"""First plans of many buffers before loops are compiled, and when a run waits for the loops."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from cpplan.model.problem import Gap, Problem
from cpplan.packing import solve
from cpplan.packing.incumbent import Incumbent
from cpplan.packing.tuning import PackingTuning
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline
from cpplan.zoo.packing import random_lifespans


@pytest.fixture
def waits(monkeypatch, tune) -> list[tuple[str, ...]]:
    """Three hundred buffers are many, and loops never get ready: what was waited for."""
    waited: list[tuple[str, ...]] = []

    def never(groups, deadline):
        waited.append(tuple(groups))
        return False

    tune(PackingTuning, many_buffers=300)
    monkeypatch.setattr(solve, "is_ready", lambda group: False)
    monkeypatch.setattr(solve, "prepare_all", never)
    return waited


def pack(problem: Problem) -> tuple[Incumbent, list[str]]:
    """Heuristics alone, and who improved on whom."""
    sources: list[str] = []
    incumbent = Incumbent(problem, report=lambda peak, bound, source: sources.append(source))
    solve.pack(incumbent, Budget(Deadline(60)), most_effort=0)
    return incumbent, sources


def test_nothing_is_compiled_where_plain_plans_meet_the_bound(waits):
    incumbent, sources = pack(random_lifespans(300, live=8, seed=0))
    assert incumbent.peak == incumbent.bound.value
    assert sources[:2] == ["bump", "size_classes"]
    assert waits == []


def test_plain_plans_come_before_any_waiting(waits):
    incumbent, sources = pack(random_lifespans(300, live=50, seed=0))
    assert incumbent.peak > incumbent.bound.value
    assert sources == ["bump", "size_classes", "first_fit", "lowest_offset_first"]
    assert waits == [solve.LOOPS, solve.LOOPS]


@pytest.mark.parametrize("rule", ["gaps", "fixed"])
def test_gaps_and_fixed_offsets_skip_first_fit_without_loops(waits, rule):
    problem = random_lifespans(300, live=50, seed=0)
    row = int((problem.upper - problem.lower).argmax())
    lower, upper = int(problem.lower[row]), int(problem.upper[row])
    third = (upper - lower) // 3
    value = {row: [Gap(lower + third, upper - third)] if rule == "gaps" else 0}
    _, sources = pack(replace(problem, **{rule: value}))
    assert sources == ["bump", "size_classes", "lowest_offset_first"]


def test_slow_heuristics_wait_for_compiled_loops(waits, monkeypatch, tune):
    tune(PackingTuning, uncompiled_seconds=0.0)
    events: list[str] = []
    monkeypatch.setattr(solve, "prepare_all", lambda *_: events.append("wait"))
    offer = solve.offer_packing

    def noted(name, *rest):
        events.append(name)
        offer(name, *rest)

    monkeypatch.setattr(solve, "offer_packing", noted)
    pack(random_lifespans(300, live=50, seed=0))
    assert events == ["size_classes", "wait", "first_fit", "lowest_offset_first", "wait"]


def test_without_time_to_load_loops_none_are_asked_for(waits, monkeypatch):
    monkeypatch.setattr(solve, "may_load", lambda deadline: False)
    monkeypatch.setattr(solve, "is_ready", None)
    _, sources = pack(random_lifespans(300, live=50, seed=0))
    assert sources == ["bump", "size_classes", "first_fit", "lowest_offset_first"]
    assert waits == []


def test_without_a_clock_the_loops_are_compiled_at_once(waits):
    problem = random_lifespans(300, live=50, seed=0)
    solve.offer_first_plans(Incumbent(problem), Deadline(math.inf))
    solve.offer_first_plans(Incumbent(problem), Deadline(9, deterministic=True))
    assert waits == []


def test_time_for_the_last_check_is_kept(waits):
    deadline = Deadline(1000)
    solve.offer_packing("bump", Incumbent(random_lifespans(300, seed=3)), deadline)
    assert deadline.remaining() + deadline.elapsed() < 1000
