"""Reports in a real headless browser: they draw, answer, and let nothing out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report.browser import Open, Page, middle
from report.html_plans import (
    HOSTILE,
    again,
    chain,
    forked,
    hostile_graph,
    hostile_plan,
    results,
)

import cpplan
from cpplan import Graph, Op, Plan, Pool, Problem, Tensor
from cpplan.explanation.fullest_step import filled_profile, live_tensors
from cpplan.io.plan_json import plan_from_dict
from cpplan.model.plan_data import Progress
from cpplan.model.symbols import Symbols
from cpplan.report.html import batch_report, curve_report, plan_report
from tests.support.split_networks import Network

pytestmark = pytest.mark.slow
DATASETS = Path(__file__).resolve().parents[2] / "datasets"


def test_what_is_known_is_shown(open_page: Open) -> None:
    graph = forked()
    page = open_page(cpplan.solve(graph, order="search"), graph)
    assert page.text("#name") == "forked"
    assert page.text("#status") == "optimal"
    assert "No plan is smaller in any order" in page.text("#verdict")
    assert page.text("#seen").startswith("steps 0 to 5, 0 B")
    assert "At most 17 B were live before, 10 B after" in page.text("#order-note")
    assert set(page.column("#order", 1)) == {"w1", "w2", "t1", "t2", "end"}
    assert "run once" in page.column("#rules", 0)
    assert page.find("#history-chart").is_displayed()


def test_bound_of_every_splitting_is_said_to_hold_for_all(open_page: Open) -> None:
    net = Network()
    net.conv(net.conv(net.image(8, 2, 2), 8), 4)
    plan = cpplan.solve(net.graph(), split=True)
    page = open_page(plan, net.graph())
    assert "for every splitting" in page.text("#facts")
    assert "in any pieces and order" in page.text("#verdict")


def test_shared_bytes_count_once(open_page: Open) -> None:
    """x, 8 bytes; t, 16, written by a; y, 16, written over t: 24, not 40."""
    graph = Graph(
        "over",
        (Tensor("x", 8, kind="input"), Tensor("t", 16), Tensor("y", 16, kind="output")),
        (
            Op("a", inputs=("x",), outputs=("t",)),
            Op("b", inputs=("t", "x"), outputs=("y",), in_place=(("y", "t"),)),
        ),
    )
    plan = cpplan.solve(graph, in_place=True)
    assert plan.peak == 24
    page = open_page(plan, graph)
    assert page.text("#live-note").startswith("at most 24 B, at step 0")
    assert "the peak is no higher" in page.text("#tensors-note")
    assert page.column("#order", 2) == ["24 B", "24 B"]
    page.press("#live", "\ue014")
    assert page.column("#tensors", 0) == ["t", "y", "x"]
    assert page.column("#tensors", 2) == ["66.67\u202f%", "shared", "33.33\u202f%"]
    page.find("#tensors tbody tr:nth-child(2) button").click()
    assert page.text("#selection-title") == "y"
    assert "16 B at once" in page.text("#selection")


@pytest.mark.parametrize("pools", [None, (Pool("near", 3 << 20), Pool("far"))])
def test_live_bytes_are_those_that_are_filled(
    open_page: Open, pools: tuple[Pool, ...] | None
) -> None:
    """Ops write over what they read, and concatenations are there before they run."""
    graph = cpplan.load(DATASETS / "light_squeezenet.json")
    plan = cpplan.solve(graph, in_place=True, pools=pools, time_limit=2)
    page = open_page(plan, graph)
    times, filled = filled_profile(plan)
    most = int(filled.max())
    first = int(times[np.argmax(filled)])
    assert f"at most {most / 2**20:.2f} MiB, at step {first}" in page.text("#live-note")
    own = {tensor.name: tensor.share for tensor in live_tensors(plan, first)[1]}
    shares = zip(page.column("#tensors", 0), page.column("#tensors", 2), strict=True)
    assert dict(shares) == {name: f"{100 * share:.2f}\u202f%" for name, share in own.items()}


def test_choosing_in_the_table_keeps_the_keyboard_there(
    open_page: Open, layers: tuple[Problem, Plan]
) -> None:
    page = open_page(layers[1], layers[0])
    page.press("#tensors tbody button", "\ue007")
    name = page.column("#tensors", 0)[0]
    assert page.text("#selection-title") == name
    assert page.run("return document.activeElement.textContent") == name
    assert page.find("#tensors tbody tr").get_attribute("class") == "chosen"
    page.press("#selection ul button", "\ue007")
    assert page.run("return document.activeElement.id") == "selection-title"


def test_search_by_keyboard(open_page: Open, layers: tuple[Problem, Plan]) -> None:
    problem, plan = layers
    page = open_page(plan, problem)
    page.press("#search", "OUTPUT:45")
    assert page.run("return document.querySelectorAll('#found [role=option]').length") == 5
    assert page.find("#search").get_attribute("aria-expanded") == "true"
    page.press("#search", "\ue015", "\ue007")
    assert page.find("#search").get_attribute("aria-expanded") == "false"
    chosen = page.text("#selection-title")
    assert chosen.endswith("output:450")
    row = plan.row[chosen]
    assert f"address {plan.offset[row]}" in page.text("#announcement")


def test_the_table_sorts_and_follows_the_step(
    open_page: Open, layers: tuple[Problem, Plan]
) -> None:
    problem, plan = layers
    page = open_page(plan, problem)
    live = problem.live_bytes()
    fullest = int(np.argmax(live))
    names = [plan.buffers[row] for row in problem.live_at(fullest)]
    assert page.column("#tensors", 0) == names[:50]
    page.find("#tensors th:first-child button").click()
    assert page.find("#tensors th:first-child").get_attribute("aria-sort") == "ascending"
    assert page.column("#tensors", 0) == sorted(names)[:50]
    page.find("#tensors th:first-child button").click()
    assert page.find("#tensors th:first-child").get_attribute("aria-sort") == "descending"
    assert page.column("#tensors", 0) == sorted(names, reverse=True)[:50]
    page.press("#live", "\ue014")
    assert f"The fullest step is {fullest}" in page.text("#tensors-note")
    after = {plan.buffers[row] for row in problem.live_at(fullest + 1)}
    assert set(page.column("#tensors", 0)) <= after
    page.find("#list-all").click()
    assert page.text("#tensors .more button") == "Show 200 more of 404"


def test_hostile_names_are_text(open_page: Open) -> None:
    page = open_page(hostile_plan())
    page.find("#list-all").click()
    shown = page.column("#tensors", 0)
    assert "</script><script>window.hacked=1</script>" in shown
    assert r"abc\u202ecba\u2066\u200f" in shown
    assert r"a\u2028b\u2029c\x00\x1b[2J\x7f" in shown
    for name in HOSTILE:
        page.press("#search", "\ue009a\ue000", name[:6])
    page.press("canvas.map", *("n" * len(HOSTILE)))
    page.mouse("mouseMoved", *middle(page))
    assert page.run("return window.hacked") is None
    assert page.run("return document.querySelectorAll('img, b, iframe').length") == 0
    body = page.text("body").split('{"cpplan"')[0]
    assert not set(body) & set("\u202e\u2066\u200f\u2028\x00\x1b")
    assert page.driver.title.endswith(": memory plan")


def test_hostile_names_of_ops_and_pools_are_text(open_page: Open) -> None:
    pools = [Pool("</script><img src=x onerror=window.hacked=1>", 64), Pool("__proto__")]
    page = open_page(cpplan.solve(hostile_graph(), pools=pools, in_place=True), hostile_graph())
    for key in "n" * len(HOSTILE):
        page.press("canvas.map", key)
    assert page.column("#order", 1)[0] == f"op {HOSTILE[1]}"
    assert pools[0].name in page.text("#maps")
    page.mouse("mouseMoved", *middle(page))
    for selector in ("#tensors", "#order", "#history"):
        page.find(f"{selector} th:first-child button").click()
    assert page.saved("#download-csv").count("\r\n") == 1 + len(HOSTILE)
    assert page.run("return window.hacked") is None
    assert page.run("return document.querySelectorAll('img, b, iframe').length") == 0
    shown = page.run("return document.querySelector('main').textContent")
    assert not set(shown) & set("\u202e\u2066\u200f\u2028\x00\x1b")


def test_the_policy_stops_what_a_script_would_ask_for(driver: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(plan_report(cpplan.solve(chain())), encoding="utf-8")
    page = Page(driver, path)
    script = """
    const done = arguments[arguments.length - 1];
    const image = new Image();
    const asked = () => fetch("http://localhost:9/");
    image.onerror = () => asked().then(() => done("out"), () => done("stopped"));
    image.src = "http://localhost:9/x.png";
    """
    assert page.driver.execute_async_script(script) == "stopped"
    assert sum("Content Security Policy" in error for error in page.errors()) >= 2


def test_data_can_be_taken_along(open_page: Open) -> None:
    plan = cpplan.solve(again(), remat=True, memory_limit=24, inputs="keep")
    page = open_page(plan, again())
    assert plan_from_dict(json.loads(page.saved("#download-json"))) == plan
    lines = page.saved("#download-csv").splitlines()
    assert lines[0] == "name,size,lower,upper,offset,pool,kind,again"
    assert len(lines) == 1 + len(plan.buffers)
    assert any(line.startswith("r~1,8,") and line.endswith(",1") for line in lines)
    assert "↻ 2 of 2" in page.column("#order", 4)


def test_what_runs_again_is_marked(open_page: Open) -> None:
    plan = cpplan.solve(again(), remat=True, memory_limit=24, inputs="keep")
    page = open_page(plan, again())
    assert page.text("#live-note").endswith("▲ an op runs again")
    assert "computed again" in page.text("#legend")
    _, _, width, height = page.box("#live")
    frame = width - 66 - 132
    step = list(plan.order).index("r", 1) + 0.5
    seen = page.pixel("#live", (66 + frame * step / 6) / width, 1 - (22 + 4) / height)
    assert seen == (0xCC, 0x79, 0xA7, 255)


def test_a_search_without_improvements_is_no_curve(open_page: Open) -> None:
    plan = cpplan.solve(chain(), pools=[Pool("near", 16), Pool("far")])
    page = open_page(plan, chain())
    assert page.find("#history-section").is_displayed()
    assert not page.find("#history-chart").is_displayed()
    assert page.run("return document.querySelectorAll('#history th').length") == 2


def test_one_plan_is_no_curve(open_page: Open) -> None:
    alone = replace(cpplan.solve(chain()), history=(Progress(0.5, 24, 24, "first_fit"),))
    page = open_page(alone)
    assert page.text("#history-note") == "24 B after 500 ms."
    assert not page.find("#history-chart").is_displayed()


def test_csv_does_not_calculate(open_page: Open) -> None:
    page = open_page(hostile_plan())
    text = page.saved("#download-csv")
    assert "'=HYPERLINK(0)," in text
    assert '"""><img src=x onerror=""window.hacked=1"">"' in text


