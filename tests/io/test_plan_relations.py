"""Plans whose tensors share bytes, as JSON: written, read back, and refused where malformed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.sharing_instances import halves, relu_chain, two_branches
from support.sharing_oracle import random_sharing_graph

from cpplan import Plan, solve, verify
from cpplan.io.plan_json import plan_from_dict, plan_to_dict
from cpplan.model.errors import InputError
from cpplan.model.plan_data import Relation


@pytest.fixture
def plan() -> Plan:
    return solve(halves(), in_place=True, workers=1)


@pytest.mark.parametrize(
    "graph", [halves(), relu_chain(), two_branches(), random_sharing_graph(3, 8)]
)
def test_relations_survive_saving_and_loading(graph, tmp_path: Path):
    plan = solve(graph, in_place=True, workers=1)
    path = tmp_path / "plan.json"
    plan.save(path)
    again = Plan.load(path)
    assert again == plan
    assert again.relations == plan.relations
    assert all(isinstance(relation, Relation) for relation in again.relations)
    assert again.sharing == ("in place", "placement")
    verify(graph, again)
    again.save(tmp_path / "again.json")
    assert path.read_bytes() == (tmp_path / "again.json").read_bytes()


def test_relations_are_written_as_lists(plan: Plan):
    values = json.loads(json.dumps(plan_to_dict(plan)))
    assert values["sharing"] == ["in place", "placement"]
    assert sorted(values["relations"]) == [
        ["in place", "r", "p", 0],
        ["placement", "p", "x", 0],
        ["placement", "q", "x", 4],
    ]


def test_a_summary_counts_them(plan: Plan):
    assert "1 in place, 2 placed within another" in str(plan)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"relations": None}, "relations must be a list, not None"),
        ({"relations": {}}, "relations must be a list"),
        ({"relations": ["r"]}, "relation 0 must be a list of 4, not 'r'"),
        ({"relations": [["in place", "r", "p"]]}, "relation 0 must be a list of 4"),
        ({"relations": [["in place", "r", "p", 0, 0]]}, "relation 0 must be a list of 4"),
        ({"relations": [["in place", "r", 7, 0]]}, "relation 0 must be a string, not 7"),
        ({"relations": [["in place", "r", "p", "0"]]}, "relation 0 must be an integer, not '0'"),
        ({"relations": [["in place", "r", "p", 0.5]]}, "relation 0 must be an integer, not 0.5"),
        ({"relations": [["in place", "r", "p", True]]}, "relation 0 must be an integer, not True"),
        ({"relations": [["in place", "r", "p", 2**63]]}, "relation 0 must be below"),
        (
            {"relations": [["beside", "r", "p", 0]]},
            "a relation's kind is 'beside': expected one of in place, placement",
        ),
        ({"sharing": "in place"}, "sharing must be a list, not 'in place'"),
        ({"sharing": ["anything"]}, "a relation's kind is 'anything'"),
        ({"sharing": [["in place"]]}, r"a relation's kind is \['in place'\]"),
        ({"sharing": [1]}, "a relation's kind is 1"),
    ],
)
def test_malformed_relations_are_named_in_one_line(plan: Plan, change, message):
    with pytest.raises(InputError, match=message) as caught:
        plan_from_dict({**plan_to_dict(plan), **change})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("field", ["relations", "sharing"])
def test_both_fields_must_be_there(plan: Plan, field):
    values = plan_to_dict(plan)
    del values[field]
    with pytest.raises(InputError, match=f"{field} is missing"):
        plan_from_dict(values)
