"""Plans in pieces: against every splitting of small networks, and never worse than without."""

from __future__ import annotations

import math
import random
import re
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cpplan
from cpplan.model.axes import Axis, Window
from cpplan.model.errors import InputError, VerificationError
from cpplan.model.graph import Graph, Op, Tensor
from cpplan.model.pieces import Pieces
from cpplan.model.residency import Residency
from cpplan.program.anf import to_anf
from cpplan.report.html.plan_data import plan_data
from cpplan.runtime.deadline import Deadline
from cpplan.splitting.candidates import Candidates
from cpplan.splitting.frontier import Frontier
from cpplan.splitting.piece_graph import split_graph
from cpplan.splitting.problem import SplitProblem
from cpplan.splitting.region import Region
from cpplan.splitting.schedule import after_what_they_wait_for
from cpplan.splitting.styles import Style
from cpplan.splitting.written_in_turn import with_writers_together
from tests.support.sources import ROOT
from tests.support.split_networks import Network
from tests.support.split_oracle import random_twins


def chain(rows: int, *layers: tuple[int, int, int]) -> Graph:
    """Convolutions of (channels, taps, stride), one after another, over two columns."""
    net = Network()
    x = net.image(rows, 2, 2)
    for channels, taps, stride in layers:
        x = net.conv(x, channels, taps=taps, stride=stride)
    return net.graph()


def least_live_bytes(graph: Graph) -> int:
    """Fewest live bytes over all splittings along rows and all orders that run each piece once."""
    best = None
    cuts = []
    for op in graph.ops:
        extent = next(axis.extent for axis in op.axes if axis.name == "rows")
        places = range(1, extent)
        cuts.append([c for n in range(extent) for c in combinations(places, n)])
    for chosen in product(*cuts):
        pieces = [
            Pieces(op.name, ("rows",), (c,)) for op, c in zip(graph.ops, chosen, strict=True) if c
        ]
        found = cpplan.solve(split_graph(graph, pieces).graph, order="search", time_limit=5)
        best = found.peak if best is None else min(best, found.peak or best)
    assert best is not None
    return best


def check(graph: Graph, plan: cpplan.Plan) -> None:
    """Run the plan in an arena of its size, and add up the costs of its pieces."""
    cpplan.simulate(graph, plan)
    pieces = split_graph(graph, plan.pieces).graph
    assert plan.base_cost == to_anf(graph).cost
    assert plan.cost == sum(pieces.op[name].cost for name in plan.order)


@pytest.mark.parametrize(
    "graph",
    [
        # Rows of 4 B and 8 B: the image of 16 B and one row, then rows change places.
        chain(4, (4, 1, 1)),
        chain(4, (4, 3, 1)),
        chain(3, (6, 1, 1), (1, 1, 1)),
        chain(3, (6, 3, 1), (1, 1, 1)),
        chain(4, (6, 3, 1), (1, 3, 2)),
    ],
    ids=["1x1", "3x3", "1x1 twice", "3x3 and 1x1", "3x3 and strided"],
)
def test_small_networks_are_split_as_well_as_any_splitting_along_rows(graph: Graph) -> None:
    plan = cpplan.solve(graph, split=True, time_limit=20, deterministic=True)
    check(graph, plan)
    assert plan.cost == plan.base_cost
    assert plan.peak is not None
    assert plan.lower_bound is not None
    assert plan.lower_bound <= plan.peak <= least_live_bytes(graph)


@settings(max_examples=15, deadline=None)
@given(
    rows=st.integers(2, 9),
    layers=st.lists(
        st.tuples(st.integers(1, 6), st.sampled_from([1, 3]), st.sampled_from([1, 2])),
        min_size=1,
        max_size=4,
    ),
    in_place=st.booleans(),
    cost_limit=st.sampled_from([1.0, 1.2, 2.0]),
)
def test_a_plan_in_pieces_is_never_larger_than_one_without(
    rows: int, layers: list[tuple[int, int, int]], in_place: bool, cost_limit: float
) -> None:
    graph = chain(rows, *layers)
    whole = cpplan.solve(graph, in_place=in_place, time_limit=2)
    plan = cpplan.solve(graph, split=True, cost_limit=cost_limit, in_place=in_place, time_limit=2)
    check(graph, plan)
    assert plan.peak <= whole.peak
    assert plan.cost <= cost_limit * plan.base_cost


