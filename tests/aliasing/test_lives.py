"""When storages live, at one order and at any."""

from __future__ import annotations

import itertools

import pytest
from support.cases import seeds
from support.sharing_instances import setting, unary
from support.sharing_oracle import random_sharing_graph

from cpplan.aliasing.lives import AnyOrderLives, ProgramLives, kept_storages
from cpplan.model.graph import Graph, Op, Tensor
from cpplan.model.residency import Residency
from cpplan.program.anf import Program
from cpplan.program.liveness import to_problem


def fork() -> Graph:
    """x is read by f and by g; only the one that runs later may take its place."""
    tensors = (
        Tensor("x", 4, kind="input"),
        Tensor("a", 4),
        Tensor("b", 4),
        Tensor("y", 4, kind="output"),
    )
    ops = (unary("f", "x", "a"), unary("g", "x", "b"), Op("add", "", ("a", "b"), ("y",)))
    return Graph("fork", tensors, ops)


def test_the_last_reader_at_a_given_order_hands_over():
    lives = setting(fork()).lives
    assert not lives.hands_over("x", "a", 0)  # g reads x later
    assert lives.hands_over("x", "b", 1)
    assert not lives.hands_over("a", "b", 1)  # a is read by add
    assert lives.apart("x", "y")
    assert not lives.apart("a", "b")


def test_in_any_order_neither_of_two_readers_hands_over():
    lives = AnyOrderLives(fork(), Residency())
    assert not lives.hands_over("x", "a", 0)
    assert not lives.hands_over("x", "b", 1)
    assert lives.hands_over("a", "y", 2)
    assert lives.apart("x", "y")
    assert not lives.apart("a", "b")


def test_what_is_kept_is_never_handed_over():
    assert kept_storages(fork(), Residency()) == {"y"}
    assert kept_storages(fork(), Residency(inputs="keep")) == {"x", "y"}
    lives = setting(fork(), Residency(inputs="keep")).lives
    assert not lives.hands_over("x", "b", 1)
    assert not AnyOrderLives(fork(), Residency(inputs="keep")).apart("x", "y")


def test_an_output_that_views_an_intermediate_keeps_it():
    tensors = (
        Tensor("x", 4, kind="input"),
        Tensor("t", 4),
        Tensor("y", 2, kind="output", view_of=("t", 1)),
    )
    graph = Graph("g", tensors, (Op("f", "", ("x",), ("t",)),))
    assert kept_storages(graph, Residency()) == {"t"}


@pytest.mark.parametrize("seed", seeds(40))
def test_what_holds_in_any_order_holds_in_every_one(seed):
    """Both ways: a claim about any order is the conjunction over all orders."""
    graph = random_sharing_graph(seed, 1 + seed % 5)
    residency = Residency(inputs=("reuse", "keep")[seed % 2])
    always, count = AnyOrderLives(graph, residency), len(graph.ops)
    orders = [
        order
        for order in itertools.permutations(range(count))
        if all(set(graph.predecessors[op]) <= set(order[:k]) for k, op in enumerate(order))
    ]
    settings = []
    for order in orders:
        program = Program(graph, order)
        settings.append(ProgramLives(program, to_problem(program, residency), residency))
    accessed = {graph.root[name][0] for op in graph.ops for name in op.tensors}
    names = [name for name in settings[0].lower if name in accessed]
    for one, other in itertools.permutations(names, 2):
        if always.apart(one, other):
            assert all(lives.apart(one, other) for lives in settings)
        for op in range(count):
            claimed = always.hands_over(one, other, op)
            if other in graph.producer:  # nothing is handed to a workspace or by the caller
                assert claimed == all(lives.hands_over(one, other, op) for lives in settings)
