"""Random graphs of symbolic sizes: a plan at the bounds holds at every value below them."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given, settings
from support.random_symbolic import DIMS, symbolic_graphs, values

from cpplan.io.graph_json import graph_from_dict, graph_to_dict
from cpplan.io.networkx_graph import from_networkx, to_networkx
from cpplan.io.plan_json import plan_from_dict, plan_text
from cpplan.model.graph import Graph, Op, Placement, Tensor
from cpplan.model.plan import Plan
from cpplan.model.pool import Pool
from cpplan.model.shapes import parse_dim
from cpplan.model.symbols import Symbols
from cpplan.program.binding import bind
from cpplan.program.constraints import with_first_last
from cpplan.solving.pipeline import solve
from cpplan.verification.arena import simulate
from cpplan.verification.verifier import verify

FEW = settings(max_examples=20, derandomize=True)
UPPER = {name: most for name, (_, most) in DIMS.items()}


def _check(graph: Graph, at: dict[str, int], **options: object) -> Plan:
    plan = solve(graph, time_limit=0.2, workers=1, **options)  # type: ignore[arg-type]
    if plan.offset is None:
        return plan
    for point in (at, UPPER):
        verify(graph, plan, dims=point)
        simulate(graph, plan, dims=point)
        assert plan.at(point).peak <= plan.peak
    again = plan_from_dict(json.loads("".join(plan_text(plan))))
    assert again == plan
    verify(graph, again, dims=at)
    return plan


@FEW
@given(symbolic_graphs(), values())
def test_offsets_hold_at_every_value(graph, at):
    _check(graph, at)


@FEW
@given(symbolic_graphs(), values())
def test_what_is_written_in_place_has_one_size(graph, at):
    _check(graph, at, in_place=True, placement=False)


@FEW
@given(symbolic_graphs(), values())
def test_what_is_placed_within_another_moves_with_it(graph, at):
    _check(graph, at, placement=True)


@FEW
@given(symbolic_graphs(), values())
def test_inputs_and_outputs_may_be_elsewhere(graph, at):
    _check(graph, at, in_place=True, inputs="outside", outputs="outside")


@FEW
@given(symbolic_graphs(), values())
def test_inputs_and_constants_may_be_kept(graph, at):
    _check(graph, at, placement=True, inputs="keep", constants="keep")


@FEW
@given(symbolic_graphs(), values())
def test_symbolic_plans_in_several_pools_are_right(graph, at):
    _check(graph, at, in_place=True, pools=(Pool("sram", capacity=64), Pool("dram")))


@FEW
@given(symbolic_graphs(), values())
def test_symbolic_plans_in_an_aligned_pool_are_right(graph, at):
    _check(graph, at, in_place=True, pools=(Pool("arena", alignment=16),))


@FEW
@given(symbolic_graphs(), values())
def test_symbolic_plans_of_searched_orders_are_right(graph, at):
    _check(graph, at, order="search", in_place=True)


@settings(max_examples=12, derandomize=True)
@given(symbolic_graphs(), values())
def test_ops_that_run_again(graph, at):
    _check(graph, at, remat=True, cost_limit=1.5, in_place=True)


@FEW
@given(symbolic_graphs(), values())
def test_a_graph_at_values_is_the_graph_made_of_them(graph, at):
    symbols = graph.symbols

    def tensor(old: Tensor) -> Tensor:
        shape = symbols.shapes.get(old.name, old.shape)
        fixed = tuple(e if isinstance(e, int) else e.evaluate(at) for e in shape)
        view = old.view_of
        if old.name in symbols.offsets:
            view = (view[0], symbols.offsets[old.name].evaluate(at))
        return Tensor(old.name, shape=fixed, dtype=old.dtype, kind=old.kind, view_of=view)

    def op(old: Op) -> Op:
        moved = [
            Placement(
                *p[:2],
                p.offset if key not in symbols.placements else symbols.placements[key].evaluate(at),
            )
            for p in old.placements
            for key in [(old.name, p.part, p.whole)]
        ]
        bodies = tuple(bind(body, at) for body in old.bodies)
        return replace(old, placements=tuple(moved), bodies=bodies)

    made = Graph(graph.name, tuple(map(tensor, graph.tensors)), tuple(map(op, graph.ops)))
    assert graph.at(at) == made
    assert graph.at(**at) == made


@FEW
@given(symbolic_graphs())
def test_graphs_round_trip(graph):
    assert graph_from_dict(json.loads(json.dumps(graph_to_dict(graph)))) == graph
    assert from_networkx(to_networkx(graph)) == graph


@FEW
@given(symbolic_graphs())
def test_what_is_asked_of_the_order_leaves_sizes_alone(graph):
    if graph.ops:
        assert with_first_last(graph, first=[graph.ops[0].name]).symbols == graph.symbols


def test_a_part_at_a_fixed_offset_behind_one_that_moves():
    """a and b fill six bytes at every n, so c always begins at byte 6; b is left to be copied."""
    tensors = (
        *(
            Tensor(name, shape=(extent,), dtype="int8", kind="input")
            for name, extent in (("a", "n"), ("b", "6 - n"), ("c", 6))
        ),
        Tensor("y", shape=(12,), dtype="int8", kind="output"),
    )
    places = Placement("a", "y", 0), Placement("b", "y", parse_dim("n")), Placement("c", "y", 6)
    join = Op("join", inputs=("a", "b", "c"), outputs=("y",), placements=places)
    graph = Graph("join", tensors, (join,), Symbols({"n": (1, 6)}))
    assert [placement.part for placement in graph.op["join"].placements] == ["a", "c"]
    plan = solve(graph, in_place=True, workers=1)
    for n in range(1, 7):
        verify(graph, plan, dims={"n": n})
        simulate(graph, plan, dims={"n": n})