@pytest.mark.parametrize("seed", [1005, pytest.param(1016, marks=pytest.mark.slow)])
def test_plans_need_no_more_at_a_larger_cost_limit_nor_with_more_allowed(seed: int) -> None:
    rng = random.Random(seed)
    graph, in_place = random_twins(rng, 60).graph(), rng.random() < 0.5
    asked: dict[str, Any] = {"in_place": in_place, "deterministic": True, "time_limit": 1}
    peaks = [
        cpplan.solve(graph, split=True, cost_limit=limit, workers=1, **asked).peak
        for limit in (1.0, 1.1, 1.2, 2.0)
    ]
    assert peaks == sorted(peaks, reverse=True)
    whole = cpplan.solve(graph, workers=1, **asked)
    again = cpplan.solve(graph, remat=True, cost_limit=2, workers=1, **asked)
    both = cpplan.solve(graph, split=True, remat=True, cost_limit=2, workers=1, **asked)
    check(graph, both)
    assert peaks[0] <= whole.peak
    assert both.peak <= min(again.peak, peaks[-1])


def test_a_network_with_a_residual_branch_keeps_line_buffers_only() -> None:
    net = Network()
    x = net.conv(net.image(16, 4, 1), 16)
    y = net.conv(net.relu(net.conv(x, 16)), 16)
    net.conv(net.add(y, x), 1)
    graph = net.graph()
    # Unsplit, two tensors of 1,024 B are live with the skip.
    assert cpplan.solve(graph, in_place=True).peak == 3 * 1024
    plan = cpplan.solve(graph, split=True, in_place=True, time_limit=0.3, deterministic=True)
    check(graph, plan)
    # Rows of 64 B: 4 of the skip, 3 of each other tensor, besides image and output (128 B).
    assert plan.peak < 1200
    assert plan.cost == plan.base_cost


def test_a_memory_limit_is_met_at_the_least_extra_cost() -> None:
    graph = chain(16, (8, 3, 1), (8, 3, 1), (1, 3, 1))
    plan = cpplan.solve(graph, split=True, memory_limit=220, time_limit=20, deterministic=True)
    check(graph, plan)
    assert plan.peak <= 220
    assert plan.cost == plan.base_cost


def test_the_more_a_piece_costs_the_fewer_there_are() -> None:
    graph = chain(16, (8, 3, 1), (1, 3, 1))
    options = {"split": True, "time_limit": 20, "workers": 1, "deterministic": True}
    whole = cpplan.solve(graph)
    many, few, none = (
        cpplan.solve(graph, piece_bytes=weight, **options) for weight in (0, 16, 1024)
    )
    for plan in (many, few, none):
        check(graph, plan)
    assert len(graph.ops) < len(few.order) < len(many.order)
    assert many.peak < few.peak < whole.peak
    # Each is the better one by what it was ranked by.
    assert few.peak + 16 * len(few.order) < many.peak + 16 * len(many.order)
    assert (none.pieces, none.peak) == ((), whole.peak)
    # The bound and the limit stay those of the arena.
    assert many.lower_bound == few.lower_bound == none.lower_bound


def test_the_cheapest_plan_within_a_limit_has_few_pieces_if_they_cost() -> None:
    graph = chain(16, (8, 3, 1), (1, 3, 1))
    limit = cpplan.solve(graph, split=True, workers=1).peak + 100
    plans = [
        cpplan.solve(graph, split=True, memory_limit=limit, piece_bytes=weight, workers=1)
        for weight in (0, 1024)
    ]
    for plan in plans:
        check(graph, plan)
        assert plan.peak <= limit
        assert plan.cost == plan.base_cost
    assert len(graph.ops) < len(plans[1].order) <= len(plans[0].order)


