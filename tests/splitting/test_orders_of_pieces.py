"""Pieces in another order than their regions', and ops in single lines."""

from __future__ import annotations

import cpplan
from cpplan.splitting.elements import line_cuts
from cpplan.splitting.piece_graph import split_graph
from cpplan.splitting.problem import SplitProblem
from cpplan.splitting.schedule import whole_ops_in_order
from tests.support.split_networks import Network

FEW = {"time_limit": 3, "deterministic": True, "in_place": True, "split": True}


def spotting() -> cpplan.Graph:
    """A network that spots words: convolutions in depth and across channels, in turn."""
    net = Network()
    x = net.conv(net.image(13, 5, 4), 16, stride=2, taps=4)
    for _ in range(3):
        x = net.conv(net.conv(x, 16, depthwise=True), 16, taps=1)
    return net.graph()


def narrow_end() -> cpplan.Graph:
    net = Network()
    x = net.conv(net.conv(net.image(12, 3, 3), 8), 8, depthwise=True)
    x = net.conv(net.conv(net.conv(x, 12, taps=1), 12, taps=1), 24, taps=1)
    net.conv(net.conv(x, 24, depthwise=True), 24)
    return net.graph()


def test_pieces_run_in_a_better_order_than_one_region_after_another() -> None:
    graph = spotting()
    plan = cpplan.solve(graph, **FEW)
    cpplan.simulate(graph, plan)
    assert plan.peak <= 384  # 396 in the order of the regions


def test_single_lines_need_less_than_every_style() -> None:
    graph = narrow_end()
    without = cpplan.solve(graph, **FEW, tuning={"splitting": {"most_lines": 0}})
    plan = cpplan.solve(graph, **FEW)
    cpplan.simulate(graph, plan)
    assert plan.peak < without.peak
    assert plan.cost == plan.base_cost


def test_the_smallest_peak_is_found_as_a_limit_at_no_more_work() -> None:
    graph = narrow_end()
    least = cpplan.solve(graph, **FEW).peak
    plan = cpplan.solve(graph, **FEW, memory_limit=least)
    assert plan.peak <= least
    assert plan.cost == plan.base_cost


def test_pieces_that_run_again_keep_their_order() -> None:
    net = Network()
    net.conv(net.conv(net.conv(net.image(12, 12, 2), 4), 4), 1, stride=4)
    plan = cpplan.solve(net.graph(), **FEW, cost_limit=1.2)
    assert plan.peak <= 353
    assert len(set(plan.order)) < len(plan.order)


def test_lines_are_cut_along_one_axis_of_what_ops_write() -> None:
    net = Network()
    net.relu(net.conv(net.conv(net.image(4, 3, 2), 5), 6))
    graph = net.graph()
    problem = SplitProblem(cpplan.to_anf(graph), cpplan.Residency(), frozenset())
    first, second = (op.name for op in graph.ops[:2])
    found = [
        [(each.op, each.axes, len(each.cuts[0])) for each in cuts]
        for cuts in line_cuts(problem, 20)
    ]
    assert found == [
        [(first, ("rows",), 3), (second, ("rows",), 3)],
        [(first, ("columns",), 2), (second, ("columns",), 2)],
        [(first, ("channels",), 4), (second, ("channels",), 5)],
    ]
    assert [cuts[0].axes for cuts in line_cuts(problem, 8)] == [("columns",)]


def test_ops_that_run_whole_keep_their_order() -> None:
    net = Network()
    x = net.conv(net.image(4, 3, 2), 5)
    net.relu(x)
    net.conv(x, 3)
    net.relu("x")
    graph = net.graph()
    problem = SplitProblem(cpplan.to_anf(graph), cpplan.Residency(), frozenset())
    cuts = [each for each in next(iter(line_cuts(problem, 99))) if each.op == graph.ops[0].name]
    pieces = split_graph(graph, cuts, problem.lines)
    after = {op.name: op.after for op in whole_ops_in_order(pieces, graph.ops).ops if op.after}
    whole = [op.name for op in graph.ops[1:]]
    assert after == {whole[1]: (whole[0],), whole[2]: (whole[1],)}
