"""Plain tensors and ops made column by column: as one by one, or left to the classes."""

from __future__ import annotations

import random

import pytest

from cpplan import Op, Tensor
from cpplan.io.graph_json import graph_from_dict
from cpplan.model.bulk import plain_ops, plain_tensors
from cpplan.model.errors import InputError

TENSORS = [
    {"name": "x", "size": 8},
    {"name": "w", "size": 0, "kind": "constant"},
    {"name": "v", "size": 4, "view_of": ["x", 4], "alignment": 16},
]
OPS = [
    {"name": "f", "inputs": ["x", "w"], "outputs": ["y"], "in_place": [["y", "x"]]},
    {"name": "g", "kind": "Relu", "inputs": ["y"], "outputs": ["z"], "cost": 3, "workspaces": []},
]


def test_tensors_and_ops_are_those_of_the_classes():
    view = {**TENSORS[2], "view_of": ("x", 4)}
    assert plain_tensors(TENSORS) == [Tensor(**row) for row in (*TENSORS[:2], view)]
    bare = {**TENSORS[2], "view_of": "x"}
    assert plain_tensors([bare])[0].view_of == ("x", 0)
    made = [
        Op("f", inputs=("x", "w"), outputs=("y",), in_place=(("y", "x"),)),
        Op("g", "Relu", ("y",), ("z",), cost=3),
    ]
    assert plain_ops(OPS) == made
    assert [hash(op) for op in plain_ops(OPS)] == [hash(op) for op in made]


@pytest.mark.parametrize(
    "changes",
    [
        {"size": -1}, {"size": 2**62}, {"size": True}, {"size": None}, {"kind": "weight"},
        {"name": ""}, {"name": "é"}, {"name": 3}, {"alignment": 0}, {"shape": (2,)},
        {"view_of": ("x", "n")}, {"view_of": ["x"]}, {"view_of": None}, {"view_of": []},
        {"view_of": ["x", True]}, {"view_of": 3}, {"kind": None},
    ],
)  # fmt: skip
def test_a_tensor_that_needs_a_closer_look_is_left_to_its_class(changes):
    assert plain_tensors([*TENSORS, {"name": "t", "size": 1, **changes}]) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"cost": 0.5}, {"cost": -1}, {"cost": True}, {"inputs": "x"}, {"inputs": [1]},
        {"in_place": [["y", "x"]]}, {"in_place": [["y"]]}, {"after": ["f"]}, {"kind": "ä"},
        {"name": ""}, {"recomputable": False}, {"sequence": "s"}, {"bodies": []},
        {"in_place": None}, {"in_place": 3}, {"in_place": ["qz"]}, {"in_place": {"qz": 1}},
        {"in_place": [[["q"], "z"]]}, {"placements": None}, {"placements": ["zq0"]},
        {"placements": [["z", "q", True]]}, {"placements": [[["z"], "q", 0]]},
    ],
)  # fmt: skip
def test_an_op_that_needs_a_closer_look_is_left_to_its_class(changes):
    assert plain_ops([*OPS, {"name": "h", "inputs": ["z"], "outputs": ["q"], **changes}]) is None


@pytest.mark.parametrize("rows", [["x"], [None], [{"size": 1}], [["name", "size"]]])
def test_what_is_no_object_with_a_name_is_left_to_the_checks(rows):
    assert plain_tensors(rows) is None
    assert plain_ops(rows) is None


def test_one_wrong_row_among_many_is_named():
    rows = [{"name": f"t{k}", "size": 1, "kind": "input"} for k in range(50)]
    values = {"format": "cpplan.graph", "version": 1, "name": "g", "ops": []}
    chance = random.Random(3)
    for field, value in (("size", 2**62), ("kind", "weight"), ("alignment", 0)):
        k = chance.randrange(50)
        wrong = [*rows[:k], {**rows[k], field: value}, *rows[k + 1 :]]
        with pytest.raises(InputError, match=f"'t{k}': {field}"):
            graph_from_dict({**values, "tensors": wrong})