def test_a_plan_whose_pieces_cost_is_not_called_optimal() -> None:
    graph = chain(4, (4, 1, 1))
    plain, weighed = (cpplan.solve(graph, split=True, piece_bytes=weight) for weight in (0, 1))
    for plan in (plain, weighed):
        assert plan.pieces
        check(graph, plan)
    assert weighed.status == "feasible"
    # Without pieces nothing smaller is left to find.
    net = Network()
    net.dense(net.image(4, 4, 8), 2)
    assert cpplan.solve(net.graph(), split=True, piece_bytes=1024).status == "optimal"


def test_a_weighed_plan_that_meets_the_bound_passes_the_check() -> None:
    net = Network()
    x = net.image(6, 4, 4)
    net.conv(net.attention(x, x, x), 0, taps=2, stride=2, padding=0, depthwise=True)
    graph = net.graph()
    # The image of 96 B and a row of 16 B; by its sum with the pieces, the plan is not proved best.
    plan = cpplan.solve(graph, split=True, piece_bytes=1, time_limit=1, deterministic=True)
    check(graph, plan)
    assert plan.pieces
    assert (plan.status, plan.peak, plan.lower_bound) == ("feasible", 112, 112)
    with pytest.raises(VerificationError, match="contradicts peak"):
        cpplan.verify(graph, replace(plan, status="optimal", lower_bound=111))


def test_whole_ops_of_branches_keep_the_given_order() -> None:
    net = Network()
    x = net.conv(net.image(4, 4, 1), 4)
    first = net.conv(x, 4)
    first, second = net.conv(first, 2), net.relu(net.conv(x, 1, taps=1))
    net.concat(first, second)
    graph = net.graph()
    # In another order, the branches need fewer bytes: a region without cuts is no way to reorder.
    for weight in (0, 16, 64):
        plan = cpplan.solve(
            graph, split=True, in_place=True, piece_bytes=weight, time_limit=1, deterministic=True
        )
        check(graph, plan)
        if not plan.pieces:
            assert plan.order == tuple(op.name for op in graph.ops)


def test_a_limit_that_no_piece_fits_names_the_op_and_its_bytes() -> None:
    net = Network()
    net.dense(net.conv(net.image(4, 4, 1), 8), 2)
    plan = cpplan.solve(net.graph(), split=True, memory_limit=100)
    # The matrix product cannot be split: 128 B and its result of 2 B.
    assert plan.status == "infeasible"
    assert plan.message == (
        "does not fit into 100 B, for any pieces: op dense1, which cannot be split, needs 130 B"
    )


def test_a_peak_that_cannot_be_split_stays_as_it_is() -> None:
    net = Network()
    net.dense(net.image(4, 4, 8), 2)
    plan = cpplan.solve(net.graph(), split=True, cost_limit=2)
    assert (plan.peak, plan.status, plan.bound_by) == (130, "optimal", "live bytes")
    assert (plan.pieces, plan.copied_bytes) == ((), 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cost_limit": 0.9}, "cost_limit must be at least 1"),
        ({"capacity": 100}, "split=True needs either a memory_limit or a cost_limit"),
        ({"memory_limit": 100, "cost_limit": 2}, "split=True take either"),
        ({"pools": [cpplan.Pool("a"), cpplan.Pool("b")]}, "split=True plans one pool"),
        ({"piece_bytes": -1}, "piece_bytes: a byte count cannot be negative: -1"),
        ({"piece_bytes": "60%"}, "piece_bytes: '60%' is not a byte count"),
        ({"order": "search", "first": ["conv0"]}, "cannot be combined with first and last"),
    ],
)
def test_contradicting_options_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        cpplan.solve(chain(4, (4, 1, 1)), split=True, **options)  # type: ignore[arg-type]


