"""Candidates taken one after another: what goes together, and what does not."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from support.cases import seeds
from support.sharing_instances import (
    concat,
    contested,
    contradiction,
    halves,
    relu_chain,
    setting,
    two_branches,
    unary,
)
from support.sharing_oracle import may_lie, random_sharing_graph

from cpplan.aliasing.alias_sets import form_alias_sets, place_alias_sets
from cpplan.model.graph import Graph, Op, Tensor


def places(graph: Graph, **more) -> dict[str, int]:
    found = setting(graph)
    return form_alias_sets(found.candidates, found.rules, **more).place


def test_parts_lie_in_their_concatenation():
    assert places(two_branches()) == {"a": 0, "b": 4, "y": 0}


def test_a_chain_lies_at_one_address():
    alias_sets = form_alias_sets(setting(relu_chain(5)).candidates, setting(relu_chain(5)).rules)
    assert set(alias_sets.place.values()) == {0}
    assert [sorted(m) for m in alias_sets.members.values()] == [["t1", "t2", "t3", "t4", "t5", "x"]]
    assert len(alias_sets.candidates) == 5


def test_agreeing_concatenations_overlap_in_what_they_share():
    assert places(contested()) == {"a": 0, "b": 4, "c": 8, "y": 0, "z": 4}


def test_contradicting_concatenations_share_one_part():
    """The candidate of b within z would put y and z over one another at different bytes."""
    found = setting(contradiction())
    alias_sets = form_alias_sets(found.candidates, found.rules)
    assert [tuple(k.relation)[1:] for k in alias_sets.candidates] == [
        ("a", "y", 0),
        ("b", "y", 4),
        ("b", "z", 0),
    ]
    # y = a b at 0, and z = b a behind it, at the address of its b.
    assert alias_sets.place == {"a": 0, "b": 4, "y": 0, "z": 4}


def test_the_order_of_offers_decides_and_a_link_can_be_left_out():
    found = setting(contradiction())
    alias_sets = form_alias_sets(found.candidates[::-1], found.rules)
    # z = b a whole, and y = a b ends in its b, with an a of its own.
    assert alias_sets.place == {"y": 0, "z": 4, "b": 4, "a": 8}
    without = form_alias_sets(found.candidates, found.rules, skip=[found.candidate("b", "z")])
    assert without.number["z"] == without.number["a"]
    assert without.place["a"] - without.place["z"] == 4


def test_a_half_is_overwritten_once_the_other_needs_only_itself():
    assert places(halves()) == {"x": 0, "p": 0, "q": 4, "r": 0}


def test_an_input_with_a_later_reader_is_not_overwritten():
    tensors = (Tensor("x", 4, kind="input"), Tensor("a", 4), Tensor("y", 4, kind="output"))
    ops = (
        unary("f", "x", "a"),
        Op("add", "", ("x", "a"), ("y",), in_place=(("y", "x"), ("y", "a"))),
    )
    found = setting(Graph("g", tensors, ops))
    alias_sets = form_alias_sets(found.candidates, found.rules)
    # y may take the place of x or of a, which are different values: of one.
    assert [tuple(k.relation)[1:3] for k in alias_sets.candidates] == [("y", "x")]


def test_a_copy_that_is_read_later_saves_no_one_from_being_overwritten():
    """x lies within y; f would write r over x, and so over y, which is read at the end."""
    tensors = (
        Tensor("x", 4, kind="input"),
        Tensor("y", 4),
        Tensor("r", 4),
        Tensor("z", 4, kind="output"),
    )
    ops = (concat("one", ["x"], "y", [0]), unary("f", "x", "r"), Op("g", "", ("y", "r"), ("z",)))
    found = setting(Graph("g", tensors, ops))
    taken = form_alias_sets(found.candidates, found.rules).candidates
    assert [k.relation.kind for k in taken] == ["placement"]
    first = form_alias_sets(found.candidates[::-1], found.rules).candidates
    assert [k.relation.kind for k in first] == ["in place"]


def test_alignments_that_no_address_suits():
    """b, at byte 2 of y, cannot be a multiple of 4 where y is one."""
    graph = _aligned({"b": 4, "y": 4}, at=2)
    assert places(graph)["a"] == places(graph)["y"] == 0
    assert [k.relation.tensor for k in _taken(graph)] == ["a"]


def test_alignments_that_an_odd_address_suits():
    """b lies at byte 2 of y: y at 2, 6, … makes b a multiple of 4."""
    graph = _aligned({"b": 4}, at=2)
    assert [k.relation.tensor for k in _taken(graph)] == ["a", "b"]
    assert places(graph) == {"a": 2, "y": 2, "b": 4}


def test_three_alignments_at_once():
    """y at 2 mod 4 for b at byte 2, and at 1 mod 3 for c at byte 5: at 10."""
    tensors = (
        Tensor("a", 2, kind="input"),
        Tensor("b", 3, kind="input", alignment=4),
        Tensor("c", 3, kind="input", alignment=3),
        Tensor("y", 8, kind="output"),
    )
    graph = Graph("g", tensors, (concat("cat", ["a", "b", "c"], "y", [0, 2, 5]),))
    assert places(graph) == {"a": 10, "y": 10, "b": 12, "c": 15}


def _aligned(alignment: dict[str, int], at: int) -> Graph:
    tensors = (
        Tensor("a", at, kind="input"),
        Tensor("b", 4, kind="input", alignment=alignment.get("b", 1)),
        Tensor("y", at + 4, kind="output", alignment=alignment.get("y", 1)),
    )
    return Graph("g", tensors, (concat("cat", ["a", "b"], "y", [0, at]),))


def _taken(graph: Graph):
    found = setting(graph)
    return form_alias_sets(found.candidates, found.rules).candidates


@pytest.mark.parametrize("seed", seeds(80))
def test_no_member_harms_another_byte_by_byte(seed):
    rng = random.Random(seed)
    graph = random_sharing_graph(seed, 2 + seed % 6)
    tensors = tuple(
        t if t.view_of else replace(t, alignment=rng.choice((1, 1, 2, 3, 4))) for t in graph.tensors
    )
    graph = Graph(graph.name, tensors, graph.ops)
    found = setting(graph)
    order = found.program.order
    candidates = rng.sample(found.candidates, len(found.candidates))
    skip = [candidate for candidate in candidates if rng.random() < 0.2]
    alias_sets = form_alias_sets(candidates, found.rules, skip)
    for members in alias_sets.members.values():
        assert min(alias_sets.place[name] for name in members) >= 0
        for name in members:
            assert alias_sets.place[name] % found.rules.storages[name].alignment == 0
        for one in members:
            for other in members:
                shift = alias_sets.place[other] - alias_sets.place[one]
                assert one == other or may_lie(graph, order, one, other, shift)
    for candidate in alias_sets.candidates:
        assert (
            alias_sets.place[candidate.inner] - alias_sets.place[candidate.outer] == candidate.shift
        )


@pytest.mark.parametrize("seed", seeds(30))
def test_a_layout_is_read_back(seed):
    """Reading a layout back from addresses gives the alias sets it was made of."""
    found = setting(random_sharing_graph(seed, 6))
    alias_sets = form_alias_sets(found.candidates, found.rules)
    base = {number: 1000 * k for k, number in enumerate(alias_sets.members)}
    address = {name: base[alias_sets.number[name]] + at for name, at in alias_sets.place.items()}
    again = place_alias_sets(found.candidates, found.rules, address)
    assert sorted(map(sorted, again.members.values())) == sorted(
        map(sorted, alias_sets.members.values())
    )
    assert again.place == alias_sets.place
    assert again.candidates == alias_sets.candidates
