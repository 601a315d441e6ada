"""Control edges and sequences: what they demand of an order, and how contradictions are named."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from support.random_graphs import graphs, programs

from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op, Tensor
from cpplan.ordering.problem import order_problem
from cpplan.program.anf import Program, to_anf


def orders(graph: Graph) -> list[tuple[int, ...]]:
    """Every order that ``Program`` accepts."""
    return [order for order in permutations(range(len(graph.ops))) if accepts(graph, order)]


def accepts(graph: Graph, order: tuple[int, ...]) -> bool:
    try:
        Program(graph, order)
    except InputError:
        return False
    return True


def test_data_comes_first_then_control_then_sequence_each_once():
    graph = Graph(
        "g",
        (Tensor("t", 4), Tensor("u", 4)),
        (
            Op("a", outputs=("t",), sequence="s"),
            Op("b", outputs=("u",)),
            Op("c"),
            Op("d", inputs=("u",), after=("c", "b", "c"), sequence="s"),
            Op("e", inputs=("t",), after=("a",), sequence="s"),
        ),
    )
    assert graph.op["d"].after == ("c", "b")
    assert graph.predecessors == ((), (), (), (1, 2, 0), (0, 3))
    assert order_problem(graph).predecessors == graph.predecessors


def test_a_sequence_keeps_the_order_of_listing_and_nothing_else_does():
    graph = Graph("g", (), (Op("a", sequence="s"), Op("b"), Op("c", sequence="s")))
    assert orders(graph) == [(0, 1, 2), (0, 2, 1), (1, 0, 2)]


def test_two_sequences_are_independent():
    graph = Graph("g", (), (Op("a", sequence="s"), Op("b", sequence="r"), Op("c", sequence="s")))
    assert len(orders(graph)) == 3


def test_control_edges_carry_no_bytes():
    tensors = (Tensor("t", 4), Tensor("u", 8))
    free = Graph("g", tensors, (Op("a", outputs=("t",)), Op("b", outputs=("u",))))
    bound = Graph("g", tensors, (Op("a", outputs=("t",)), Op("b", outputs=("u",), after=("a",))))
    assert to_anf(bound).live_bytes().tolist() == to_anf(free).live_bytes().tolist() == [4, 8]
    assert (len(orders(free)), len(orders(bound))) == (2, 1)


def test_a_listing_against_a_control_edge_is_put_in_order():
    graph = Graph("g", (), (Op("a", after=("c",)), Op("b"), Op("c", after=("b",))))
    assert to_anf(graph).names == ("b", "c", "a")


def test_an_op_of_a_body_waits_for_ops_of_that_body():
    body = Graph("body", (), (Op("p", after=("q",)), Op("q")))
    assert to_anf(body).names == ("q", "p")
    with pytest.raises(InputError, match="op 'p': must run after unknown op 'call'"):
        Graph("g", (), (Op("call", bodies=(Graph("body", (), (Op("p", after=("call",)),)),)),))


@pytest.mark.parametrize(
    ("ops", "message"),
    [
        ((Op("a", after=("b",)),), "op 'a': must run after unknown op 'b'"),
        ((Op("a", after=("a",)),), "ops form a cycle: a -> a (control)"),
        (
            (Op("a", outputs=("t",), after=("b",)), Op("b", inputs=("t",))),
            "ops form a cycle: a -> b -> a (control)",
        ),
        (
            (Op("a", inputs=("t",), sequence="s"), Op("b", outputs=("t",), sequence="s")),
            "ops form a cycle: a -> b (sequence) -> a",
        ),
        (
            (Op("a", outputs=("t",), after=("b",)), Op("b", inputs=("t",), after=("a",))),
            "ops form a cycle: a -> b -> a (control)",
        ),
        (
            (Op("a", after=("c",)), Op("b", after=("a",)), Op("c", sequence="s", after=("b",))),
            "ops form a cycle: a -> b (control) -> c (control) -> a (control)",
        ),
    ],
)
def test_contradictions_are_spelled_out(ops, message):
    tensors = (Tensor("t", 4),) if any(op.outputs for op in ops) else ()
    with pytest.raises(InputError) as caught:
        Graph("g", tensors, ops)
    assert str(caught.value) == message


def test_a_long_cycle_is_found_at_once():
    count = 5000
    ops = tuple(Op(f"op{k}", after=(f"op{(k + 1) % count}",)) for k in range(count))
    with pytest.raises(InputError, match=r"^ops form a cycle: op\d+ -> "):
        Graph("ring", (), ops)


@pytest.mark.parametrize("name", ["", 3, ("s",)])
def test_a_sequence_has_a_name(name):
    with pytest.raises(InputError, match="op 'a': sequence must be a non-empty string or None"):
        Op("a", sequence=name)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ("bacd", "op 'b' runs before 'a', whose result it reads"),
        ("acbd", "op 'c' runs before 'b', which must run before it"),
        ("abdc", "op 'd' runs before 'c', which comes before it in sequence 's'"),
        ("abccd", "op 'c' runs twice, but the ops of sequence 's' run once each"),
    ],
)
def test_an_order_that_breaks_a_constraint_is_told_why(order, message):
    graph = Graph(
        "g",
        (Tensor("t", 4),),
        (
            Op("a", outputs=("t",)),
            Op("b", inputs=("t",)),
            Op("c", after=("b",), sequence="s"),
            Op("d", sequence="s"),
        ),
    )
    assert to_anf(graph, "aabbcd").names == tuple("aabbcd")
    with pytest.raises(InputError) as caught:
        to_anf(graph, order)
    assert str(caught.value) == message


@given(programs())
def test_every_accepted_program_keeps_every_constraint(program):
    first = {k: program.order.index(k) for k in program.order}
    position = {op.name: k for k, op in enumerate(program.graph.ops)}
    sequences: dict[str, list[int]] = {}
    for k, op in enumerate(program.graph.ops):
        assert all(first[position[name]] < first[k] for name in op.after)
        if op.sequence is not None:
            assert program.order.count(k) == 1
            sequences.setdefault(op.sequence, []).append(first[k])
    assert all(steps == sorted(steps) for steps in sequences.values())


@given(graphs())
def test_the_normal_form_is_an_order_of_the_ordering_problem(graph):
    assert order_problem(graph).is_order(to_anf(graph).order)