def test_sums_over_channels_need_no_whole_expansion() -> None:
    net = Network("float32")
    x = net.image(4, 4, 4)
    net.conv(net.relu(net.conv(x, 64, taps=1)), 4, taps=1)
    graph = net.graph()
    plan = cpplan.solve(graph, split=True, in_place=True, time_limit=4, deterministic=True)
    check(graph, plan)
    # Image and sum take 256 B each, the expansion 4,096 B.
    assert plan.peak < 700
    assert plan.cost == plan.base_cost


def test_a_plan_in_pieces_survives_its_json(tmp_path: object) -> None:
    from cpplan.io.plan_json import plan_from_dict, plan_to_dict

    plan = cpplan.solve(chain(8, (8, 3, 1), (1, 3, 1)), split=True, time_limit=10)
    assert plan.pieces
    assert plan_from_dict(plan_to_dict(plan)) == plan


def test_an_explanation_names_what_needs_the_bound_on_all_splittings() -> None:
    graph = chain(8, (8, 3, 1), (4, 3, 1))
    plan = cpplan.solve(graph, split=True)
    assert plan.pieces
    found = plan.explain(graph)
    assert found.least_piece is not None
    assert found.least_piece.startswith(f"all that is live when op {graph.ops[0].name} has done")
    assert found.fullest.op in plan.order
    assert "needed by        all that is live" in str(found)
    more = cpplan.solve(graph, split=True, cost_limit=1.1)
    boundary = "the boundary of the model, its inputs or its outputs"
    assert more.explain(graph).least_piece == boundary
    net = Network()
    net.dense(net.conv(net.image(4, 4, 2), 8), 2)
    stuck = net.graph()
    plan = cpplan.solve(stuck, split=True)
    assert plan.explain(stuck).least_piece == f"op {stuck.ops[1].name}, which cannot be split"


@pytest.mark.parametrize("cost_limit", [None, 1.5])
def test_a_graph_without_axes_is_planned_whole_with_the_bounds_of_its_order(
    cost_limit: float | None,
) -> None:
    ops = (Op("a", inputs=("x",), outputs=("t",)), Op("b", inputs=("t",), outputs=("y",)))
    tensors = (Tensor("x", 8, kind="input"), Tensor("t", 16), Tensor("y", 4, kind="output"))
    graph = Graph("chain", tensors, ops)
    plan = cpplan.solve(graph, split=True, cost_limit=cost_limit, order="search")
    assert (plan.status, plan.peak, plan.pieces, plan.copied_bytes) == ("optimal", 24, (), 0)
    assert plan.message == "no op can be cut along an axis"
    again = cpplan.solve(graph, split=True, remat=True, cost_limit=cost_limit or 1.0)
    assert (again.status, again.peak) == ("optimal", 24)
    assert list(cpplan.pareto(graph, split=True, time_limit=5)["peak"]) == [24]


def test_a_report_shows_the_graph_of_pieces_and_keeps_the_plan(tmp_path: Path) -> None:
    graph = chain(8, (8, 3, 1), (4, 3, 1))
    plan = cpplan.solve(graph, split=True)
    data = plan_data(plan, graph)
    assert [cut["op"] for cut in data["plan"]["pieces"]] == [cut.op for cut in plan.pieces]
    plan.report(tmp_path / "plan.html", graph)
    assert f"{len(plan.pieces)} ops run in pieces" in (tmp_path / "plan.html").read_text("utf-8")


def test_a_view_of_a_constant_between_ops_does_not_keep_them_whole() -> None:
    """Networks scale channels by a parameter of another shape: its view moves no bytes."""
    graph = chain(8, (8, 3, 1), (8, 3, 1), (1, 3, 1))
    first, second, last = graph.ops
    tensors = (
        *graph.tensors,
        Tensor("gamma", 8, kind="constant", shape=(8,), dtype="int8"),
        Tensor("shown", 8, view_of=("gamma", 0), shape=(1, 1, 8), dtype="int8"),
    )
    reshape = Op("reshape", inputs=("gamma",), outputs=("shown",), cost=0)
    scaled = replace(second, inputs=(*second.inputs, "shown"))
    viewed = Graph("viewed", tensors, (first, reshape, scaled, last))
    for kept in ("outside", "keep"):
        residency = Residency(constants=kept)
        plain, other = (
            Region(SplitProblem(to_anf(net), residency, frozenset()), 0, len(net.ops))
            for net in (graph, viewed)
        )
        style = Style("rows")
        estimates = plain.estimate(style), other.estimate(style)
        assert estimates[0] is not None
        assert estimates[1] is not None
        assert estimates[1].peak == estimates[0].peak + (8 if kept == "keep" else 0)
        check(viewed, cpplan.solve(viewed, split=True, constants=kept, deterministic=True))


