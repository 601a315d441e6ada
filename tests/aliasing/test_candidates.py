"""Ops that write bytes under several names: what they say of the one must hold of the others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cpplan import Graph, Op, Plan, Program, Tensor, simulate, solve, verify
from cpplan.aliasing.alias_candidates import candidate_relations, find_candidates
from cpplan.model.errors import VerificationError
from cpplan.model.graph import Placement
from cpplan.model.plan_data import Relation
from cpplan.model.residency import Residency

TURNS = [("b", "v"), ("v", "b")]


def writes_both(outputs=("b", "v"), more=(), size=8, **relations) -> Graph:
    """p makes a (8 B), c (1 B) and x (8 B); q reads a and c, and writes b and its first byte, v."""
    tensors = (
        *(Tensor(name, 8) for name in "ax"),
        Tensor("c", 1),
        Tensor("b", size),
        Tensor("v", 1, view_of=("b", 0)),
        *more,
    )
    outputs += tuple(tensor.name for tensor in more if tensor.kind != "workspace")
    scratch = tuple(tensor.name for tensor in more if tensor.kind == "workspace")
    ops = (
        Op("p", outputs=("a", "c", "x")),
        Op("q", inputs=("a", "c"), outputs=outputs, workspaces=scratch, **relations),
    )
    return Graph("both", tensors, ops)


def left(graph: Graph) -> list[tuple[str, str]]:
    return [(r.tensor, r.other) for r in candidate_relations(graph, graph.op["q"])]


def plan_of(source: Graph | Program, **options) -> Plan:
    """``solve`` verifies its plan; here it is simulated too."""
    plan = solve(source, in_place=True, time_limit=2, workers=1, **options)
    simulate(source, plan)
    return plan


def test_a_view_written_beside_a_copy_is_no_copy():
    """q also writes b through its view v, so b is no copy of a: both are placed, 64 + 1 B."""
    tensors = Tensor("a", 64), Tensor("b", 1), Tensor("v", 1, view_of=("b", 0))
    copy = Op("q", inputs=("a",), outputs=("b", "v"), placements=(Placement("b", "a"),))
    plan = plan_of(Graph("g", tensors, (Op("p", outputs=("a",)), copy)))
    assert (plan.status, plan.peak, plan.relations) == ("optimal", 65, ())


@pytest.mark.parametrize("outputs", TURNS, ids="".join)
def test_a_copy_whose_view_is_written_besides(outputs):
    assert left(writes_both(outputs, placements=(Placement("b", "a"),))) == []
    assert left(writes_both(outputs, placements=(Placement("v", "c"),))) == []


@pytest.mark.parametrize("outputs", TURNS, ids="".join)
def test_both_copied_from_the_same_bytes(outputs):
    graph = writes_both(outputs, placements=(Placement("b", "a"), Placement("v", "a")))
    assert left(graph) == [("b", "a"), ("v", "a")]
    # a, b and x, c: b lies within a.
    assert plan_of(graph).peak == 17


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("outputs", TURNS, ids="".join)
def test_copied_from_different_bytes(outputs, turned):
    """b's first byte cannot be both a's and c's, nor a's first and second."""
    for other in (Placement("v", "c"), Placement("v", "a", 1)):
        placements = (Placement("b", "a"), other)
        graph = writes_both(outputs, placements=placements[::-1] if turned else placements)
        assert left(graph) == []
        plan_of(graph)


@pytest.mark.parametrize("outputs", TURNS, ids="".join)
def test_in_place_of_what_a_view_must_spare(outputs):
    """Only b reads each byte before it is written over; v may be written before a is read."""
    assert left(writes_both(outputs, in_place=(("b", "a"),))) == []
    assert left(writes_both(outputs, in_place=(("v", "c"),))) == []
    assert plan_of(writes_both(outputs, in_place=(("b", "a"),))).relations == ()


def test_a_view_of_a_view_and_what_meets_no_bytes():
    """w lies in v, v in b: b's first byte. u is b's last, which a copy of its first half spares."""
    copy = (Placement("b", "a"),)
    chain = Tensor("w", 1, view_of=("v", 0))
    assert left(writes_both(("b",), (chain,), placements=copy)) == []
    assert left(writes_both(("b",), (Tensor("w", 0, view_of=("b", 3)),), placements=copy)) == [
        ("b", "a")
    ]
    last = Tensor("u", 1, view_of=("b", 7))
    assert left(writes_both(("b",), (last,), placements=(Placement("c", "b", 6),))) == [("c", "b")]
    assert left(writes_both(("b",), (last,), placements=(Placement("c", "b", 7),))) == []


def test_a_workspace_in_a_copy():
    """q scratches in b, which is copied from a: it may not be a. Nor may what others scratch in."""
    scratch = Tensor("s", 2, kind="workspace", view_of=("b", 2))
    graph = writes_both(("b",), (scratch,), placements=(Placement("b", "a"),))
    assert left(graph) == []
    assert plan_of(graph).relations == ()
    tensors = (
        Tensor("x", 4, kind="input"),
        Tensor("y", 4),
        Tensor("s", 1, kind="workspace", view_of=("x", 0)),
    )
    ops = (
        Op("copy", inputs=("x",), outputs=("y",), placements=(Placement("y", "x"),)),
        Op("other", workspaces=("s",), after=("copy",)),
        Op("end", inputs=("y",), after=("other",)),
    )
    graph = Graph("scratched", tensors, ops)
    assert find_candidates(graph, Residency()) == ()
    assert plan_of(graph).peak == 8


def test_a_copy_of_two_things():
    """y is said to be a copy of x's bytes and of z's: no plan believes either."""
    tensors = Tensor("x", 4), Tensor("z", 4), Tensor("y", 4)
    both = (Placement("y", "x"), Placement("y", "z"))
    ops = Op("p", outputs=("x", "z")), Op("q", inputs=("x", "z"), outputs=("y",), placements=both)
    plan = plan_of(Graph("two", tensors, ops))
    assert (plan.peak, plan.relations) == (12, ())


@pytest.mark.parametrize("order", ["given", "search"])
@pytest.mark.parametrize("kind", ["input", "intermediate"])
def test_what_the_op_reads_lies_there_already(kind, order):
    """y is x, which q reads: neither written over a, nor a copy of it."""
    tensors = Tensor("x", 8, kind=kind), Tensor("a", 8, kind=kind), Tensor("y", 8, view_of=("x", 0))
    made = () if kind == "input" else (Op("p", outputs=("x", "a")),)
    for relations in ({"in_place": (("y", "a"),)}, {"placements": (Placement("y", "a"),)}):
        q = Op("q", inputs=("x", "a"), outputs=("y",), **relations)
        plan = plan_of(Graph("passed on", tensors, (*made, q)), order=order)
        assert (plan.status, plan.peak, plan.relations) == ("optimal", 16, ())


def test_an_empty_view_in_what_is_written_over_harms_nothing():
    tensors = Tensor("x", 4, kind="input"), Tensor("e", 0, view_of=("x", 1)), Tensor("y", 4)
    op = Op("q", inputs=("x",), outputs=("y", "e"), in_place=(("y", "x"),))
    plan = plan_of(Graph("empty", tensors, (op,)))
    assert (plan.status, plan.peak) == ("optimal", 4)


def test_copies_of_what_two_ops_write_are_one_value():
    """t is copied from x, in which f has written before; y is a copy of t, and lies over it."""
    tensors = (
        Tensor("x", 4, kind="input"),
        Tensor("v", 4, view_of=("x", 0)),
        Tensor("t", 4),
        Tensor("y", 8, kind="output"),
    )
    ops = (
        Op("f", outputs=("v",)),
        Op("g", inputs=("v",), outputs=("t",), placements=(Placement("t", "v"),)),
        Op("h", inputs=("t",), outputs=("y",), placements=(Placement("t", "y"),)),
    )
    plan = plan_of(Graph("again", tensors, ops))
    # y takes x's bytes too, once t is made.
    assert (plan.peak, plan.relations) == (8, (Relation("placement", "t", "y"),))


def test_a_part_that_is_written_anew():
    """f writes v in x; then again, in a copy of x that holds nothing else: none shares it."""
    tensors = (
        Tensor("x", 6, kind="input"),
        Tensor("t", 6),
        Tensor("v", 2, view_of=("x", 3)),
        Tensor("y", 8, kind="output"),
    )
    ops = (
        Op("e", inputs=("x",), outputs=("t",), placements=(Placement("t", "x"),)),
        Op("f", inputs=("t",), outputs=("v",), placements=(Placement("v", "t", 3),)),
        Op("g", inputs=("v",), outputs=("y",)),
    )
    plan = plan_of(Program(Graph("anew", tensors, ops), (0, 1, 1, 2)))
    assert plan.status == "optimal"


@pytest.mark.parametrize(
    "relations",
    [{"in_place": (("b", "a"),)}, {"placements": (Placement("b", "a"),)}],
    ids=["in place", "placement"],
)
def test_a_plan_that_uses_such_a_relation_is_rejected(relations):
    """In one of two graphs with the same buffers nobody writes v: there b may lie over a."""
    graph = writes_both(**relations)
    alone = replace(graph, ops=(graph.ops[0], replace(graph.ops[1], outputs=("b",))))
    plan = plan_of(alone)
    assert [(r.tensor, r.other) for r in plan.relations] == [("b", "a")]
    with pytest.raises(VerificationError, match="no op of the model allows it"):
        verify(graph, plan)
