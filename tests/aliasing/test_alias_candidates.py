"""Alias candidates: pairs of storages that an op lets share bytes, with their distance."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.cases import seeds
from support.sharing_instances import calling, concat, halves, two_branches, unary
from support.sharing_oracle import random_sharing_graph

import cpplan
from cpplan.aliasing.alias_candidates import find_candidates
from cpplan.model.graph import Graph, Op, Placement, Tensor
from cpplan.model.plan_data import Relation
from cpplan.model.residency import Residency


def relations(graph: Graph, residency: Residency | None = None, **kinds) -> list[Relation]:
    return [
        candidate.relation
        for candidate in find_candidates(graph, residency or Residency(), **kinds)
    ]


def test_distances_and_bytes_of_a_concatenation():
    """a fills bytes 0..4 of y and b 4..8."""
    candidates = find_candidates(two_branches(), Residency())
    assert [(k.inner, k.outer, k.shift, k.begin, k.end) for k in candidates] == [
        ("a", "y", 0, 0, 4),
        ("b", "y", 4, 4, 8),
    ]
    assert not any(candidate.in_place for candidate in candidates)


def test_the_outputs_of_a_split_lie_within_its_input():
    candidates = find_candidates(halves(), Residency())
    assert [(k.inner, k.outer, k.shift, k.begin, k.end) for k in candidates] == [
        ("p", "x", 0, 0, 4),
        ("q", "x", 4, 4, 8),
        ("r", "p", 0, 0, 4),
    ]


def test_views_count_from_their_storages():
    """v is bytes 2..6 of x: over it, y begins 2 bytes above x, and x 2 bytes below y."""
    tensors = (
        Tensor("x", 8, kind="input"),
        Tensor("v", 4, view_of=("x", 2)),
        Tensor("y", 4, kind="output"),
    )
    (candidate,) = find_candidates(Graph("g", tensors, (unary("f", "v", "y"),)), Residency())
    assert (candidate.inner, candidate.outer, candidate.shift, candidate.begin, candidate.end) == (
        "y",
        "x",
        2,
        2,
        6,
    )
    placed = Op("copy", "", ("v",), ("y",), placements=(Placement("v", "y"),))
    (candidate,) = find_candidates(Graph("g", tensors, (placed,)), Residency())
    assert (candidate.inner, candidate.outer, candidate.shift, candidate.begin, candidate.end) == (
        "x",
        "y",
        -2,
        0,
        4,
    )


def test_a_storage_that_the_caller_brings_and_an_op_writes_into_is_no_candidate():
    """w is bytes 1..5 of s, which no op writes whole."""
    tensors = (
        Tensor("x", 4, kind="input"),
        Tensor("s", 8, kind="output"),
        Tensor("w", 4, view_of=("s", 1)),
    )
    assert not find_candidates(Graph("g", tensors, (unary("f", "x", "w"),)), Residency())
    placed = Op("copy", "", ("x",), ("w",), placements=(Placement("x", "w"),))
    assert not find_candidates(Graph("g", tensors, (placed,)), Residency())


def test_only_the_kinds_asked_for():
    assert {r.kind for r in relations(halves())} == {"in place", "placement"}
    for kind in ("in place", "placement"):
        assert {r.kind for r in relations(halves(), kinds=[kind])} == {kind}


@pytest.mark.parametrize(
    "residency", [Residency(outputs="outside"), Residency(inputs="outside")], ids=str
)
def test_what_is_not_in_the_arena_shares_nothing(residency):
    graph = Graph(
        "g", (Tensor("x", 4, kind="input"), Tensor("y", 4, kind="output")), (unary("f", "x", "y"),)
    )
    assert relations(graph) == [Relation("in place", "y", "x")]
    assert relations(graph, residency) == []


@pytest.mark.parametrize("constants", ["outside", "keep"])
def test_constants_are_never_shared(constants):
    tensors = (Tensor("w", 4, kind="constant"), Tensor("v", 4, view_of=("w", 0)), Tensor("y", 4))
    graph = Graph("g", tensors, (unary("f", "v", "y"),))
    assert relations(graph, Residency(constants=constants)) == []


def test_tensors_of_one_storage_and_empty_tensors_have_no_link():
    tensors = (Tensor("x", 4, kind="input"), Tensor("v", 4, view_of=("x", 0)))
    assert relations(Graph("g", tensors, (unary("f", "x", "v"),))) == []
    tensors = (Tensor("x", 0, kind="input"), Tensor("y", 0))
    assert relations(Graph("g", tensors, (unary("f", "x", "y"),))) == []


def test_a_storage_that_two_ops_write_into_is_left_out():
    tensors = (
        Tensor("x", 2, kind="input"),
        Tensor("s", 4),
        Tensor("low", 2, view_of=("s", 0)),
        Tensor("high", 2, view_of=("s", 2)),
        Tensor("y", 4, kind="output"),
    )
    ops = (
        Op("one", "", ("x",), ("low",)),
        Op("two", "", ("x",), ("high",)),
        Op("join", "", ("low", "high"), ("s",)),
        unary("f", "s", "y"),
    )
    assert relations(Graph("g", tensors, ops)) == []


def test_an_op_with_a_body_is_left_out():
    pair = Tensor("x", 4, kind="input"), Tensor("y", 4, kind="output")
    body = Graph("body", pair, (Op("inner", "", ("x",), ("y",)),))
    graph = Graph("g", pair, (replace(unary("call", "x", "y"), bodies=(body,)),))
    assert relations(graph) == []


def test_an_input_read_under_a_second_name():
    """add(x, v) may write over x only where it may write over v, which is the same bytes."""
    tensors = (Tensor("x", 4, kind="input"), Tensor("v", 4, view_of=("x", 0)), Tensor("y", 4))
    add = Op("add", "", ("x", "v"), ("y",), in_place=(("y", "x"),))
    assert relations(Graph("g", tensors, (add,))) == []
    both = replace(add, in_place=(("y", "x"), ("y", "v")))
    assert relations(Graph("g", tensors, (both,))) == [
        Relation("in place", "y", "x"),
        Relation("in place", "y", "v"),
    ]


def test_a_part_of_an_input_that_is_read_besides():
    """Byte k of y may be written before byte k - 1 of v, which is x's byte k, is read."""
    tensors = (Tensor("x", 4, kind="input"), Tensor("v", 2, view_of=("x", 1)), Tensor("y", 4))
    add = Op("add", "", ("x", "v"), ("y",), in_place=(("y", "x"),))
    assert relations(Graph("g", tensors, (add,))) == []


