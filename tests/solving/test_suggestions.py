"""Decisions that were not asked for: what they would save is found, true, and only what runs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.sources import ROOT

from cpplan import Graph, Op, Plan, Pool, Problem, Tensor, load, solve
from cpplan.cli.main import main
from cpplan.cli.printing import describe_suggestions
from cpplan.io.formats import decisions_of
from cpplan.io.graph_json import write_graph
from cpplan.model.errors import InputError
from cpplan.model.overhead import Overhead
from cpplan.model.symbols import Symbols
from cpplan.solving.request import Request
from cpplan.solving.suggestions import suggest_decisions

DATASETS = ROOT / "datasets"
SQUEEZENET = DATASETS / "light_squeezenet.json"


@pytest.fixture(scope="module")
def plan() -> Plan:
    return solve(load(SQUEEZENET), suggest=2.0, deterministic=True)


def two_branches() -> Graph:
    """Two branches of one large tensor each, listed in turns, so that both are live at once."""
    large, small = {"large_a": 100, "large_b": 100}, {"small_a": 1, "small_b": 1}
    tensors = [Tensor(name, size) for name, size in {**large, **small}.items()]
    ops = (
        Op("grow_a", inputs=("x",), outputs=("large_a",)),
        Op("grow_b", inputs=("x",), outputs=("large_b",)),
        Op("shrink_a", inputs=("large_a",), outputs=("small_a",)),
        Op("shrink_b", inputs=("large_b",), outputs=("small_b",)),
        Op("join", inputs=("small_a", "small_b"), outputs=("y",)),
    )
    ends = (Tensor("x", 1, kind="input"), Tensor("y", 1, kind="output"))
    return Graph("branches", (*ends, *tensors), ops)


def test_suggestions_are_of_plans_that_their_options_find(plan):
    assert [list(one.options) for one in plan.suggestions] == [
        ["order", "in_place"],
        ["split"],
        ["order", "in_place", "split"],
    ]
    peaks = [plan.peak, *(one.peak for one in plan.suggestions)]
    assert peaks == sorted(set(peaks), reverse=True)
    for one in plan.suggestions:
        asked = solve(load(SQUEEZENET), time_limit=2, deterministic=True, **one.options)
        assert asked.peak <= one.peak
        assert asked.cost == asked.base_cost


def test_only_decisions_that_the_graph_allows_are_suggested():
    plan = solve(two_branches(), suggest=1.0)
    (one,) = plan.suggestions
    assert (plan.peak, one.options, one.peak) == (201, {"order": "search"}, 102)
    assert not solve(two_branches(), order="search", suggest=1.0).suggestions


def test_where_nothing_fits_what_fits_is_suggested():
    plan = solve(two_branches(), memory_limit=150, suggest=1.0)
    assert (plan.status, plan.offset) == ("infeasible", None)
    assert [(one.peak, one.lacking) for one in plan.suggestions] == [(102, 0)]


def test_where_nothing_fits_at_all_the_bytes_above_the_limit_are_said():
    plan = solve(two_branches(), memory_limit=90, suggest=1.0)
    assert [(one.options, one.peak, one.lacking) for one in plan.suggestions] == [
        ({"order": "search"}, 102, 12)
    ]
    assert (
        describe_suggestions(plan) == "smaller      --order search: 102 B (12 B above the limit)\n"
    )


def test_what_a_runtime_keeps_of_the_arena_counts_above_the_limit():
    graph = replace(two_branches(), overhead=Overhead("Some Runtime", 40))
    plan = solve(graph, memory_limit=130, suggest=1.0)
    assert [(one.peak, one.lacking) for one in plan.suggestions] == [(102, 12)]


@pytest.mark.parametrize(
    "options",
    [
        {"remat": True, "cost_limit": 1.1},
        {"algorithm": "first_fit"},
        {"pools": [Pool("fast", 150), Pool("slow")]},
        {"suggest": 0.0},
    ],
)
def test_other_aims_have_no_suggestions(options):
    assert not solve(two_branches(), **{"suggest": 1.0, "time_limit": 1.0, **options}).suggestions


def test_a_bare_problem_has_no_suggestions():
    assert not solve(Problem(("a",), [0], [1], [4]), suggest=1.0).suggestions


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf"), True, "1"])
def test_seconds_that_are_none_are_refused(seconds):
    with pytest.raises(InputError, match="suggest must be a number of seconds"):
        solve(two_branches(), suggest=seconds)


def test_suggestions_are_saved_with_the_plan(plan, tmp_path):
    plan.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json").suggestions == plan.suggestions


def test_runtimes_of_some_formats_run_no_pieces():
    assert decisions_of("net.tflite") == ("order", "in place", "split")
    assert decisions_of("step.pt2") == ("order", "in place")


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(["plan", str(SQUEEZENET), "-q", *arguments])
    return code, capsys.readouterr().out


def test_the_command_line_says_what_is_left(capsys):
    code, text = answer(capsys, "--deterministic", "--suggest", "2")
    assert code == 0
    lines = text[text.index("smaller") :].splitlines()
    assert [line[:12].strip() for line in lines[:3]] == ["smaller", "", ""]
    assert lines[0].split(": ")[0].split()[1:] == ["--order", "search", "--in-place"]
    assert "3.75 MiB (-37.7%)" in lines[0]


def test_what_fits_is_said_where_nothing_does(capsys):
    code, text = answer(capsys, "--deterministic", "--suggest", "2", "--memory-limit", "4MiB")
    assert code == 3
    assert "--order search --in-place: 3.75 MiB (fits)" in text


def test_best_takes_all_that_costs_nothing_but_what_is_decided(capsys):
    brief = "--deterministic", "--time-limit", "1"
    _, best = answer(capsys, *brief, "--best")
    assert "in place" in best
    assert " KiB (" in best.splitlines()[2]
    assert "smaller" not in best
    _, kept = answer(capsys, *brief, "--best", "--no-in-place", "--suggest", "0")
    assert "in place" not in kept


def test_best_leaves_out_what_does_not_go_with_other_options(capsys, tmp_path):
    pools = "--pool", "fast=3MiB", "--pool", "slow"
    code, text = answer(capsys, "--deterministic", "--time-limit", "1", "--best", *pools)
    assert code == 0
    assert "in place" in text
    path = tmp_path / "open.json"
    tensors = [
        Tensor(n, shape=("n",), dtype="int8", kind=k) for n, k in (("x", "input"), ("y", "output"))
    ]
    op = Op("f", inputs=("x",), outputs=("y",), in_place=(("y", "x"),))
    write_graph(Graph("open", tuple(tensors), (op,), Symbols({"n": (1, 4)})), path)
    assert main(["plan", str(path), "-q", "--best"]) == 0
    assert "peak         4 B" in capsys.readouterr().out


def test_no_suggestion_does_more_work():
    graph = two_branches()
    plan, found = solve(graph), solve(graph, order="search")
    dearer = replace(found, cost=found.cost + 1)
    for better, count in ((found, 1), (dearer, 0)):
        made = suggest_decisions(graph, plan, Request(), 1.0, lambda *_, plan=better: plan)
        assert len(made) == count


def test_where_nothing_fits_only_fewer_bytes_are_suggested():
    graph = two_branches()
    plan = solve(graph, memory_limit=90)
    assert (plan.status, plan.lower_bound) == ("infeasible", 201)
    for peak, count in ((201, 0), (200, 1)):
        other = replace(solve(graph), peak=peak)
        made = suggest_decisions(
            graph, plan, Request(memory_limit=90), 1.0, lambda *_, plan=other: plan
        )
        assert len(made) == count
