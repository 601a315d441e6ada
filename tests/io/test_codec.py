"""Fields are written and read by their types: a new one needs no line in readers or writers."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import pytest

from cpplan.io.codec import changed_fields, form_of, forms, read_fields
from cpplan.io.graph_json import graph_from_dict
from cpplan.io.plan_json import plan_from_dict, plan_to_dict
from cpplan.model.axes import Axis, Window
from cpplan.model.errors import InputError
from cpplan.model.graph import Op
from cpplan.model.plan import Plan
from cpplan.model.pool import Pool
from cpplan.model.tensor import Tensor
from cpplan.solving.pipeline import solve


class Row(NamedTuple):
    name: str
    size: int | None
    within: tuple[int, int] = (0, 1)


@dataclass(frozen=True)
class Part:
    name: str
    scale: float = 1.0


@dataclass(frozen=True)
class Whole:
    name: str
    kind: Literal["a", "b"] = "a"
    count: int | None = None
    cost: int | float = 1
    exact: bool = False
    names: tuple[str, ...] = ()
    pairs: tuple[tuple[str, int], ...] = ()
    rows: tuple[Row, ...] = ()
    part: Part = field(default_factory=lambda: Part("none"))
    parts: tuple[Part, ...] | None = None


FULL = Whole(
    "w", "b", 3, 2.5, True, ("x", "y"), (("x", 1),), (Row("r", None, (2, 3)),), Part("p", 2),
    (Part("q"),),
)  # fmt: skip


@pytest.mark.parametrize("whole", [FULL, Whole("w"), Whole("w", parts=(), count=0)])
def test_fields_of_common_types_read_back_the_same(whole):
    values = json.loads(json.dumps(changed_fields(whole)))
    assert read_fields(Whole, values) == whole


def test_fields_with_their_default_are_left_out():
    assert changed_fields(Whole("w", names=("x",))) == {"name": "w", "names": ["x"]}


@pytest.mark.parametrize("kind", [Tensor, Op, Axis, Window, Pool, Plan])
def test_every_field_has_a_form(kind):
    known = {name: form for name, form in forms(kind).items() if form.types == (object,)}
    columns = {"size", "lower", "upper", "offset", "pool", "symbols"}
    assert known.keys() <= (columns if kind is Plan else set())


def test_words_are_those_of_the_type():
    assert form_of(Literal["a", "b"]).words == ("a", "b")
    assert forms(Plan)["status"].words == ("optimal", "feasible", "infeasible", "unknown")


SYMBOLIC = {
    "format": "cpplan.graph",
    "version": 1,
    "name": "s",
    "dims": {"n": [1, 8]},
    "tensors": [
        {"name": "x", "shape": ["n"], "dtype": "int8", "kind": "input"},
        {"name": "y", "shape": ["2*n"], "dtype": "int8", "kind": "output"},
    ],
    "ops": [{"name": "f", "inputs": ["x"], "outputs": ["y"]}],
}


@pytest.mark.parametrize("value", [[], {}, [["x"]]])
@pytest.mark.parametrize(
    ("place", "message"),
    [
        (("tensors", "x", "buffer"), "symbols: tensor 'x': unknown buffer"),
        (("tensors", "x", "dtype"), "symbols: tensor 'x': dtype"),
        (("moving",), "symbols: moving must be a list of buffers"),
    ],
)
def test_lists_in_place_of_names_are_refused_in_one_line(place, message, value):
    graph = graph_from_dict(SYMBOLIC)
    values = copy.deepcopy(plan_to_dict(solve(graph, algorithm="bump")))
    inside = values["symbols"]
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = [value] if place == ("moving",) else value
    with pytest.raises(InputError) as caught:
        plan_from_dict(values)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_huge_range_of_a_dimension_is_refused():
    values = {**SYMBOLIC, "dims": {"n": [-(2**70), 8]}}
    with pytest.raises(InputError, match="n may be negative"):
        graph_from_dict(values)
