"""Graphs whose ops place tensors within others: refused if and only if two places clash."""

from __future__ import annotations

import random

import pytest
from support.cases import seeds

from cpplan import Graph, Op, Tensor
from cpplan.model.errors import InputError
from cpplan.model.graph import Placement


def concatenation(sizes, room, places):
    """A graph of one op that copies parts of these sizes to these places of an output."""
    parts = [f"p{k}" for k in range(len(sizes))]
    tensors = [Tensor(name, size, kind="input") for name, size in zip(parts, sizes, strict=True)]
    placements = tuple(Placement(parts[k], "y", at) for k, at in places)
    op = Op("cat", "Concat", tuple(parts), ("y",), placements=placements)
    return Graph("g", (*tensors, Tensor("y", room, kind="output")), (op,))


def clashes(sizes, room, places):
    """True if a part lies beyond the output, or two copied parts have a byte in common."""
    taken = [at + byte for k, at in places for byte in range(sizes[k])]
    beyond = any(at + sizes[k] > room for k, at in places)
    return beyond or len(set(taken)) < len(taken)


@pytest.mark.parametrize("seed", seeds(80))
def test_places_that_clash_are_refused(seed):
    chance = random.Random(seed)
    sizes = [chance.randrange(4) for _ in range(chance.randrange(1, 5))]
    room = chance.randrange(1, 13)
    places = [(k, chance.randrange(room)) for k in range(len(sizes)) if chance.random() < 0.8]
    if not clashes(sizes, room, places):
        assert len(concatenation(sizes, room, places).op["cat"].placements) == len(places)
        return
    with pytest.raises(InputError, match=r"op 'cat': placement"):
        concatenation(sizes, room, places)


def test_parts_of_an_input_may_overlap():
    """Outputs that lie within what the op reads; only bytes that are copied must be apart."""
    tensors = Tensor("x", 8, kind="input"), Tensor("a", 6, kind="output"), Tensor("b", 6)
    placements = Placement("a", "x", 0), Placement("b", "x", 2)
    op = Op("split", inputs=("x",), outputs=("a", "b"), placements=placements)
    assert Graph("g", tensors, (op,)).op["split"].placements == placements


def test_places_of_two_ops_do_not_clash():
    tensors = [Tensor("x", 4, kind="input"), Tensor("y", 4), Tensor("z", 4)]
    ops = [Op(f"f{t}", inputs=("x",), outputs=(t,), placements=((("x", t, 0)),)) for t in "yz"]
    assert len(Graph("g", tensors, ops).ops) == 2


def test_a_clash_is_named_beside_ops_that_are_right():
    tensors = [Tensor("x", 4, kind="input"), Tensor("w", 2, kind="input")]
    tensors += [Tensor("y", 4), Tensor("z", 4)]
    right = Op("f", inputs=("x",), outputs=("y",), placements=(("x", "y", 0),))
    wrong = Op("g", inputs=("x", "w"), outputs=("z",), placements=(("w", "z", 1), ("x", "z", 0)))
    with pytest.raises(InputError, match=r"op 'g': .* of 'w' and 'x' overlap in 'z' at bytes 1..3"):
        Graph("g", tensors, (right, wrong))