def test_an_output_that_lies_in_what_would_be_overwritten():
    tensors = (Tensor("x", 4, kind="input"), Tensor("v", 2, view_of=("x", 1)), Tensor("y", 4))
    both = Op("both", "", ("x",), ("y", "v"), in_place=(("y", "x"),))
    assert relations(Graph("g", tensors, (both,))) == []


def test_one_tensor_twice_in_a_concatenation():
    tensors = (Tensor("x", 4, kind="input"), Tensor("y", 8))
    graph = Graph("g", tensors, (concat("cat", ["x", "x"], "y", [0, 4]),))
    assert relations(graph) == [
        Relation("placement", "x", "y", 0),
        Relation("placement", "x", "y", 4),
    ]


@pytest.mark.parametrize("seed", seeds(30))
def test_links_lie_within_both_storages(seed):
    graph = random_sharing_graph(seed, 6)
    for candidate in find_candidates(graph, Residency()):
        inner, outer = graph.tensor[candidate.inner].nbytes, graph.tensor[candidate.outer].nbytes
        assert 0 <= candidate.begin < candidate.end <= outer
        assert 0 <= candidate.begin - candidate.shift < candidate.end - candidate.shift <= inner
        assert candidate.relation.tensor in graph.ops[candidate.op].tensors


@pytest.mark.parametrize("reads", [False, True])
def test_what_a_body_writes_into_is_written_twice(reads):
    # x lies within y where both are there, unless the call's body writes into x; what it writes as
    # a view of what it reads it only passes on. Apart 4 B, together 3 B.
    graph = calling(reads=reads)
    found = relations(graph)
    assert found == ([Relation("placement", "x", "y", 2)] if reads else [])
    for recompute in ({}, {"remat": True, "cost_limit": 2, "deterministic": True}):
        plan = cpplan.solve(graph, placement=True, order="search", time_limit=0.5, **recompute)
        cpplan.verify(graph, plan)
        cpplan.simulate(graph, plan)
        assert (plan.status, plan.peak) == ("optimal", 3 if reads else 4)


def test_what_a_body_of_a_body_writes_into_is_written_twice():
    inner = calling(reads=False).ops[1]
    x = Tensor("x", 1, kind="input")
    outer = Graph("outer", (x,), (inner,))
    graph = calling(reads=True)
    call = replace(graph.ops[1], bodies=(outer,))
    assert relations(graph)
    assert not relations(replace(graph, ops=(graph.ops[0], call)))
