"""The ordering problem says of every order what the liveness of its program says."""

from __future__ import annotations

import random

import numpy as np
import pytest
from support.cases import seeds
from support.oracles import random_program
from support.orders_oracle import least_pressure, random_graph

from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op, Tensor
from cpplan.model.residency import Residency
from cpplan.model.small_graphs import two_chains
from cpplan.ordering.problem import order_problem
from cpplan.program.anf import Program, to_anf
from cpplan.program.liveness import to_problem


def some_order(graph: Graph, rng: random.Random) -> list[int]:
    done: list[int] = []
    while len(done) < len(graph.ops):
        ready = [
            k
            for k in range(len(graph.ops))
            if k not in done and set(graph.predecessors[k]) <= set(done)
        ]
        done.append(rng.choice(ready))
    return done


def test_pressure_is_the_program_s_live_bytes():
    rng = random.Random(0)
    for seed in range(200):
        graph = random_graph(seed, rng.randint(1, 9))
        order = some_order(graph, rng)
        live = to_problem(Program(graph, tuple(order))).live_bytes()[: len(order)]
        assert order_problem(graph).pressure(order).tolist() == live.tolist(), seed


def test_peak_with_bodies_is_the_program_s():
    """A body's own steps are one step of the ordering problem; the peak is the same."""
    checked = 0
    for seed in seeds(80):
        graph = random_program(random.Random(seed)).graph
        for residency in (Residency(), Residency("keep", "keep"), Residency("outside", "outside")):
            program = to_anf(graph)
            live = to_problem(program, residency).live_bytes().max(initial=0)
            assert order_problem(graph, residency).peak(program.order) == live, seed
            checked += any(op.bodies for op in graph.ops)
    assert checked > 12


def test_an_order_runs_every_op_once_after_its_predecessors():
    graph = Graph(
        "g",
        (Tensor("t", 4), Tensor("y", 4, kind="output")),
        (Op("a", outputs=("t",)), Op("b", inputs=("t",), outputs=("y",))),
    )
    problem = order_problem(graph)
    assert problem.is_order([0, 1])
    assert not problem.is_order([1, 0])
    assert not problem.is_order([0])
    assert not problem.is_order([0, 0, 1])


def test_the_oracle_by_hand():
    """a and b make 8 each, c and d shrink them to 1: one after the other, 10; both first, 17."""
    graph = two_chains()
    assert order_problem(graph).peak(np.arange(4)) == 17
    assert least_pressure(graph) == 10


def test_constants_of_bodies_live_throughout_where_constants_are_kept():
    body = Graph(
        "body",
        (Tensor("w", 7, kind="constant"), Tensor("s", 4)),
        (Op("inner", inputs=("w",), outputs=("s",)),),
    )
    graph = Graph(
        "g",
        (Tensor("t", 10), Tensor("y", 1, kind="output")),
        (Op("first", outputs=("t",)), Op("call", inputs=("t",), outputs=("y",), bodies=(body,))),
    )
    for constants in ("outside", "keep"):
        residency = Residency(constants=constants)
        live = to_problem(to_anf(graph), residency).live_bytes()
        assert order_problem(graph, residency).pressure([0, 1]).tolist() == live[:2].tolist()


def test_a_constant_cannot_be_a_view_of_what_changes():
    with pytest.raises(InputError, match="'c' cannot be a view of 'x', which is an input"):
        Graph(
            "g",
            (Tensor("x", 4, kind="input"), Tensor("c", 4, kind="constant", view_of=("x", 0))),
            (),
        )
