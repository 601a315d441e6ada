"""Pieces cut in two, in the order of the pieces that they are parts of."""

from __future__ import annotations

from dataclasses import replace

import cpplan
from cpplan.model.pieces import Pieces
from cpplan.runtime.deadline import Deadline
from cpplan.splitting import halves
from cpplan.splitting.halves import halved, order_of_parts
from cpplan.splitting.piece_graph import PieceGraph, split_graph
from cpplan.splitting.problem import SplitProblem
from tests.support.split_networks import Network

ENDLESS = Deadline(float("inf"))
FEW = {"time_limit": 3, "deterministic": True, "split": True}


def problem_of(net: Network) -> SplitProblem:
    return SplitProblem(cpplan.to_anf(net.graph()), cpplan.Residency(), frozenset())


def in_rows(problem: SplitProblem) -> PieceGraph:
    """The first op in two bands of rows."""
    cuts = [Pieces(problem.ops[0].name, ("rows",), ((2,),))]
    return split_graph(problem.graph, cuts, problem.lines)


def cuts_of(pieces: PieceGraph | None) -> list[tuple[tuple[str, ...], tuple[tuple[int, ...], ...]]]:
    assert pieces is not None
    return [(each.axes, each.cuts) for each in pieces.cuts]


def test_every_piece_is_cut_in_the_middle() -> None:
    net = Network()
    net.conv(net.conv(net.image(5, 3, 2), 4), 6)
    problem = problem_of(net)
    pieces = in_rows(problem)
    rows, columns = halved(problem, pieces, 0, ENDLESS), halved(problem, pieces, 1, ENDLESS)
    assert cuts_of(rows) == [(("rows",), ((1, 2, 3),)), (("rows",), ((2,),))]
    assert cuts_of(columns) == [(("rows", "columns"), ((2,), (1,))), (("columns",), ((1,),))]
    again = halved(problem, rows, 0, ENDLESS) if rows else None
    assert cuts_of(again)[0] == (("rows",), ((1, 2, 3, 4),))


def test_single_steps_are_not_cut() -> None:
    net = Network()
    net.conv(net.image(2, 1, 2), 1)
    problem = problem_of(net)
    pieces = halved(problem, split_graph(problem.graph, []), 0, ENDLESS)
    assert cuts_of(pieces) == [(("rows",), ((1,),))]
    assert pieces is not None
    assert [halved(problem, pieces, place, ENDLESS) for place in range(4)] == [None] * 4


def test_tensors_whose_bands_would_be_padded_stay_whole() -> None:
    net = Network()
    net.conv(net.conv(net.image(4, 4, 3), 8), 8)
    graph = net.graph()
    aligned = tuple(replace(tensor, alignment=8) for tensor in graph.tensors)
    program = cpplan.to_anf(cpplan.Graph(graph.name, aligned, graph.ops))
    problem = SplitProblem(program, cpplan.Residency(), frozenset())
    pieces = halved(problem, split_graph(problem.graph, []), 1, ENDLESS)
    assert pieces is not None
    # A column of the image has three bytes.
    assert [each.op for each in pieces.cuts] == [graph.ops[1].name]


def test_parts_run_in_place_of_their_piece() -> None:
    net = Network()
    net.conv(net.image(4, 2, 1), 2)
    problem = problem_of(net)
    pieces = in_rows(problem)
    finer = halved(problem, pieces, 1, ENDLESS)
    assert finer is not None
    name = problem.ops[0].name
    order = order_of_parts(pieces, [1, 0], finer)
    assert [finer.graph.ops[k].name for k in order] == [
        f"{name}[2:4,0:1]", f"{name}[2:4,1:2]", f"{name}[0:2,0:1]", f"{name}[0:2,1:2]",
    ]  # fmt: skip


def test_halves_need_fewer_bytes_at_no_more_work() -> None:
    net = Network()
    x = net.conv(net.image(8, 8, 4), 8)
    for _ in range(3):
        x = net.conv(net.conv(x, 8, depthwise=True), 8)
    net.conv(x, 1, taps=8, stride=8)
    graph = net.graph()
    without = cpplan.solve(graph, **FEW, tuning={"splitting": {"most_halves": 0}})
    plan = cpplan.solve(graph, **FEW)
    cpplan.simulate(graph, plan)
    assert plan.peak < without.peak
    assert plan.cost == plan.base_cost
    assert len(plan.order) > len(without.order)


def test_where_no_op_left_whole_avoids_padding_nothing_is_cut(monkeypatch) -> None:
    net = Network()
    net.conv(net.conv(net.image(5, 3, 2), 4), 6)
    problem = problem_of(net)
    pieces = in_rows(problem)
    monkeypatch.setattr(halves, "_padded", lambda graph: set() if graph is pieces else {"another"})
    assert halved(problem, pieces, 0, ENDLESS) is None


def test_no_pieces_are_cut_after_the_deadline() -> None:
    net = Network()
    net.conv(net.image(5, 3, 2), 4)
    problem = problem_of(net)
    assert halved(problem, split_graph(problem.graph, []), 0, Deadline(0)) is None
