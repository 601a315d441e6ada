"""Messages of plans that are not proved best: found, proved, open, and what time brought."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.sources import ROOT

import cpplan
from cpplan.model.pieces import Pieces
from cpplan.model.plan_data import Progress
from cpplan.solving.open_gaps import with_open_gap
from cpplan.solving.request import Request


@pytest.fixture(scope="module")
def feasible() -> cpplan.Plan:
    """A plan of 40 B that nothing proves: the bound is 30 B."""
    graph = cpplan.load(ROOT / "datasets/hand/residual.json")
    plan = cpplan.solve(graph, time_limit=2)
    return replace(
        plan, status="feasible", peak=40, lower_bound=30, bound_by="live bytes", message=None,
        runtime=9.0,
    )  # fmt: skip


def told(plan: cpplan.Plan, *events: Progress, **options: object) -> str | None:
    return with_open_gap(replace(plan, history=events), Request(**options)).message


EARLY, LATE = Progress(1.0, 50, 30, "first"), Progress(8.0, 40, None, "second")
OPEN = "40 B found, 30 B proved (live bytes): to prove is that no {} needs less"


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({}, "plan at the given order"),
        ({"order": "search"}, "order"),
        ({"remat": True, "cost_limit": 1.1}, "schedule of at most 1.1 times the work"),
        ({"split": True}, "plan in pieces"),
    ],
)
def test_the_bound_and_what_would_have_to_be_proved_are_said(feasible, options, what):
    assert told(feasible, deterministic=True, **options) == OPEN.format(what)


def test_the_last_third_of_the_time_is_told_by_the_clock_alone(feasible):
    start, lately = OPEN.format("plan at the given order"), "in the last third of the time"
    assert told(feasible, EARLY, LATE) == f"{start}; {lately} the plan fell by 20.00%"
    assert told(feasible, EARLY) == f"{start}; {lately} neither has moved"
    higher = Progress(7.0, None, 33, "third")
    text = f"{start}; {lately} the plan fell by 20.00% and the bound rose by 10.00%"
    assert told(feasible, EARLY, LATE, higher) == text
    assert told(feasible, LATE) == start
    assert told(feasible, EARLY, LATE, deterministic=True) == start


def test_figures_that_would_read_alike_are_told_in_bytes(feasible):
    plan = replace(feasible, peak=46_800_516, lower_bound=46_796_612)
    assert (told(plan, deterministic=True) or "").startswith(
        "46800516 B found, 46796612 B proved (live bytes)"
    )


def test_work_within_a_limit_is_told_as_more_work(feasible):
    plan = replace(
        feasible, base_cost=100, cost=140, cost_bound=106, cost_bound_by="linear bound at cuts"
    )
    text = told(plan, remat=True, memory_limit=64, deterministic=True)
    assert text == (
        "40.00% more work found, 6.00% proved (linear bound at cuts): to prove is that no schedule "
        "within the limit does less"
    )
    assert told(replace(plan, cost=106), remat=True, memory_limit=64, deterministic=True) is None


def test_what_is_proved_fits_or_is_weighed_has_no_gap(feasible):
    assert told(replace(feasible, status="optimal")) is None
    assert told(feasible, memory_limit=64) is None
    assert told(feasible, algorithm="first_fit") is None
    weighed = Pieces("op", ("rows",), ((1,),))
    assert told(replace(feasible, pieces=(weighed,)), split=True, piece_bytes=8) is None


def test_a_reason_for_an_early_end_comes_first(feasible):
    plan = replace(feasible, message="ended early")
    assert (
        told(plan, deterministic=True) == f"ended early; {OPEN.format('plan at the given order')}"
    )
