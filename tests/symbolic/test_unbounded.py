"""Variables without an upper bound: the bounded part is planned, the rest is listed."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from support.cases import examples
from support.random_symbolic import symbolic_graphs, values

from cpplan.cli.main import main
from cpplan.io.graph_json import graph_from_dict, graph_to_dict, write_graph
from cpplan.io.plan_json import plan_from_dict, plan_text
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op, Tensor
from cpplan.model.in_place_kinds import with_in_place
from cpplan.model.plan import Plan
from cpplan.model.shapes import parse_dim
from cpplan.model.symbols import Symbols
from cpplan.packing.storage_ids import share_storages
from cpplan.solving.pipeline import solve
from cpplan.verification.arena import simulate
from cpplan.verification.verifier import verify


def _chain(**dims: object) -> Graph:
    """``x -> a -> b -> c -> y`` of n·m, n·m, m·20, n·m and n bytes."""
    shapes = {"x": ("n", "m"), "a": ("n", "m"), "b": ("m", 20), "c": ("n", "m"), "y": ("n",)}
    kinds = {"x": "input", "y": "output"}
    tensors = tuple(
        Tensor(name, shape=shape, dtype="int8", kind=kinds.get(name, "intermediate"))  # type: ignore[arg-type]
        for name, shape in shapes.items()
    )
    names = list(shapes)
    ops = tuple(
        Op(f"f{k}", "f", inputs=(names[k],), outputs=(names[k + 1],)) for k in range(len(names) - 1)
    )
    return Graph("chain", tensors, ops, Symbols({"n": (0, 20), "m": (0, None), **dims}))


def test_what_is_at_most_equal_shares():
    """With n at 20 all need 20·m; neighbours are live together, so two storages take turns."""
    plan = solve(_chain())
    assert plan.peak == 20
    layout = plan.symbols
    assert {name: u.storage for name, u in layout.unbounded.items()} == {
        "x": 0,
        "a": 1,
        "b": 0,
        "c": 1,
    }
    assert layout.storages == {0: parse_dim("20*m"), 1: parse_dim("20*m")}
    at = plan.at(n=3, m=7)
    assert [at.nbytes(name) for name in ("x", "b", "y")] == [21, 140, 3]
    verify(_chain(), plan, dims={"n": 3, "m": 7})
    simulate(_chain(), plan, dims={"n": 3, "m": 7})


def test_storages_are_those_of_the_plan():
    shared = share_storages(_chain())
    assert [shared.storage_of(name) for name in ("x", "a", "b", "c", "y")] == [0, 1, 0, 1, 2]
    assert shared.expressions == {0: parse_dim("20*m"), 1: parse_dim("20*m")}
    assert (shared.total, shared.bytes.tolist(), shared.status) == (20, [0, 0, 20], "optimal")
    assert shared.to_dict()["storages"] == [{"bytes": "20*m"}, {"bytes": "20*m"}, {"bytes": 20}]
    assert "storage 0: 20*m B" in str(shared)


def test_sizes_that_may_differ_share_nothing():
    """Nothing says that k and m are equal."""
    tensors = (
        Tensor("x", shape=("m",), dtype="int8", kind="input"),
        Tensor("y", shape=(1,), dtype="int8"),
        Tensor("z", shape=("k",), dtype="int8", kind="output"),
    )
    ops = Op("f", inputs=("x",), outputs=("y",)), Op("g", inputs=("y",), outputs=("z",))
    plan = solve(Graph("g", tensors, ops, Symbols({"m": (0, None), "k": (0, None)})))
    assert len(plan.symbols.storages) == 2


def test_only_pairs_of_provably_equal_size_are_in_place():
    graph = with_in_place(_chain(n=(0, 20), m=(0, 9)), {"f": True})
    assert {op.name: op.in_place for op in graph.ops} == {
        "f0": (("a", "x"),),
        # m·20 is n·m at the bounds only.
        "f1": (),
        "f2": (),
        "f3": (),
    }


@settings(max_examples=examples(15), derandomize=True)
@given(symbolic_graphs(bodies=False), values())
def test_the_bounded_part_holds_at_every_value(graph, at):
    values = graph_to_dict(graph)
    values["dims"]["m"] = [0, None]
    free = graph_from_dict(values)
    for options in ({}, {"in_place": True}):
        plan = solve(free, time_limit=0.2, workers=1, **options)
        for point in (at, {**at, "m": 50}):
            verify(free, plan, dims=point)
            simulate(free, plan, dims=point)
        assert plan_from_dict(json.loads("".join(plan_text(plan)))) == plan
    assert free.at(at) == graph.at(at) or any(op.placements for op in graph.ops)
    _check_storages(free, plan)


def _check_storages(graph: Graph, plan: Plan) -> None:
    """Tensors of one storage are not live together, and none is ever larger than its storage."""
    layout = plan.symbols
    for name, (_, storage) in layout.unbounded.items():
        row = plan.row[name]
        for other, (_, its) in layout.unbounded.items():
            if name != other and storage == its:
                k = plan.row[other]
                assert plan.upper[k] <= plan.lower[row] or plan.upper[row] <= plan.lower[k]
        for n in range(1, 7):
            most = layout.storages[storage].evaluate({"n": n, "m": 11})
            assert plan.at(n=n, m=11).nbytes(name) <= most


def test_the_command_line_lists_expressions(tmp_path, capsys):
    model, saved = str(tmp_path / "g.json"), str(tmp_path / "plan.json")
    write_graph(_chain(), model)
    assert main(["plan", model, "-q", "-o", saved]) == 0
    out = capsys.readouterr().out
    assert "dimensions   n = 0..20, m = 0.." in out
    assert "b             0  20*m   20*m" in out
    assert main(["show", saved]) == 0
    assert "y         20  [3, 4)       0  arena  n" in capsys.readouterr().out
    assert main(["show", saved, "--dim", "n=3", "--dim", "m=2"]) == 0
    out = capsys.readouterr().out
    assert "at           n = 3, m = 2\npeak         3 B" in out
    assert "y          3       0  [3]" in out
    for dim, message in (("n=1:3", "expected a value"), ("n=30", "above its bound 20")):
        assert main(["show", saved, "--dim", dim, "--dim", "m=2"]) == 2
        assert message in capsys.readouterr().err


def test_lost_tensors_are_listed_with_why():
    from cpplan.report.symbols_text import format_symbols

    graph = _chain(m=(0, 9))
    lost = replace(graph.symbols, lost={"c": "a loop decides"})
    plan = solve(replace(graph, symbols=lost))
    assert "c     a loop decides" in format_symbols(plan)
    assert plan.at(n=20, m=9).peak <= plan.peak
    message = "'m' is 10, above its bound 9; there, the bytes of tensor 'c' are not known: a loop"
    for grow in (False, True):
        with pytest.raises(InputError, match=message):
            plan.at(n=20, m=10, grow=grow)


def test_the_frame_says_bytes():
    frame = solve(_chain()).to_frame()
    assert dict(zip(frame["name"], frame["bytes"], strict=True))["b"] == "20*m"
    assert "bytes" not in solve(_chain().at(n=1, m=1)).to_frame()
    assert np.all(frame["size"] >= 0)