def test_dark_light_and_paper(open_page: Open, layers: tuple[Problem, Plan]) -> None:
    page = open_page(layers[1], layers[0])
    page.find("#list-all").click()
    light, light_map = page.background(), page.pixel("canvas.map", 0.5, 0.05)
    page.light("dark")
    page.settle()
    assert page.background() != light
    assert page.pixel("canvas.map", 0.5, 0.05) != light_map
    page.light("dark", "print")
    page.settle()
    assert page.background() == "rgb(255, 255, 255)"
    assert page.pixel("canvas.map", 0.5, 0.05) == light_map
    assert page.find("#tensors .on-paper").is_displayed()
    assert not page.find("#tensors .more button").is_displayed()
    page.light("dark")
    assert not page.find("#tensors .on-paper").is_displayed()
    assert page.print_pdf().startswith(b"%PDF")


def test_page_without_offsets_shows_the_message(open_page: Open) -> None:
    page = open_page(cpplan.solve(chain(), memory_limit=20), chain())
    assert "does not fit into 20" in page.text("#message")
    assert "There is no map" in page.text("#maps")
    assert page.column("#tensors", 0) == ["t", "x"]


def test_formulas_of_symbolic_plans(open_page: Open) -> None:
    tensors = (
        Tensor("x", shape=("n",), dtype="float32", kind="input"),
        Tensor("y", shape=("n", "m"), dtype="int8", kind="input"),
    )
    graph = Graph("g", tensors, (), Symbols({"n": (1, 8), "m": (0, None)}))
    page = open_page(cpplan.solve(graph), graph)
    assert page.text("#symbols-note").startswith("n from 1 to 8, m from 0 on.")
    page.press("canvas.map", "n")
    assert "32 B = 4*n at the bounds" in page.text("#selection")
    assert page.column("#symbols", 1) == ["m*n"]


