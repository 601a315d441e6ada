"""Plain tensors and ops made column by column: as one by one, or left to the classes."""

from __future__ import annotations

import random

import pytest

from cpplan import Op, Tensor
from cpplan.io.graph_json import graph_from_dict
from cpplan.model.axes import Axis, Window
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

WINDOW = {"tensor": "q", "axis": 0}
AXIS = {"name": "rows", "extent": 4, "windows": [WINDOW]}
WRONG_WINDOWS = (
    *({"tensor": ""}, {"axis": -1}, {"axis": True}, {"stride": -1}, {"size": 0.5}),
    *({"offset": "1"}, {"offset": -(2**62)}, {"table": [[0, 1]]}),
)


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


def test_shapes_and_axes_are_those_of_the_classes():
    shaped = [
        {"name": "x", "shape": [4, 2], "dtype": "float32", "kind": "input"},
        {"name": "q", "size": 64, "shape": (4, 2), "dtype": "int8"},
        {"name": "s", "shape": [], "dtype": "int64"},
        {"name": "t", "size": 3},
    ]
    made = plain_tensors(shaped)
    assert made == [Tensor(**row) for row in shaped]
    assert [t.nbytes for t in made] == [32, 64, 8, 3]
    read = {"tensor": "x", "axis": 0, "stride": 1, "offset": -1, "size": 3}
    adds = {"name": "terms", "extent": 3, "windows": [], "accumulates": True}
    rows = [
        {
            "name": "f",
            "inputs": ["x"],
            "outputs": ["q"],
            "axes": [{**AXIS, "windows": [read, WINDOW]}],
        },
        {"name": "g", "recomputable": False, "axes": [AXIS, adds]},
        {"name": "h"},
    ]
    windows = (Window("x", 0, 1, -1, 3), Window("q", 0))
    assert plain_ops(rows) == [
        Op("f", inputs=("x",), outputs=("q",), axes=(Axis("rows", 4, windows),)),
        Op(
            "g", recomputable=False, axes=(Axis("rows", 4, windows[1:]), Axis("terms", 3, (), True))
        ),
        Op("h"),
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {"size": -1}, {"size": 2**62}, {"size": True}, {"size": None}, {"kind": "weight"},
        {"name": ""}, {"name": "é"}, {"name": 3}, {"alignment": 0}, {"shape": (2,)},
        {"view_of": ("x", "n")}, {"view_of": ["x"]}, {"view_of": None}, {"view_of": []},
        {"view_of": ["x", True]}, {"view_of": 3}, {"kind": None}, {"dtype": "int8"},
        {"shape": [2], "dtype": "int8"}, {"shape": [-1], "dtype": "int8"}, {"shape": 1},
        {"shape": ["n"], "dtype": "int8"}, {"shape": [1], "dtype": "int4"}, {"dtype": []},
        {"shape": [1], "dtype": "word"}, {"shape": [True], "dtype": "int8"},
    ],
)  # fmt: skip
def test_a_tensor_that_needs_a_closer_look_is_left_to_its_class(changes):
    assert plain_tensors([*TENSORS, {"name": "t", "size": 1, **changes}]) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"cost": 0.5}, {"cost": -1}, {"cost": True}, {"inputs": "x"}, {"inputs": [1]},
        {"in_place": [["y", "x"]]}, {"in_place": [["y"]]}, {"after": ["f"]}, {"kind": "ä"},
        {"name": ""}, {"recomputable": 0}, {"sequence": "s"}, {"bodies": []},
        {"in_place": None}, {"in_place": 3}, {"in_place": ["qz"]}, {"in_place": {"qz": 1}},
        {"in_place": [[["q"], "z"]]}, {"placements": None}, {"placements": ["zq0"]},
        {"placements": [["z", "q", True]]}, {"placements": [[["z"], "q", 0]]},
        {"axes": 3}, {"axes": [3]}, {"axes": [{}]}, {"axes": [{**AXIS, "extent": 0}]},
        {"axes": [AXIS, AXIS]}, {"axes": [{**AXIS, "name": ""}]}, {"axes": [{**AXIS, "more": 1}]},
        {"axes": [{**AXIS, "accumulates": 1}]}, {"axes": [{**AXIS, "windows": None}]},
        {"axes": [{**AXIS, "windows": [{"tensor": "q"}]}]},
        *({"axes": [{**AXIS, "windows": [{**WINDOW, **wrong}]}]} for wrong in WRONG_WINDOWS),
        {"axes": [{**AXIS, "windows": [WINDOW, {**WINDOW, "axis": 1}]}]},
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
