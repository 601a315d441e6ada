"""Parts of a report's file, without a browser to draw it (see test_browser)."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from report.html_plans import HOSTILE, again, chain, forked, hostile_plan, results

import cpplan
from cpplan import Gap, Graph, Op, Problem, Tensor
from cpplan.cli.main import cli
from cpplan.comparison.spill_curve import spill_curve
from cpplan.io.graph_json import write_graph
from cpplan.io.plan_json import plan_from_dict, plan_to_dict
from cpplan.model.errors import InputError
from cpplan.model.symbols import Symbols
from cpplan.report.html import batch_report, curve_report, moves_report, plan_report
from cpplan.report.html.page_text import escape_json


def data_of(text: str) -> dict:
    """The JSON that the page's script reads, as a browser finds it in the file."""
    found = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert len(found) == 1
    return json.loads(found[0])


def test_the_plan_can_be_made_again_from_the_data() -> None:
    graph = forked()
    plan = cpplan.solve(graph, order="search", in_place=True)
    data = data_of(plan_report(plan, graph))
    columns = data["columns"]
    rows = zip(*(columns[key] for key in ("name", "size", "lower", "upper", "offset")), strict=True)
    buffers = [
        {"name": n, "size": s, "lower": lo, "upper": up, "offset": o, "pool": "arena"}
        for n, s, lo, up, o in rows
    ]
    again = plan_from_dict({**data["plan"], "buffers": buffers})
    assert again == plan
    assert again.history == plan.history


def test_the_models_own_order_is_compared() -> None:
    graph = forked()
    plan = cpplan.solve(graph, order="search")
    assert plan.peak == 10
    given = data_of(plan_report(plan, graph))["given"]
    assert max(given["live"]) == 17
    assert [graph.ops[k].name for k in given["place"]] == list(plan.order)
    assert data_of(plan_report(plan))["given"] is None


def test_roles_come_from_the_boundary_and_the_model() -> None:
    graph = Graph(
        "roles",
        (
            Tensor("x", 8, kind="input"), Tensor("w", 4, kind="constant"),
            Tensor("t", 16), Tensor("s", 2, kind="workspace"), Tensor("y", 4, kind="output"),
        ),
        (
            Op("a", inputs=("x", "w"), outputs=("t",), workspaces=("s",)),
            Op("b", inputs=("t",), outputs=("y",)),
        ),
    )  # fmt: skip
    plan = cpplan.solve(graph, constants="keep")
    columns = data_of(plan_report(plan, graph))["columns"]
    roles = dict(zip(columns["name"], columns["role"], strict=True))
    assert roles == {"x": 1, "w": 3, "t": 0, "s": 4, "y": 2}
    alone = data_of(plan_report(plan))["columns"]
    assert dict(zip(alone["name"], alone["role"], strict=True)) == {
        "x": 1, "w": 0, "t": 0, "s": 0, "y": 2,
    }  # fmt: skip


def test_further_copies_are_marked_with_and_without_the_model() -> None:
    graph = again()
    plan = cpplan.solve(graph, remat=True, memory_limit=24, inputs="keep")
    assert plan.order.count("r") == 2
    for source in (graph, None):
        columns = data_of(plan_report(plan, source))["columns"]
        assert [n for n, a in zip(columns["name"], columns["again"], strict=True) if a] == ["r~1"]


def test_a_name_that_looks_like_a_copys_is_none() -> None:
    problem = Problem(("a", "a~1"), lower=[0, 0], upper=[1, 1], size=[1, 1])
    assert data_of(plan_report(cpplan.solve(problem)))["columns"]["again"] == [0, 0]


def test_gaps_are_drawn_as_rectangles() -> None:
    problem = Problem(
        ("a", "b"), lower=[0, 1], upper=[3, 2], size=[8, 4], gaps={0: [Gap(1, 2, 0, 4)]}
    )
    spans = data_of(plan_report(cpplan.solve(problem)))["spans"]
    columns = (spans[key] for key in ("buffer", "lower", "upper", "begin", "end"))
    rows = sorted(zip(*columns, strict=True))
    assert rows == [(0, 0, 1, 0, 8), (0, 1, 2, 0, 4), (0, 2, 3, 0, 8), (1, 1, 2, 0, 4)]


def test_steps_have_ops_only_where_that_is_sure() -> None:
    plan = cpplan.solve(chain())
    assert data_of(plan_report(plan))["starts"] == [0, 1, 2]
    outside = cpplan.solve(chain(), outputs="outside")
    assert data_of(plan_report(outside))["starts"] is None
    assert data_of(plan_report(outside, chain()))["starts"] == [0, 1, 2]