def test_a_limit_below_every_plan_is_answered_with_the_smallest_found() -> None:
    graph = chain(8, (8, 3, 1), (4, 3, 1))
    whole = cpplan.solve(graph)
    plan = cpplan.solve(graph, split=True, memory_limit=cpplan.solve(graph, split=True).lower_bound)
    assert plan.offset is None
    found = re.search(r"the best needs (\d+) B", plan.message or "")
    assert found is not None
    assert int(found[1]) < whole.peak


def test_tiles_keep_their_halos_both_ways() -> None:
    net = Network()
    x = net.image(16, 16, 1)
    net.conv(net.conv(x, 8), 1)
    graph = net.graph()
    plan = cpplan.solve(
        graph, split=True, inputs="outside", outputs="outside", time_limit=10, workers=1
    )
    check(graph, plan)
    assert plan.cost == plan.base_cost
    # Of rows of 128 B, whole ones need three; two and what one tile needs are less.
    assert plan.peak < 3 * 128
    tiled = next(cut for cut in plan.pieces if cut.op == "conv0")
    assert sorted(tiled.axes) == ["columns", "rows"]


def test_tiles_make_the_rows_that_a_stride_takes_at_once_together() -> None:
    net = Network()
    x = net.image(16, 16, 1)
    net.conv(net.conv(x, 8, taps=1), 1, stride=2)
    graph = net.graph()
    plan = cpplan.solve(
        graph, split=True, inputs="outside", outputs="outside", time_limit=10, deterministic=True
    )
    check(graph, plan)
    assert plan.cost == plan.base_cost
    # Of rows of 128 B, one is kept for the next two, which are made tile by tile.
    assert plan.peak is not None
    assert plan.peak < 2 * 128


@pytest.mark.slow
def test_pieces_may_run_again() -> None:
    net = Network()
    skip = net.conv(net.conv(net.image(16, 4, 1), 16), 8)
    x = net.conv(skip, 1)
    # Each row of it needs all rows of what it reads.
    x = net.conv(x, 4, taps=31, padding=15)
    graph = net.graph("net", net.conv(net.add(net.conv(x, 8), skip), 1))
    asked = {"inputs": "keep", "split": True, "remat": True, "time_limit": 15}
    joint = cpplan.solve(graph, cost_limit=1.5, **asked)  # type: ignore[arg-type]
    remat = cpplan.solve(graph, inputs="keep", remat=True, cost_limit=1.5, time_limit=3)
    assert joint.peak < remat.peak
    assert joint.pieces
    assert joint.cost <= 1.5 * joint.base_cost
    check(graph, joint)
    within = cpplan.solve(graph, memory_limit=remat.peak - 1, **asked)  # type: ignore[arg-type]
    assert within.peak < remat.peak
    check(graph, within)


def test_attention_runs_by_query_rows_of_a_product_that_holds_keys_and_values() -> None:
    net = Network("float32")
    x = net.relu(net.conv(net.image(16, 1, 8), 8, taps=1))
    product = net.conv(x, 24, taps=1)
    query, key, value = (net.part(product, 2, 8 * k, 8 * k + 8) for k in range(3))
    mixed = net.add(x, net.conv(net.attention(query, key, value), 8, taps=1))
    graph = net.graph("attention", net.conv(net.relu(net.conv(mixed, 32, taps=1)), 8, taps=1))
    whole = cpplan.solve(graph, in_place=True, time_limit=2)
    plan = cpplan.solve(graph, in_place=True, split=True, time_limit=6)
    # 512 B for x, or what replaces it, and 1536 B for the product: with a row of anything else.
    assert whole.peak == 512 + 4 * 512
    assert plan.peak <= 512 + 3 * 512 + 256
    cpplan.simulate(graph, plan)


