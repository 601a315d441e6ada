"""Plans as JSON: they round-trip, and a malformed one is refused in one line."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from support.oracles import plan_for, programs

from cpplan import Plan, Problem, Program
from cpplan.io.plan_json import plan_from_dict, plan_text, plan_to_dict
from cpplan.model.certificates import CutDuals, CutFlow
from cpplan.model.errors import InputError
from cpplan.model.plan_data import Progress, Relation, Suggestion
from cpplan.model.pool import Pool
from cpplan.model.problem import Gap
from cpplan.model.residency import Residency
from cpplan.model.symbolic_layout import SymbolicLayout


@pytest.fixture
def plan() -> Plan:
    """Two buffers, one above the other."""
    return plan_for(Problem(("a", "b"), lower=[0, 1], upper=[2, 3], size=[4, 8]))


@settings(max_examples=50)
@given(programs())
def test_plans_survive_json(program: Program) -> None:
    plan = plan_for(program)
    assert plan_from_dict(json.loads("".join(plan_text(plan)))) == plan


def test_the_clock_is_written_only_where_asked_for(plan: Plan) -> None:
    history = (Progress(0.5, None, 8, "live bytes"), Progress(1.0, 12, 12, "first fit"))
    timed = replace(plan, runtime=1.5, history=history)
    assert "".join(plan_text(timed)) == "".join(plan_text(plan))
    again = plan_from_dict(json.loads("".join(plan_text(timed, clock=True))))
    assert (again.runtime, again.history) == (1.5, history)


def test_a_plan_without_offsets_round_trips(plan: Plan) -> None:
    none = replace(plan, offset=None, peak=None, status="unknown", found_by=None)
    assert plan_from_dict(json.loads("".join(plan_text(none)))) == none


@pytest.mark.parametrize(
    ("place", "value", "match"),
    [
        (["format"], "cpplan.graph", "not a plan: expected .* \"format\": 'cpplan.plan'"),
        (["version"], 2, "plan version 2 is not understood: expected 1"),
        (["version"], True, "plan version True is not understood: expected 1"),
        (["version"], 1.0, "plan version 1.0 is not understood: expected 1"),
        (["gap"], 0.5, r"gap is 0\.5, but peak and lower_bound make 0\.0"),
        (["gap"], None, r"gap is None, but peak and lower_bound make 0\.0"),
        (["gap"], "0", "gap must be a number or null, not '0'"),
        (["method"], "magic", "method is 'magic', but found_by and bound_by make"),
        (["buffers", 0, "name"], "\ud800", "name must be Unicode text"),
        (["buffers", 0, "offset"], 2**63 - 1, "buffer 0: must end below"),
        (["status"], "good", "status 'good': expected one of"),
        (["peak"], "12", "peak must be an integer or null, not '12'"),
        (["peak"], True, "peak must be an integer or null, not True"),
        (["capacity"], 1.5, "capacity must be an integer or null, not 1.5"),
        (["found_by"], 3, "found_by must be a string or null, not 3"),
        (["cost"], "1", "cost must be a number or null, not '1'"),
        (["order"], "ab", "order must be a list, not 'ab'"),
        (["order"], [1], "order: an op must be a string, not 1"),
        (["views"], [], "views must be an object"),
        (["views"], {"v": ["a"]}, r"view 'v' must be a list of 2, not \['a'\]"),
        (["residency", "inputs"], "never", "inputs='never' is not understood"),
        (["residency"], {"colour": "red"}, "residency: inputs is missing"),
        (["residency", "colour"], "red", "residency: expected inputs, outputs, constants and"),
        (["history"], [[0, 1]], "event 0 must be a list of 4"),
        (["buffers"], [3], "buffer 0 must be an object, not 3"),
        (["buffers", 1, "size"], "8", "buffer 1: size must be an integer, not '8'"),
        (["buffers", 1, "lower"], None, "buffer 1: lower must be an integer, not None"),
        (["buffers", 0, "name"], ["a"], "buffer 0: name must be a string"),
        (["buffers", 0, "offset"], 2**70, "buffer 0: offset must be below"),
        (["buffers", 0, "pool"], "sram", "buffer 'a': unknown pool 'sram'"),
    ],
)
def test_malformed_plans_are_named(
    plan: Plan, tmp_path: Path, place: list[Any], value: object, match: str
) -> None:
    values = plan_to_dict(plan)
    inner: Any = values
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(values))
    with pytest.raises(InputError, match=match) as caught:
        Plan.load(file)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("key", ["peak", "buffers", "views", "residency"])
def test_a_missing_field_is_named(plan: Plan, key: str) -> None:
    values = plan_to_dict(plan)
    del values[key]
    with pytest.raises(InputError, match=f"{key} is missing"):
        plan_from_dict(values)


def test_plans_are_equal_if_all_but_the_clock_readings_are(plan: Plan) -> None:
    other: dict[str, Any] = {
        "name": "other",
        "status": "feasible",
        "buffers": ("a", "c"),
        "size": plan.size + 1,
        "lower": plan.lower + 1,
        "upper": plan.upper + 1,
        "offset": None,
        "pools": (Pool("sram"),),
        "pool": plan.pool + 1,
        "gaps": {0: (Gap(0, 1, 0, 4),)},
        "residency": Residency(inputs="keep"),
        "views": {"v": ("a", 0)},
        "relations": (Relation("in place", "b", "a"),),
        "scope": "every order",
        "objective": "cost",
        "sharing": ("in place",),
        "objective_value": (1,),
        "objective_bound": (1,),
        "symbols": SymbolicLayout({}, {}),
        "certificate": CutFlow("u", (), (), ()),
        "cost_certificate": CutDuals(("u",), False, (1, 1), 0, (), (), ()),
        **dict.fromkeys(("order", "inputs", "outputs", "first", "last"), ("op",)),
        **dict.fromkeys(("found_by", "bound_by", "cost_bound_by", "message"), "something else"),
        **dict.fromkeys(("peak", "lower_bound", "capacity"), 7),
        **dict.fromkeys(("cost", "base_cost", "cost_bound"), 7),
    }
    clock = {"runtime": 1.5, "history": (Progress(0.5, 12, 12, "first fit"),)}
    clock["suggestions"] = (Suggestion({"split": True}, 8),)
    assert {field.name for field in fields(Plan) if not field.compare} == {*clock}
    assert replace(plan, **clock) == replace(plan, size=plan.size.copy()) == plan
    for name, value in other.items():
        assert replace(plan, **{name: value}) != plan, name
    assert plan != "plan"
