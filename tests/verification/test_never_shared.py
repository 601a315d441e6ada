"""Buffers that no choice of aliases places in the same bytes, by hand."""

from __future__ import annotations

from cpplan import Graph, Op, Tensor
from cpplan.model.graph import Placement
from cpplan.model.problem import Problem
from cpplan.model.residency import Residency
from cpplan.program.anf import to_anf
from cpplan.program.liveness import to_problem
from cpplan.verification.access_trace import replay
from cpplan.verification.never_shared import never_shared


def apart(graph: Graph, *kinds: str) -> Problem:
    program, residency = to_anf(graph), Residency()
    return never_shared(to_problem(program), kinds, *replay(program, residency))


def total() -> Graph:
    """y = x0 + x1 may be written over either of them."""
    tensors = (
        Tensor("x0", 8, kind="input"),
        Tensor("x1", 8, kind="input"),
        Tensor("y", 8, kind="output"),
    )
    op = Op("add", inputs=("x0", "x1"), outputs=("y",), in_place=(("y", "x0"), ("y", "x1")))
    return Graph("sum", tensors, (op,))


def test_a_result_over_one_of_two_inputs_leaves_both_inputs_apart():
    """x0 and x1 never share: 16 B; y is over one of them."""
    assert apart(total(), "in place").live_bytes().tolist() == [16]


def test_only_the_kinds_allowed_count():
    assert apart(total(), "placement").live_bytes().tolist() == [24]


def test_of_parts_and_whole_the_largest_is_left():
    """Steps: a (4 B, beside the 2 of x), then a and b, then the whole of 7 B."""
    tensors = (
        Tensor("x", 2, kind="input"),
        Tensor("a", 4),
        Tensor("b", 3),
        Tensor("y", 7, kind="output"),
    )
    ops = (
        Op("f", inputs=("x",), outputs=("a",)),
        Op("g", inputs=("x",), outputs=("b",)),
        Op("join", inputs=("a", "b"), outputs=("y",), placements=(
            Placement("a", "y", 0), Placement("b", "y", 4),
        )),
    )  # fmt: skip
    graph = Graph("join", tensors, ops)
    assert to_problem(to_anf(graph)).live_bytes().tolist() == [6, 9, 14]
    assert apart(graph, "placement").live_bytes().tolist() == [6, 6, 7]
