"""Figures: what is drawn where. matplotlib is an extra; without it there is nothing to test."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import cpplan
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op, Tensor
from cpplan.model.plan_data import Progress
from cpplan.model.pool import Pool
from cpplan.model.problem import Gap, Problem
from cpplan.report import plot_arena, plot_live_bytes, plot_pareto, plot_progress

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    from matplotlib import pyplot

    pyplot.close("all")


@pytest.fixture
def again() -> cpplan.Plan:
    """fa runs a second time before g, so that 9 bytes do."""
    tensors = [Tensor(n, s) for n, s in (("a", 4), ("b", 1), ("c", 8), ("d", 1))]
    ops = (
        Op("fa", outputs=("a",)),
        Op("fb", inputs=("a",), outputs=("b",)),
        Op("fc", inputs=("b",), outputs=("c",)),
        Op("fd", inputs=("c",), outputs=("d",)),
        Op("g", inputs=("d", "a"), outputs=("y",)),
    )
    graph = Graph("again", (*tensors, Tensor("y", 1, kind="output")), ops)
    return cpplan.solve(graph, remat=True, memory_limit=9)


def _labels(ax) -> list[str]:
    legend = ax.get_legend()
    return [] if legend is None else [text.get_text() for text in legend.get_texts()]


def _boxes(ax) -> list[list[float]]:
    """Left, bottom, right and top of every rectangle."""
    (collection,) = [c for c in ax.collections if len(c.get_paths()) and c.get_label()[0] == "_"]
    return sorted(path.get_extents().extents.tolist() for path in collection.get_paths())


def test_every_span_is_a_rectangle_at_its_address():
    gaps = {0: [Gap(1, 2, 4, 8)]}
    problem = Problem(("a", "b"), [0, 1], [3, 3], size=[8, 4], gaps=gaps, fixed={0: 0, 1: 8})
    axes = plot_arena(cpplan.solve(problem))
    assert _boxes(axes) == [[0, 0, 1, 8], [1, 4, 2, 8], [1, 8, 3, 12], [2, 0, 3, 8]]
    assert _labels(axes) == ["intermediate", "peak 12 B", "lower bound 12 B"]


def test_kinds_and_repeated_ops_are_told_apart(again):
    axes = plot_arena(again)
    assert _labels(axes) == [
        "intermediate",
        "output",
        "computed again",
        "capacity 9 B",
        "peak 9 B",
        "lower bound 9 B",
        "1 op runs again",
    ]
    (marks,) = [line for line in axes.lines if line.get_label() == "1 op runs again"]
    assert marks.get_xdata().tolist() == [again.order.index("fa", 1) + 0.5]
    (collection,) = [c for c in axes.collections if c.get_label()[0] == "_"]
    row = int(np.flatnonzero(again.lower == again.order.index("fa", 1))[0])
    purple = matplotlib.colors.to_rgba("#CC79A7")
    assert tuple(collection.get_facecolor()[row]) == purple


def test_each_pool_has_axes_of_its_own():
    pools = Pool("fast", capacity=8), Pool("slow")
    problem = Problem(("a", "b"), [0, 0], [1, 1], [8, 4], pools=pools)
    plan = cpplan.solve(problem)
    first, second = plot_arena(plan)
    assert first.get_title() == "problem, pool fast: 8 B, optimal"
    assert "capacity 8 B" in _labels(first)
    assert second.get_title() == "problem, pool slow: 4 B, optimal"
    assert _boxes(plot_arena(plan, pool="slow")) == [[0, 0, 1, 4]]
    with pytest.raises(InputError, match="no pool 'l3': expected one of 'fast', 'slow'"):
        plot_arena(plan, pool="l3")
    with pytest.raises(InputError, match="2 pools: give 2 axes"):
        plot_arena(plan, ax=first)


def test_a_capacity_far_above_is_only_named():
    problem = Problem(("a",), [0], [1], [4])
    axes = plot_arena(cpplan.solve(problem, memory_limit=4096))
    assert "capacity 4096 B (above)" in _labels(axes)
    assert axes.get_ylim()[1] < 5


def test_no_offsets_no_arena():
    problem = Problem(("a",), [0], [1], [4])
    with pytest.raises(InputError, match="no offsets"):
        plot_arena(cpplan.solve(problem, capacity=2))


def test_names_are_shown_as_they_are():
    """Dollars begin formulas in matplotlib; unclosed ones would end the drawing."""
    name = "$x_{\n"
    ops = (Op(name, outputs=(name,)),)
    plan = cpplan.solve(Graph(name, (Tensor(name, 8, kind="output"),), ops))
    for axes in (plot_arena(plan), plot_live_bytes(plan), plot_progress(plan)):
        axes.figure.canvas.draw()
    assert "$x_{\\n" in {text.get_text() for text in plot_arena(plan).texts}


def test_names_stay_with_their_buffers():
    axes = plot_arena(cpplan.solve(Problem(("a",), [0], [2], [8])))
    axes.set(ylim=(0, 80))
    (name,) = axes.texts
    assert name.get_position() == (1, 4)
    assert name.get_transform() == axes.transData


def test_axes_are_in_binary_units():
    axes = plot_arena(cpplan.solve(Problem(("a",), [0], [1], [3 << 20])))
    axes.figure.canvas.draw()
    ticks = [text.get_text() for text in axes.get_yticklabels()]
    assert ticks == ["0", "1 MiB", "2 MiB", "3 MiB"]


def test_many_buffers_are_one_collection():
    rng = np.random.default_rng(0)
    lower = rng.integers(0, 400, 4000)
    names = [f"b{k}" for k in range(4000)]
    problem = Problem(names, lower, lower + 3, rng.integers(1, 99, 4000))
    axes = plot_arena(cpplan.solve(problem, algorithm="first_fit"))
    (collection,) = [c for c in axes.collections if c.get_label()[0] == "_"]
    assert len(collection.get_paths()) == 4000
    assert collection.get_linewidth() == 0
    axes.figure.canvas.draw()


def test_live_bytes_count_what_is_shared_once():
    tensors = Tensor("x", 8, kind="input"), Tensor("y", 8, kind="output")
    relu = Op("relu", inputs=("x",), outputs=("y",), in_place=(("y", "x"),))
    plan = cpplan.solve(Graph("g", tensors, (relu,)), in_place=True)
    axes = plot_live_bytes(plan)
    assert _labels(axes)[:3] == ["live", "fullest step 0, relu: 8 B", "peak 8 B"]


def test_live_bytes_without_a_plan():
    axes = plot_live_bytes(cpplan.solve(Problem(("a",), [0], [1], [4]), capacity=2))
    assert _labels(axes) == ["live", "fullest step 0: 4 B", "capacity 2 B", "lower bound 4 B"]


def test_progress_falls_to_the_peak_and_rises_to_the_bound():
    plan = cpplan.solve(Problem(("a", "b"), [0, 1], [2, 3], [4, 8]))
    events = [(0.1, 20, 4), (0.2, 14, 4), (0.3, 16, 8), (0.4, 12, 12)]
    plan = replace(plan, history=tuple(Progress(*event, "x") for event in events), runtime=0.5)
    peak, bound = plot_progress(plan).lines
    assert peak.get_xydata().tolist() == [[0.1, 20], [0.2, 14], [0.4, 12], [0.5, 12]]
    assert bound.get_xydata().tolist() == [[0.1, 4], [0.3, 8], [0.4, 12], [0.5, 12]]


def test_progress_needs_a_history(tmp_path):
    plan = cpplan.solve(Problem(("a",), [0], [1], [4]))
    plan.save(tmp_path / "plan.json")
    with pytest.raises(InputError, match="clock=True"):
        plot_progress(cpplan.Plan.load(tmp_path / "plan.json"))
    plan.save(tmp_path / "plan.json", clock=True)
    assert plot_progress(cpplan.Plan.load(tmp_path / "plan.json")).lines


def test_the_trade_off_is_a_staircase(again):
    import pandas

    tighter = replace(again, capacity=8, peak=None, offset=None, status="infeasible")
    roomy = replace(again, capacity=13, peak=13, cost=5, cost_bound=5, status="optimal")
    rows = [
        {"limit": p.capacity, "peak": p.peak, "extra": 0, "status": p.status, "plan": p}
        for p in (roomy, replace(again, status="feasible"), tighter)
    ]
    axes = plot_pareto(pandas.DataFrame(rows))
    line = axes.lines[0]
    assert line.get_drawstyle() == "steps-post"
    assert line.get_xydata().tolist() == [[9, pytest.approx(0.2)], [13, 0]]
    assert _labels(axes) == [
        "cheapest, proved",
        "cheapest found",
        "at least, within the limit",
        "nothing fits, proved",
    ]
    with pytest.raises(InputError, match=r"cpplan\.pareto"):
        plot_pareto(pandas.DataFrame({"peak": [1]}))


def test_figures_are_drawn_where_asked():
    from matplotlib import pyplot

    plan = cpplan.solve(Problem(("a",), [0], [1], [4]))
    _, panels = pyplot.subplots(3)
    for plot, ax in zip((plot_arena, plot_live_bytes, plot_progress), panels, strict=True):
        assert plot(plan, ax) is ax