def test_a_narrow_page_does_not_scroll_sideways(
    open_page: Open, layers: tuple[Problem, Plan]
) -> None:
    page = open_page(layers[1], layers[0])
    page.size(390, 800)
    page.settle()
    assert page.run("return document.documentElement.scrollWidth") <= 390
    page.size(1400, 1000)


def test_page_of_an_empty_problem_says_so(open_page: Open) -> None:
    page = open_page(cpplan.solve(Problem((), lower=[], upper=[], size=[])))
    assert page.text("#tensors-note") == "There is nothing to place."


def test_curve_page_shows_every_point(open_page: Open) -> None:
    plans = list(cpplan.pareto(forked(), points=4, time_limit=4)["plan"])
    page = open_page(curve_report(plans, title="</title>net"))
    assert page.text("#name") == "</title>net"
    assert page.find("#curve").is_displayed()
    assert len(page.column("#points", 0)) == len(plans)
    assert sorted(page.column("#points", 5)) == sorted(plan.status for plan in plans)
    assert page.find("#curve").get_attribute("aria-label").startswith("extra work against peak.")
    rows = json.loads(page.saved("#download-json"))
    assert [row["limit"] for row in rows] == [plan.capacity for plan in plans]
    page.light("dark")
    assert page.print_pdf().startswith(b"%PDF")


def test_batch_page_filters_its_rows(open_page: Open) -> None:
    page = open_page(batch_report(results(), title="</title>zoo"))
    assert page.text("#name") == "</title>zoo"
    assert set(page.column("#settings", 0)) == {"x", "y"}
    assert page.column("#results", 0)[:2] == ["</script>", "</script>"]
    page.press("#filter", "error")
    assert page.text("#results-note") == "1 of 4 rows"
    assert page.column("#results", 3) == ["–"]
    assert "it is <b>broken</b>" in page.text("#results")
    rows = json.loads(page.saved("#download-json"))
    assert [row["bytes"] for row in rows] == [12, 16, 8, None]
    assert page.print_pdf().startswith(b"%PDF")
