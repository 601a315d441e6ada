"""The example of TVM's issue 2451: concatenations of inputs whose batch is known at run time."""

from __future__ import annotations

import numpy as np
import pytest

from cpplan.model.graph import Graph, Op, Tensor
from cpplan.model.symbols import Symbols
from cpplan.solving.pipeline import solve
from cpplan.verification.arena import simulate
from cpplan.verification.verifier import verify

# Bytes of one row: 4·2·3 floats.
ROW = 96
BOUNDS = {"b1": (0, 128), "b2": (0, 32), "b3": (0, 12)}
SIZES = [
    {"b1": 3, "b2": 2, "b3": 1},
    {"b1": 128, "b2": 32, "b3": 12},
    {"b1": 1, "b2": 32, "b3": 5},
    {"b1": 0, "b2": 0, "b3": 0},
    {"b1": 128, "b2": 0, "b3": 12},
]


def _tensor(name: str, rows: int | str, kind: str = "intermediate") -> Tensor:
    return Tensor(name, shape=(rows, 4, 2, 3), dtype="float32", kind=kind)


def _join(name: str, parts: tuple[str, str], offset: str) -> Op:
    placements = ((parts[0], name, 0), (parts[1], name, offset))
    return Op(f"concat_{name}", "concat", parts, (name,), placements=placements)


@pytest.fixture
def graph() -> Graph:
    """``concat(concat(x, y), concat(a, b))``."""
    tensors = (
        _tensor("x", "b1", "input"),
        _tensor("y", "b2", "input"),
        _tensor("a", "b3", "input"),
        _tensor("b", 27, "input"),
        _tensor("xy", "b1 + b2"),
        _tensor("ab", "b3 + 27"),
        _tensor("out", "b1 + b2 + b3 + 27", "output"),
    )
    ops = (
        _join("xy", ("x", "y"), "96*b1"),
        _join("ab", ("a", "b"), "96*b3"),
        _join("out", ("xy", "ab"), "96*b1 + 96*b2"),
    )
    return Graph("tvm 2451", tensors, ops, Symbols(BOUNDS))


def test_bytes_at_the_bounds_are_those_of_the_issue(graph):
    most = {name: graph.tensor[name].nbytes for name in ("x", "y", "a", "b", "out")}
    assert most == {"x": 12288, "y": 3072, "a": 1152, "b": 2592, "out": 19104}
    assert str(graph.symbols.size(graph.tensor["xy"])) == "96*b1 + 96*b2"


def test_everything_lies_in_the_output(graph):
    plan = solve(graph, in_place=True)
    # The output alone needs 199 rows.
    assert (plan.status, plan.peak, plan.lower_bound) == ("optimal", 199 * ROW, 199 * ROW)
    within = {relation.tensor: relation.other for relation in plan.relations}
    assert within == {"x": "xy", "y": "xy", "a": "ab", "b": "ab", "xy": "out", "ab": "out"}
    for values in SIZES:
        verify(graph, plan, dims=values)
        simulate(graph, plan, dims=values)


def test_inputs_may_be_elsewhere(graph):
    plan = solve(graph, in_place=True, inputs="outside")
    assert (plan.status, plan.peak) == ("optimal", 19104)
    assert {r.tensor for r in plan.relations} == {"xy", "ab"}
    for values in SIZES:
        verify(graph, plan, dims=values)
        simulate(graph, plan, dims=values)


def test_offsets_equal_those_by_hand(graph):
    """At 3, 2, 1 rows: x 0..3, y 3..5, a 5..6, b 6..33."""
    at = solve(graph, in_place=True).at(b1=3, b2=2, b3=1)
    rows = {name: at.offset(name) / ROW for name in ("x", "y", "xy", "a", "ab", "b", "out")}
    assert rows == {"x": 0, "xy": 0, "y": 3, "a": 5, "ab": 5, "b": 6, "out": 0}
    assert (at.offset("y"), at.offset("ab"), at.offset("b"), at.peak) == (288, 480, 576, 33 * ROW)
    assert at.shape("out") == (33, 4, 2, 3)


def test_what_is_written_into_the_parts_is_the_result(graph):
    plan = solve(graph, in_place=True)
    for values in SIZES:
        at, arena = plan.at(values), np.zeros(plan.peak, np.uint8)
        wanted = []
        for number, name in enumerate(("x", "y", "a", "b")):
            at.view(arena, name)[:] = number + 1
            wanted += [number + 1] * at.shape(name)[0]
        assert at.view(arena, "out")[:, 0, 0, 0].tolist() == wanted


def test_without_placement_nothing_moves(graph):
    """Live at the last step: the output and both halves of it; b1 + b2 = 160, b3 + 27 = 39."""
    plan = solve(graph)
    assert (plan.status, plan.peak, plan.relations) == ("optimal", 2 * 199 * ROW, ())
    for values in SIZES:
        verify(graph, plan, dims=values)
        assert [plan.at(values).offset(name) for name in plan.buffers] == plan.offset.tolist()
