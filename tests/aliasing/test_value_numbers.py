"""The origin of every byte, traced back through ops that only copy."""

from __future__ import annotations

import pytest
from support.cases import seeds
from support.sharing_instances import concat, halves, setting
from support.sharing_oracle import random_sharing_graph, values_of

from cpplan.aliasing.alias_candidates import find_candidates
from cpplan.aliasing.value_numbers import Origins
from cpplan.model.graph import Graph, Tensor
from cpplan.model.residency import Residency


def nested() -> Graph:
    """inner = a b, outer = a inner a: the bytes a a b a."""
    tensors = (
        Tensor("a", 2, kind="input"),
        Tensor("b", 3, kind="input"),
        Tensor("inner", 5),
        Tensor("outer", 9, kind="output"),
    )
    ops = (
        concat("one", ["a", "b"], "inner", [0, 2]),
        concat("two", ["a", "inner", "a"], "outer", [0, 2, 7]),
    )
    return Graph("nested", tensors, ops)


def test_nested_concatenations_are_seen_through():
    origins = setting(nested()).origins
    assert [tuple(piece) for piece in origins.of["outer"]] == [
        (0, 2, "a", 0),
        (2, 4, "a", 0),
        (4, 7, "b", 0),
        (7, 9, "a", 0),
    ]


def test_equal_only_where_every_shared_byte_has_one_origin():
    origins = setting(nested()).origins
    # ``shift`` is the other's address less the first one's.
    assert origins.equal("outer", "inner", 2)
    assert not origins.equal("outer", "inner", 0)
    assert origins.equal("outer", "inner", 7)  # outer's a meets inner's a; b lies beyond
    assert origins.equal("inner", "outer", 3) is False  # b against a a
    assert origins.equal("a", "b", 2)  # side by side, they share nothing


def test_halves_put_together_again_are_the_whole():
    """A split and a concatenation: z's bytes are x's, in one piece; r's are new."""
    graph = halves()
    tensors = (*graph.tensors, Tensor("z", 8, kind="output"))
    origins = setting(
        Graph("g", tensors, (*graph.ops, concat("cat", ["p", "q"], "z", [0, 4])))
    ).origins
    assert [tuple(piece) for piece in origins.of["z"]] == [(0, 8, "x", 0)]
    assert [tuple(piece) for piece in origins.of["q"]] == [(0, 4, "x", 4)]
    assert [tuple(piece) for piece in origins.of["r"]] == [(0, 4, "r", 0)]


def test_copies_follow_the_order_of_execution_not_of_the_list():
    """The op that makes ``inner`` is listed last: it runs first."""
    graph = nested()
    turned = Graph("turned", graph.tensors, graph.ops[::-1])
    origins = Origins(turned, find_candidates(turned, Residency()))
    assert origins.of["outer"] == setting(graph).origins.of["outer"]


@pytest.mark.parametrize("seed", seeds(60))
def test_agrees_with_values_byte_by_byte(seed):
    graph = random_sharing_graph(seed, 1 + seed % 7)
    found = setting(graph)
    values = values_of(graph, found.program.order)
    names = list(found.origins.of)
    for one in names:
        pieces = found.origins.of[one]
        assert [p.begin for p in pieces[1:]] == [p.end for p in pieces[:-1]]
        for other in names:
            for shift in range(-len(values[other]), len(values[one]) + 1):
                shared = range(max(0, shift), min(len(values[one]), shift + len(values[other])))
                equal = all(values[one][k] == values[other][k - shift] for k in shared)
                assert found.origins.equal(one, other, shift) == equal
