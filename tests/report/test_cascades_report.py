"""Reports of plans in pieces: each cascade's ops, their runs, and the bytes that each keeps."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest
from report.browser import Open

import cpplan
from cpplan import Graph, Plan
from cpplan.report.html.plan_data import SCALE, plan_data
from cpplan.splitting.piece_graph import split_graph
from tests.support.split_networks import Network


def network() -> Graph:
    """Convolutions, one of them beside a residual branch."""
    net = Network()
    y = net.conv(net.image(8, 2, 2), 8)
    net.conv(net.add(y, net.conv(y, 8)), 2, stride=2)
    return net.graph()


def planned(graph: Graph) -> Plan:
    return cpplan.solve(graph, split=True, in_place=True, time_limit=0.5, deterministic=True)


def kept_by_hand(graph: Graph, plan: Plan, op: str) -> int:
    """Most bytes of an op's bands, written and read later, over all positions of the order."""
    pieces = split_graph(graph, plan.pieces)
    ops = [pieces.graph.op[name] for name in plan.order]
    most = 0
    for position in range(len(ops)):
        live = 0
        for tensor in pieces.graph.tensors:
            if pieces.part.get(tensor.name, ("", ()))[0] not in graph.op[op].outputs:
                continue
            made = [k for k, run in enumerate(ops) if tensor.name in run.outputs and k <= position]
            if not made:
                continue
            again = [k for k, run in enumerate(ops) if tensor.name in run.outputs and k > position]
            until = again[0] if again else len(ops)
            read = any(tensor.name in run.inputs for run in ops[position:until])
            stays = tensor.kind == "output" and not again
            live += tensor.nbytes * (read or stays or made[-1] == position)
        most = max(most, live)
    return most


def test_lanes_have_every_run_and_the_bytes_that_stay() -> None:
    graph = network()
    plan = planned(graph)
    pieces = split_graph(graph, plan.pieces)
    lanes: list[dict[str, Any]] = list(chain(*plan_data(plan, graph)["cascades"]))
    assert {lane["op"] for lane in lanes} == {piece.op for piece in plan.pieces}
    for lane in lanes:
        runs = [k for k, name in enumerate(plan.order) if pieces.source[name] == lane["op"]]
        assert [run[0] for run in lane["runs"]] == runs
        assert lane["again"] == len(runs) - len({plan.order[k] for k in runs})
        assert lane["pieces"] == len(pieces.pieces[lane["op"]])
        parts = sorted({(begin, end) for _, begin, end, again in lane["runs"] if not again})
        assert (parts[0][0], parts[-1][1]) == (0, SCALE)
        assert lane["kept"] == kept_by_hand(graph, plan, lane["op"])
        assert lane["kept"] <= lane["whole"]
    first = next(lane for lane in lanes if lane["op"] == "conv0")
    assert first["kept"] < first["whole"]


def test_a_plan_without_pieces_has_no_cascades() -> None:
    graph = network()
    assert plan_data(cpplan.solve(graph), graph)["cascades"] is None


@pytest.mark.slow
def test_the_picture_shows_what_runs_and_what_stays(open_page: Open) -> None:
    graph = network()
    plan = planned(graph)
    page = open_page(plan, graph)
    lanes: list[dict[str, Any]] = list(chain(*plan_data(plan, graph)["cascades"]))
    lanes.sort(key=lambda lane: lane["runs"][0][0])
    assert page.find("#cascade-section").is_displayed()
    assert page.text("#cascade-note").startswith(f"{len(lanes)} ops in pieces")
    assert page.column("#cascades", 2) == [lane["op"] for lane in lanes]
    assert page.run("return document.querySelector('canvas.cascade').getAttribute('role')") == "img"
    script = """
    const canvas = document.querySelector("canvas.cascade");
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const seen = new Set();
    for (let k = 0; k < data.length; k += 4) seen.add(data.slice(k, k + 3).join());
    return [...seen];
    """
    seen = set(page.run(script))
    assert {"0,114,178", "169,207,231"} <= seen
    page.light("light", "print")
    page.settle()
    assert page.find("canvas.cascade").is_displayed()
    page.light("light")


@pytest.mark.slow
def test_a_page_without_pieces_has_no_pictures_of_them(open_page: Open) -> None:
    page = open_page(cpplan.solve(network()), network())
    assert not page.find("#cascade-section").is_displayed()