def test_halos_are_not_computed_again_by_ops_that_may_run_only_once() -> None:
    net = Network()
    x = net.conv(net.image(12, 12, 1), 8, taps=1)
    net.conv(net.conv(net.relu_over(x), 8, taps=3), 1, taps=3)
    net.ops[1] = replace(net.ops[1], recomputable=False)
    region = Region(SplitProblem(to_anf(net.graph()), Residency()), 0, 4)
    assert region.strips("rows", 3) is None
    net.ops[1] = replace(net.ops[1], recomputable=True)
    region = Region(SplitProblem(to_anf(net.graph()), Residency()), 0, 4)
    strips = region.strips("rows", 3)
    assert strips is not None
    # The second convolution makes a row more at each of two ends twice, the first two and so on.
    assert strips.steps is not None
    assert [int(rows[:, 1].sum() - rows[:, 0].sum()) for rows in strips.steps] == [20, 20, 16, 12]


def masked(rows: int) -> Graph:
    """Two convolutions and a sum with a mask, whose halves are filled in turn just before it."""
    net = Network()
    y = net.conv(net.image(rows, 4, 4), 16)
    shape = {"dtype": "int8"}
    net.tensors["mask"] = Tensor("mask", shape=(rows, 1, 1), **shape)
    net.ops.append(Op("zeros", "Zeros", (), ("mask",)))
    for half in (0, 1):
        part, start = f"part{half}", half * rows // 2
        net.tensors[part] = Tensor(part, shape=(rows // 2, 1, 1), view_of=("mask", start), **shape)
        net.ops.append(Op(f"fill{half}", "Fill", ("mask",), (part,), after=(net.ops[-1].name,)))
    net.tensors["z"] = Tensor("z", shape=(rows, 4, 16), **shape)
    windows = Window(y, 0), Window("mask", 0), Window("z", 0)
    axes = (Axis("rows", rows, windows),)
    net.ops.append(Op("add", "Add", (y, "mask"), ("z",), axes=axes, after=("fill1",)))
    net.conv("z", 4)
    graph = net.graph()
    parts = ("part0", "part1")
    tensors = [replace(t, kind="intermediate") if t.name in parts else t for t in graph.tensors]
    return replace(graph, tensors=tuple(tensors))


def test_a_mask_that_is_filled_in_turn_does_not_keep_its_reader_whole() -> None:
    graph = masked(8)
    whole = cpplan.solve(graph, in_place=True)
    plan = cpplan.solve(graph, split=True, in_place=True, time_limit=0.5, deterministic=True)
    check(graph, plan)
    assert plan.cost == plan.base_cost
    assert whole.peak is not None
    assert plan.peak is not None
    # The tensor of 512 B that the sum writes over is never whole.
    assert plan.peak < 512 < whole.peak


def test_ops_that_write_in_turn_are_brought_forward_if_they_make_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = SplitProblem(to_anf(masked(16)), Residency())
    assert [op.name for op in problem.ops][:4] == ["conv0", "zeros", "fill0", "fill1"]
    brought = with_writers_together(problem)
    assert [op.name for op in brought.ops][:4] == ["zeros", "fill0", "fill1", "conv0"]
    monkeypatch.setattr("cpplan.splitting.written_in_turn._BROUGHT_FORWARD_SHARE", 0.001)
    assert with_writers_together(problem).order == problem.program.order


def test_ops_that_write_in_turn_take_along_what_they_wait_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first op of all writes the mask, which is then filled with what the second one makes."""
    monkeypatch.setattr("cpplan.splitting.written_in_turn._BROUGHT_FORWARD_SHARE", 1.0)
    tensors = [Tensor("x", 64, kind="input"), Tensor("mask", 8), Tensor("value", 4)]
    tensors += [Tensor(f"part{half}", 4, view_of=("mask", 4 * half)) for half in (0, 1)]
    ops = (
        Op("zeros", outputs=("mask",)),
        Op("copy", inputs=("x",), outputs=("y",)),
        Op("scale", inputs=("x",), outputs=("value",)),
        Op("fill0", inputs=("mask", "value"), outputs=("part0",), after=("zeros",)),
        Op("fill1", inputs=("mask", "value"), outputs=("part1",), after=("fill0",)),
        Op("add", inputs=("y", "mask"), outputs=("z",), after=("fill1",)),
    )
    tensors += [Tensor("y", 64), Tensor("z", 64, kind="output")]
    problem = SplitProblem(to_anf(Graph("g", tuple(tensors), ops)), Residency())
    brought = [op.name for op in with_writers_together(problem).ops]
    assert brought == ["zeros", "scale", "fill0", "fill1", "copy", "add"]


def test_whole_ops_that_write_in_turn_keep_the_given_order() -> None:
    """Brought forward, they let the rectifier write over the image."""
    net = Network()
    net.relu(net.image(8, 10, 10))
    net.tensors["mask"] = Tensor("mask", 8)
    net.ops.append(Op("zeros", "Zeros", ("x",), ("mask",)))
    for half in (0, 1):
        part = f"part{half}"
        net.tensors[part] = Tensor(part, 4, view_of=("mask", 4 * half))
        net.ops.append(Op(f"fill{half}", "Fill", ("mask",), (part,), after=(net.ops[-1].name,)))
    graph = net.graph()
    plan = cpplan.solve(graph, split=True, in_place=True, piece_bytes=1000, time_limit=1)
    check(graph, plan)
    assert plan.order == ("relu0", "zeros", "fill0", "fill1")


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ([0, 1, 2, 3], [0, 1, 2, 3]),
        ([3, 0, 1, 2], [0, 1, 3, 2]),
        ([0, 1, 0, 3, 2], [0, 1, 0, 3, 2]),
        ([2, 3, 0, 1, 0], [0, 2, 1, 3, 0]),
    ],
    ids=["valid", "too soon", "one runs again", "too soon and again"],
)
def test_pieces_run_after_what_they_wait_for(order: list[int], expected: list[int]) -> None:
    # 1 waits for 0, 2 for 0, and 3 for 1.
    assert after_what_they_wait_for(order, [(), (0,), (0,), (1,)]) == expected


@pytest.fixture(scope="module")
def mobilenet() -> Graph:
    return cpplan.load(ROOT / "datasets/zoo/mobilenet_v2.infer.json.gz")


def test_pieces_begun_in_a_share_of_the_time_are_packed_after_it(mobilenet: Graph) -> None:
    plan = cpplan.solve(
        mobilenet, split=True, remat=True, cost_limit=1.1, time_limit=0.2, deterministic=True
    )
    assert plan.peak is not None
    assert plan.peak < 2_000_000  # 9,633,792 without pieces


def test_pieces_whose_derivation_takes_all_counted_work_are_packed() -> None:
    graph = cpplan.load(ROOT / "datasets/light_squeezenet.json")
    options = {"in_place": True, "time_limit": 0.02, "deterministic": True}
    whole = cpplan.solve(graph, **options)
    one, other = (cpplan.solve(graph, split=True, **options) for _ in range(2))
    assert one.pieces
    assert one.peak < whole.peak / 2
    assert one.offset.tolist() == other.offset.tolist()


def test_a_division_of_few_pieces_comes_first_if_the_best_takes_long(mobilenet: Graph) -> None:
    deadline = Deadline(0.2, deterministic=True)
    frontier = Frontier(SplitProblem(to_anf(mobilenet), Residency()), deadline)
    known = frontier.divisions()

    def first(quick: float) -> int:
        candidates = Candidates(frontier, known, math.inf, 1.0, set())
        return next(candidates.nearest_first(lambda: 5_000_000, quick)).pieces

    usual = first(math.inf)
    assert first(usual) == usual
    assert first(usual / 2) <= usual / 2
    assert first(1) < usual
