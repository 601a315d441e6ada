"""The map of a report in a real browser: where it draws, and how it is moved and read."""

from __future__ import annotations

import numpy as np
import pytest
from report.browser import Open, middle
from report.html_plans import forked

import cpplan
from cpplan import Plan, Pool, Problem

pytestmark = pytest.mark.slow
# Texts of the map's axis of addresses: the only ones that end left of it.
_KEEP_AXIS = """
window.labels = [];
const map = document.querySelector("canvas.map").getContext("2d");
map.fillText = function (text, ...more) {
  if (this.textAlign === "right") window.labels.push(text);
  return CanvasRenderingContext2D.prototype.fillText.call(this, text, ...more);
};
"""


def test_the_map_is_where_the_plan_says(open_page: Open) -> None:
    """Two buffers side by side, the lower half of the arena empty after the first step."""
    problem = Problem(("a", "b"), lower=[0, 0], upper=[1, 2], size=[50, 50], fixed={0: 0, 1: 50})
    page = open_page(cpplan.solve(problem), problem)
    left, top, width, height = page.box("canvas.map")
    first, second = left + 66 + (width - 198) * 0.25, left + 66 + (width - 198) * 0.75
    low, high = top + height - 22 - 40, top + 10 + 60
    page.click(second, high)
    assert "b, 50 B" in page.text("#announcement")
    assert "Nothing live with it" not in page.text("#selection")
    assert "Forced up by" in page.text("#selection")
    assert "It rests on 1 tensor" in page.text("#selection")
    page.click(first, low)
    assert "a, 50 B" in page.text("#announcement")
    page.click(second, low)
    assert page.text("#announcement") == "Nothing selected"
    page.mouse("mouseMoved", first, high)
    assert "b" in page.wait(lambda: page.find("#card").is_displayed() and page.text("#card strong"))


def test_who_shares_the_bytes(open_page: Open) -> None:
    problem = Problem(("a", "b", "c"), lower=[0, 1, 2], upper=[1, 2, 3], size=[8, 4, 8])
    page = open_page(cpplan.solve(problem), problem)
    page.press("canvas.map", "n", "n")
    assert "b, 4 B" in page.text("#announcement")
    assert "4 B before" in page.text("#selection")
    assert "4 B after" in page.text("#selection")
    assert "Nothing: it lies at the bottom" in page.text("#selection")
    page.press("canvas.map", "b")
    assert "a, 8 B" in page.text("#announcement")
    page.press("canvas.map", "\ue00c")
    assert page.text("#announcement") == "Nothing selected"


def test_relations_are_those_of_the_rectangles(
    open_page: Open, layers: tuple[Problem, Plan]
) -> None:
    """Compared with all pairs."""
    problem, plan = layers
    page = open_page(plan, problem)
    begin, end = plan.offset, plan.offset + plan.size
    live = (plan.lower[:, None] < plan.upper) & (plan.lower < plan.upper[:, None])
    shared = (begin[:, None] < end) & (begin < end[:, None]) & ~np.eye(len(begin), dtype=bool)
    touching = live & (end == begin[:, None])
    by_time = np.lexsort((np.arange(len(begin)), plan.lower))
    for row in by_time[:25]:
        page.press("canvas.map", "n")
        assert page.text("#selection-title") == plan.buffers[row]
        lists = page.run(
            "return [...document.querySelectorAll('#selection ul')].map((list) =>"
            " [...list.querySelectorAll('button')].map((each) => each.textContent))"
        )
        below = [plan.buffers[k] for k in np.flatnonzero(touching[row])]
        if begin[row] > 0:
            assert set(lists.pop(0)) == set(below)
            held, reached = set(), [row]
            while reached:
                new = set(np.flatnonzero(touching[reached.pop()])) - held
                held |= new
                reached += new
            if len(held) > len(below):
                assert f"{len(held)} tensors in all hold it up" in page.text("#selection")
        sharers = {plan.buffers[k] for k in np.flatnonzero(shared[row])}
        assert set(lists[0] if lists else []) == sharers


def test_wheel_drag_keys_and_buttons_move_the_view(
    open_page: Open, layers: tuple[Problem, Plan]
) -> None:
    problem, plan = layers
    page = open_page(plan, problem)
    whole = page.text("#seen")
    x, y = middle(page)
    page.wheel(x, y, -4)
    near = page.text("#seen")
    assert near != whole
    page.drag(x, y, (-80, 30))
    assert page.text("#seen") != near
    page.find("#zoom-all").click()
    page.settle()
    assert page.text("#seen") == whole
    page.press("canvas.map", "+")
    assert page.text("#seen") != whole
    moved = page.text("#seen")
    page.press("canvas.map", "\ue014", "\ue013")
    assert page.text("#seen") != moved
    page.press("canvas.map", "0")
    assert page.text("#seen") == whole
    for _ in range(3):
        page.find("#zoom-in").click()
    page.settle()
    assert page.text("#seen") != whole
    for _ in range(3):
        page.find("#zoom-out").click()
    page.settle()
    assert page.text("#seen") == whole


def test_pinching_zooms_the_map(open_page: Open, layers: tuple[Problem, Plan]) -> None:
    page = open_page(layers[1], layers[0])
    whole = page.text("#seen")
    x, y = middle(page)
    page.pinch(x, y, 20, 160)
    near = page.text("#seen")
    assert near != whole
    page.pinch(x, y, 160, 5)
    assert page.text("#seen") == whole
    assert "No tensor selected" in page.text("#selection")


def test_axes_tell_their_values_apart(open_page: Open, layers: tuple[Problem, Plan]) -> None:
    """Also far from zero and close by, where many are the same number of MiB but for some bytes."""
    page = open_page(layers[1], layers[0])
    x, y = middle(page)
    for _ in range(6):
        page.wheel(x, y, -6)
        page.run(_KEEP_AXIS)
        page.press("canvas.map", "\ue013")
        labels = page.run("return window.labels")
        assert len(set(labels)) == len(labels) > 1


def test_each_pool_has_a_panel(open_page: Open) -> None:
    pools = [Pool("sram", 16), Pool("dram"), Pool("spare")]
    plan = cpplan.solve(forked(), pools=pools)
    page = open_page(plan, forked())
    titles = page.run(
        "return [...document.querySelectorAll('#maps figcaption')].map((each) => each.textContent)"
    )
    assert [title.split()[0][:4] for title in titles] == ["sram", "dram", "spar"]
    assert "Nothing lies in this pool" in page.text("#maps")
