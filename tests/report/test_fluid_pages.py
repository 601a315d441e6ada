"""Large reports in a real browser stay fluid: no one task keeps the page busy for long."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from report.browser import FLUID, Open, middle
from report.html_plans import planned

import cpplan
from cpplan import Graph, Op, Plan, Problem, Tensor
from cpplan.report.html import batch_report

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def many() -> tuple[Problem, Plan]:
    """20,000 buffers over 8,000 steps."""
    return planned(20_000, 8_000)


def long_chain(count: int) -> Graph:
    """Each op reads the result before it, some an earlier one too; nine of ten may overwrite."""
    rng = np.random.default_rng(count)
    size = np.repeat(rng.integers(1_000, 100_000, count // 10 + 1), 10)
    tensors = [Tensor("t0", int(size[0]), kind="input")]
    ops = []
    for k in range(1, count + 1):
        kind = "output" if k == count else "intermediate"
        tensors.append(Tensor(f"t{k}", int(size[k]), kind=kind))
        earlier = k - 1 - int(rng.integers(0, 40)) if k % 3 == 0 and k > 40 else k - 1
        over = ((f"t{k}", f"t{k - 1}"),) if size[k] == size[k - 1] else ()
        inputs = tuple(dict.fromkeys((f"t{k - 1}", f"t{earlier}")))
        ops.append(Op(f"op{k}", inputs=inputs, outputs=(f"t{k}",), in_place=over))
    return Graph("long chain", tuple(tensors), tuple(ops))


def test_twenty_thousand_buffers_stay_fluid(open_page: Open, many: tuple[Problem, Plan]) -> None:
    problem, plan = many
    page = open_page(plan, problem)

    def act() -> None:
        x, y = middle(page)
        page.wheel(x, y, -8)
        page.drag(x, y, (-200, 60), moves=30)
        page.wheel(x, y, 12)
        for k in range(20):
            page.mouse("mouseMoved", x + 10 * k, y - 3 * k)
        page.click(x, y)
        page.press("#search", "layer_7/", "\ue007")
        page.press("canvas.map", "0", "n", "n", "p")
        page.find("#list-all").click()
        page.find("#tensors th:first-child button").click()

    assert page.longest_task(act) <= FLUID


def test_twenty_thousand_ops_stay_fluid(open_page: Open) -> None:
    """With an order, ops to look up, and thousands of buffers that share bytes by choice."""
    graph = long_chain(20_000)
    plan = cpplan.solve(graph, in_place=True, time_limit=10)
    assert len(plan.relations) > 5_000
    page = open_page(plan, graph)

    def act() -> None:
        x, y = middle(page)
        page.wheel(x, y, -8)
        page.drag(x, y, (-200, 60), moves=30)
        page.click(x, y)
        page.press("canvas.map", "0", "n", "b", "p")
        page.press("#live", "\ue014", "\ue014")
        page.find("#order th:last-child button").click()
        page.find("#order .more button").click()

    assert page.longest_task(act) <= FLUID


def test_a_batch_of_thousands_stays_fluid(open_page: Open) -> None:
    rng = np.random.default_rng(0)
    need = rng.integers(1000, 2000, 8000)
    frame = pd.DataFrame(
        {
            "model": np.repeat([f"model_{k}" for k in range(1000)], 8),
            "setting": np.tile([f"setting_{k}" for k in range(8)], 1000),
            "status": "feasible", "bytes": need, "bound": 900, "gap": (need - 900) / need,
            "ratio_first_fit": need / 1800, "seconds": 1.0,
        }
    )  # fmt: skip
    page = open_page(batch_report(frame))

    def act() -> None:
        page.press("#filter", "model_77")
        page.find("#results th:nth-child(4) button").click()

    assert page.longest_task(act) <= FLUID