def test_symbolic_plans_have_formulas() -> None:
    tensors = (
        Tensor("x", shape=("n",), dtype="int8", kind="input"),
        Tensor("y", shape=("n", "m"), dtype="int8", kind="input"),
    )
    graph = Graph("g", tensors, (), Symbols({"n": (1, 8), "m": (0, None)}))
    plan = cpplan.solve(graph)
    symbols = data_of(plan_report(plan))["symbols"]
    assert symbols["dims"] == [["n", "1", "8"], ["m", "0", ""]]
    assert symbols["size"][str(plan.row["x"])] == "n"
    assert symbols["unbounded"] == [["y", "m*n", 0]]


def test_without_offsets_the_report_says_why() -> None:
    plan = cpplan.solve(chain(), memory_limit=20)
    data = data_of(plan_report(plan, chain()))
    assert plan.status == "infeasible"
    assert data["columns"]["offset"] is None
    assert "does not fit" in data["plan"]["message"]


def test_nothing_at_all_is_a_report_too() -> None:
    problem = Problem((), lower=[], upper=[], size=[])
    assert data_of(plan_report(cpplan.solve(problem), problem))["columns"]["name"] == []


def test_a_plan_of_another_model_is_refused() -> None:
    plan = cpplan.solve(chain())
    with pytest.raises(InputError, match="runs op 'a', but model 'forked' has no such op"):
        plan_report(plan, forked())


def test_hostile_names_stay_data() -> None:
    plan = hostile_plan()
    text = plan_report(plan)
    assert data_of(text)["columns"]["name"] == HOSTILE
    raw = text.split('id="data">')[1].split("</script>")[0]
    assert raw.isascii()
    assert not set(raw) & set("<>&'")
    head = text.split("</head>")[0]
    assert "window.hacked=1</script>" not in head
    assert "\u202e" not in text
    # The data's element, the script's, and no more; each ends once.
    assert len(re.findall(r"<script", text)) == len(re.findall(r"</script", text)) == 2


@pytest.mark.parametrize("text", HOSTILE)
def test_escaped_json_is_the_same_json(text: str) -> None:
    escaped = escape_json({text: [text]})
    assert json.loads(escaped) == {text: [text]}
    assert not re.search("[<>&'\u2028\u2029]", escaped)


def test_numbers_that_json_has_not_are_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        escape_json(float("nan"))


@pytest.mark.parametrize("page", ["plan", "batch", "curve"])
def test_the_policy_allows_what_is_in_the_file_and_nothing_else(page: str) -> None:
    text = {
        "plan": lambda: plan_report(cpplan.solve(chain())),
        "batch": lambda: batch_report(results()),
        "curve": lambda: curve_report([cpplan.solve(chain())]),
    }[page]()
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1])
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    for tag, rule in (("script", "script-src"), ("style", "style-src")):
        body = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"
    assert not re.search(r"https?:|//[a-z]+\.|@import|url\(|\bfetch\b|XMLHttp|innerHTML", text)
    assert not re.search(r"<[^>]* (style|on\w+)=", text.split("<script")[0])


@pytest.mark.parametrize("light", ["light", "dark"])
def test_names_can_be_read_on_every_colour(light: str) -> None:
    """At the contrast that WCAG 2 asks of text, 4.5."""
    styles = re.split(r"@media \(prefers-color-scheme: dark\)|@media print", page_styles())
    known = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", styles[light == "dark"]))
    fills = [f"tint-{k}" for k in range(4)] + ["input", "output", "constant", "workspace"]
    on_page = ["ink", "soft", "accent", "peak", "bound", "capacity"]
    pairs = [("label", fill) for fill in fills] + [(text, "page") for text in on_page]
    low = {pair for pair in pairs if contrast(*(known[each] for each in pair)) < 4.5}
    assert not low


def page_styles() -> str:
    text = plan_report(cpplan.solve(chain()))
    return re.search("<style>(.*?)</style>", text, re.DOTALL)[1]


