"""In-place pairs by kind of op, where the caller knows the kernels better than the model."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op, Tensor
from cpplan.model.in_place_kinds import with_in_place

# p and q have 8 B, as x and the constant w; n has 4 B.
TENSORS = (
    Tensor("x", 8, kind="input"),
    Tensor("w", 8, kind="constant"),
    Tensor("u", 8, view_of=("w", 0)),
    Tensor("p", 8),
    Tensor("n", 4),
    Tensor("q", 8),
    Tensor("v", 8, view_of=("q", 0)),
    Tensor("y", 8, kind="output"),
)
OPS = (
    Op("norm", "Norm", ("x", "w", "u"), ("p", "n")),
    Op("add", "Add", ("p", "x"), ("q",), in_place=(("q", "p"),)),
    Op("flat", "Flat", ("q",), ("v",)),
    Op("last", "Norm", ("v", "q", "v", "n"), ("y",)),
)
GRAPH = Graph("g", TENSORS, OPS)


def pairs(
    kinds: Mapping[str, bool], graph: Graph = GRAPH
) -> dict[str, tuple[tuple[str, str], ...]]:
    return {op.name: op.in_place for op in with_in_place(graph, kinds).ops if op.in_place}


def test_a_kind_left_out_keeps_its_pairs() -> None:
    assert with_in_place(GRAPH, {}) == GRAPH


def test_a_kind_may_be_forbidden() -> None:
    assert pairs({"Add": False}) == {}


def test_a_kind_that_may_has_a_pair_for_every_input_of_equal_size_but_constants() -> None:
    assert pairs({"Norm": True}) == {
        "norm": (("p", "x"),),
        "add": (("q", "p"),),
        "last": (("y", "v"), ("y", "q")),
    }
    assert pairs({"Add": True})["add"] == (("q", "p"), ("q", "x"))


def test_a_view_of_what_the_op_reads_needs_no_pair() -> None:
    assert "flat" not in pairs({"Flat": True})


def test_empty_tensors_make_no_pair() -> None:
    tensors = (Tensor("x", 0, kind="input"), Tensor("y", 0, kind="output"))
    graph = Graph("g", tensors, (Op("f", "F", ("x",), ("y",)),))
    assert pairs({"F": True}, graph) == {}


def test_everything_else_of_the_graph_stays() -> None:
    graph = with_in_place(GRAPH, {"Norm": True, "Add": False})
    assert graph.tensors == GRAPH.tensors
    assert [(op.name, op.inputs, op.outputs) for op in graph.ops] == [
        (op.name, op.inputs, op.outputs) for op in OPS
    ]


def nested() -> Graph:
    """A call whose body reads a tensor and a constant of the graph around it."""
    body = Graph(
        "body",
        (
            Tensor("x", 8, kind="input"),
            Tensor("w", 8, kind="input"),
            Tensor("t", 8),
            Tensor("y", 8, kind="output"),
        ),
        (Op("a", "Norm", ("x", "w"), ("t",)), Op("b", "Norm", ("t", "t"), ("y",))),
    )
    tensors = (
        Tensor("x", 8, kind="input"),
        Tensor("w", 8, kind="constant"),
        Tensor("y", 8, kind="output"),
    )
    return Graph("g", tensors, (Op("call", "Call", ("x", "w"), ("y",), bodies=(body,)),))


def test_bodies_take_part_and_know_the_constants_around_them() -> None:
    (call,) = with_in_place(nested(), {"Norm": True}).ops
    assert [op.in_place for op in call.bodies[0].ops] == [(("t", "x"),), (("y", "t"),)]


def test_an_op_with_bodies_makes_no_pair() -> None:
    assert pairs({"Call": True}, nested()) == {}


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ({"Nrom": True}, "in_place: the graph has no op of kind 'Nrom': it has 'Add', 'Flat'"),
        ({"Norm": 1}, "in_place: 'Norm' must be true or false, not 1"),
        ({3: True}, "in_place: the graph has no op of kind 3"),
        (["Norm"], r"in_place must map kinds of op to true or false, not \['Norm'\]"),
        (True, "in_place must map kinds of op to true or false, not True"),
    ],
)
def test_what_names_no_kind_is_refused(kinds: Mapping[str, bool], message: str) -> None:
    with pytest.raises(InputError, match=message):
        with_in_place(GRAPH, kinds)


def test_a_graph_without_ops_says_so() -> None:
    with pytest.raises(InputError, match="no op of kind 'Add': it has no ops"):
        with_in_place(Graph("g", (Tensor("x", 4, kind="input"),), ()), {"Add": True})
