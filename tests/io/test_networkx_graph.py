"""networkx graphs: an exact round trip, and the two plain forms people have."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from support.random_graphs import graphs

from cpplan.io.networkx_graph import from_networkx, to_networkx
from cpplan.model.axes import Axis, Window
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op, Tensor
from cpplan.program.anf import to_anf


@given(graphs())
def test_any_graph_comes_back_the_same(graph):
    assert from_networkx(to_networkx(graph)) == graph


def test_axes_come_back_the_same():
    rows = Axis("rows", 8, (Window("x", 0, size=3, offset=-1), Window("y", 0)))
    tensors = (
        Tensor("x", shape=(8,), dtype="int8", kind="input"),
        Tensor("y", shape=(8,), dtype="int8", kind="output"),
    )
    graph = Graph("g", tensors, (Op("f", "f", ("x",), ("y",), axes=(rows,)),))
    digraph = to_networkx(graph)
    assert from_networkx(digraph) == graph
    digraph.nodes["op", "f"]["axes"] = ["rows"]
    with pytest.raises(InputError, match=r"axes must be a list of cpplan\.Axis"):
        from_networkx(digraph)


def test_nodes_with_sizes_are_ops_with_one_result():
    digraph = nx.DiGraph(name="net")
    digraph.add_node("conv", size=np.int64(16), kind="Conv", cost=3, workspace=32)
    digraph.add_node("drop", size=0)
    digraph.add_node("add", shape=(2,), dtype="float32", output=True, colour="red")
    digraph.add_edges_from([("conv", "drop"), ("drop", "add"), ("conv", "add")])
    graph = from_networkx(digraph)
    assert graph.name == "net"
    assert graph.op["add"].inputs == ("drop", "conv")
    assert (graph.op["conv"].kind, graph.op["conv"].cost) == ("Conv", 3)
    assert [(t.name, t.size, t.kind) for t in graph.tensors] == [
        ("conv", 16, "intermediate"),
        ("conv.workspace", 32, "workspace"),
        ("drop", 0, "intermediate"),
        ("add", 8, "output"),
    ]
    # conv with its workspace: 16 + 32; conv + drop: 16; conv + add: 24.
    assert to_anf(graph).live_bytes().tolist() == [48, 16, 24]


@pytest.mark.parametrize("kind", [nx.DiGraph, nx.MultiDiGraph])
def test_edges_with_sizes_are_tensors_of_their_own(kind):
    digraph = kind()
    digraph.add_edge("a", "b", size=10)
    digraph.add_edge("a", "c", size=20)
    digraph.add_edge("b", "c", size=30)
    graph = from_networkx(digraph, "olla")
    assert graph.name == "olla"
    assert graph.op["a"].outputs == ("a->b", "a->c")
    assert graph.op["c"].inputs == ("a->c", "b->c")
    # a: 10 + 20; b: 10 + 20 + 30; c: 20 + 30.
    assert to_anf(graph).live_bytes().tolist() == [30, 60, 50]


def test_control_edges_between_nodes_with_sizes_are_not_read():
    digraph = nx.DiGraph()
    digraph.add_node("a", size=4, sequence="state")
    digraph.add_node("b", size=8)
    digraph.add_node("c", size=2)
    digraph.add_edge("a", "c", control=True)
    digraph.add_edge("b", "c", control=False)
    graph = from_networkx(digraph)
    assert (graph.op["c"].inputs, graph.op["c"].after) == (("b",), ("a",))
    assert (graph.op["a"].sequence, graph.op["b"].sequence) == ("state", None)


def test_a_control_edge_may_run_beside_one_that_carries_bytes():
    digraph = nx.MultiDiGraph()
    digraph.add_edge("a", "b", size=4)
    digraph.add_edge("a", "b", control=True)
    digraph.add_edge("c", "b", control=True)
    graph = from_networkx(digraph)
    assert [tensor.name for tensor in graph.tensors] == ["a->b"]
    assert (graph.op["b"].inputs, graph.op["b"].after) == (("a->b",), ("a", "c"))


def test_a_control_edge_leads_from_op_to_op():
    graph = Graph("g", (), (Op("a"), Op("b"), Op("c", after=("b", "a"), sequence="s")))
    digraph = to_networkx(graph)
    assert list(digraph.edges(data=True)) == [
        (("op", "a"), ("op", "c"), {"role": "control", "positions": (1,)}),
        (("op", "b"), ("op", "c"), {"role": "control", "positions": (0,)}),
    ]
    assert digraph.nodes["op", "c"]["sequence"] == "s"


def test_parallel_edges_are_two_tensors():
    digraph = nx.MultiDiGraph()
    digraph.add_edge("a", "b", size=10)
    digraph.add_edge("a", "b", size=20)
    graph = from_networkx(digraph)
    assert graph.op["b"].inputs == ("a->b", "a->b#2")
    assert [t.size for t in graph.tensors] == [10, 20]


def test_parallel_edges_between_nodes_with_sizes_read_twice():
    digraph = nx.MultiDiGraph()
    digraph.add_node("x", size=4)
    digraph.add_node("square", size=4)
    digraph.add_edges_from([("x", "square"), ("x", "square")])
    assert from_networkx(digraph).op["square"].inputs == ("x", "x")


def _malformed():
    undirected = nx.Graph()
    undirected.add_node("a", size=1)
    yield undirected, "expected a directed graph"
    for size, message in [
        (None, "node 'a': missing size"),
        (-1, "tensor 'a': size must be a non-negative integer, not -1"),
        (1.5, "tensor 'a': size must be a non-negative integer, not 1.5"),
        ("1", "tensor 'a': size must be a non-negative integer, not '1'"),
    ]:
        digraph = nx.DiGraph()
        digraph.add_node("a", size=size)
        yield digraph, message
    cycle = nx.DiGraph()
    nx.add_cycle(cycle, "ab")
    nx.set_node_attributes(cycle, 1, "size")
    yield cycle, "ops form a cycle: a -> b -> a"
    same = nx.DiGraph()
    same.add_nodes_from([1, "1"], size=1)
    yield same, "two tensors are named '1'"
    edges = nx.DiGraph()
    edges.add_edge("a", "b", size=1)
    edges.add_edge("b", "c")
    yield edges, "edge b->c: missing size"
    scratch = nx.DiGraph()
    scratch.add_node("a", size=1, workspace=-2)
    yield scratch, "tensor 'a.workspace': size must be a non-negative integer"
    mixed = nx.DiGraph()
    mixed.add_node(("op", "a"), node="op")
    mixed.add_node("b", size=1)
    yield mixed, "node 'b' has no attribute 'node'"
    role = nx.DiGraph()
    role.add_node(("op", "a"), node="op")
    role.add_node(("tensor", "t"), node="tensor", size=1)
    role.add_edge(("op", "a"), ("tensor", "t"), role="writes")
    yield role, "role 'writes' is not understood"
    control = nx.DiGraph()
    control.add_node("a", size=1)
    control.add_node("b", size=1)
    control.add_edge("a", "b")
    control.add_edge("b", "a", control=True)
    yield control, "ops form a cycle: a -> b -> a (control)"
    heavy = nx.DiGraph()
    heavy.add_edge("a", "b", size=1)
    heavy.add_edge("a", "c", size=1, control=True)
    yield heavy, "edge a->c: a control edge carries no bytes, but has a size"
    astray = nx.DiGraph()
    astray.add_node(("op", "a"), node="op")
    astray.add_node(("tensor", "t"), node="tensor", size=1)
    astray.add_edge(("tensor", "t"), ("op", "a"), role="control", positions=(0,))
    yield astray, "role 'control' is not understood between these"
    gap = nx.DiGraph()
    gap.add_node(("op", "a"), node="op")
    gap.add_node(("tensor", "t"), node="tensor", size=1)
    gap.add_edge(("op", "a"), ("tensor", "t"), role="output", positions=(1,))
    yield gap, "op 'a': the positions of its outputs"


@pytest.mark.parametrize(("digraph", "message"), list(_malformed()))
def test_what_is_wrong_is_named(digraph, message):
    with pytest.raises(InputError) as caught:
        from_networkx(digraph)
    assert message in str(caught.value)


def test_a_view_hangs_on_its_base():
    graph = Graph("g", (Tensor("x", 8, kind="input"), Tensor("v", 4, view_of=("x", 4))), ())
    edges = to_networkx(graph).edges(data=True)
    assert list(edges) == [(("tensor", "x"), ("tensor", "v"), {"role": "view", "offset": 4})]