def contrast(one: str, other: str) -> float:
    dark, light = sorted(luminance(colour) for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = (int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(share * c for share, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_454_buffers_need_less_than_300_kb() -> None:
    rng = np.random.default_rng(0)
    lower = rng.integers(0, 400, 454)
    names = [f"model/layer_{k}/attention/query/MatMul:output_{k}" for k in range(454)]
    upper = lower + rng.integers(1, 40, 454)
    problem = Problem(names, lower, upper, rng.integers(1, 10**6, 454))
    text = plan_report(cpplan.solve(problem, time_limit=0.5), problem)
    assert len(text.encode()) < 300_000


def test_the_same_plan_gives_the_same_bytes() -> None:
    plan = plan_from_dict(plan_to_dict(cpplan.solve(chain())))
    assert plan_report(plan, chain()) == plan_report(plan, chain())


def test_plan_command_writes_the_page(tmp_path: Path) -> None:
    model, page, saved = (str(tmp_path / name) for name in ("chain.json", "p.html", "p.json"))
    write_graph(chain(), model)
    run = CliRunner().invoke(cli, ["plan", model, "-q", "--report", page, "-o", saved])
    assert run.exit_code == 0
    data = data_of(Path(page).read_text(encoding="utf-8"))
    assert data["plan"]["peak"] == 24
    assert data["given"] is not None
    Path(page).unlink()
    assert CliRunner().invoke(cli, ["show", saved, "--report", page]).exit_code == 0
    assert data_of(Path(page).read_text(encoding="utf-8"))["plan"]["peak"] == 24


def test_command_line_refuses_to_overwrite_its_input(tmp_path: Path) -> None:
    model = str(tmp_path / "chain.json")
    write_graph(chain(), model)
    before = Path(model).read_bytes()
    run = CliRunner().invoke(cli, ["plan", model, "-q", "--report", model])
    assert isinstance(run.exception, InputError)
    assert Path(model).read_bytes() == before


def test_an_infeasible_plan_is_reported_by_the_command_line(tmp_path: Path) -> None:
    model, page = str(tmp_path / "chain.json"), str(tmp_path / "p.html")
    write_graph(chain(), model)
    CliRunner().invoke(cli, ["plan", model, "-q", "--memory-limit", "20", "--report", page])
    assert data_of(Path(page).read_text(encoding="utf-8"))["plan"]["status"] == "infeasible"


def test_batch_page_holds_the_results() -> None:
    data = data_of(batch_report(results(), title="</title>"))
    assert data["columns"]["bytes"] == [12, 16, 8, None]
    assert data["columns"]["gap"] == [0.0, 0.25, 0.0, None]
    assert data["baselines"] == ["first_fit"]
    by_name = {row["setting"]: row for row in data["settings"]}
    assert by_name["x"]["planned"] == 2
    assert by_name["y"]["to_best"] == pytest.approx(16 / 12)
    assert data["common"] == 1
    assert data["factors"][0] == 1


def test_a_table_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="no column 'bytes'"):
        batch_report(results().drop(columns="bytes"))


def test_curve_page_has_the_points_and_what_no_plan_needs_less_than() -> None:
    graph = forked()
    plans = list(cpplan.pareto(graph, points=3, time_limit=4)["plan"])
    data = data_of(curve_report(plans, "</title>"))
    assert [row["limit"] for row in data["points"]] == [plan.capacity for plan in plans]
    for row, plan in zip(data["points"], plans, strict=True):
        assert (row["x"], row["status"]) == (plan.peak, plan.status)
        if row["y"] is not None:
            assert row["y"] == pytest.approx(plan.cost / plan.base_cost - 1)
            assert row["bound"] <= row["y"]
    assert [row["limit"] for row in data["points"] if row["bound"] is not None] == [
        limit for limit, _ in data["bounds"]
    ]
    with pytest.raises(InputError, match="at least one point"):
        curve_report([])


def test_curve_page_of_moves_has_bytes_against_capacity() -> None:
    curve = spill_curve(forked(), points=3, time_limit=3)
    data = data_of(moves_report(curve))
    assert data["what"]["y"] == "bytes moved"
    found = [(row["x"], row["y"], row["bound"]) for row in data["points"]]
    assert found == [(one.capacity, one.moved_bytes, one.moved_bytes_bound) for one in curve]


def test_pareto_writes_its_page(tmp_path) -> None:
    write_graph(forked(), tmp_path / "g.json")
    for more in (["--split"], ["--spill"], []):
        page = tmp_path / "curve.html"
        options = ["--points", "2", "--time-limit", "2", "-q", "--report", str(page), *more]
        done = CliRunner().invoke(cli, ["pareto", str(tmp_path / "g.json"), *options])
        assert done.exit_code == 0, done.output
        assert data_of(page.read_text(encoding="utf-8"))["title"] == "g.json"
