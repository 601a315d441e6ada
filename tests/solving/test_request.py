"""Request: every option once, checked when it is made, the same for solve, batches and commands."""

from __future__ import annotations

import inspect
from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest
from support.orders_oracle import random_graph

from cpplan.cli.plan_command import plan as plan_command
from cpplan.model import residency
from cpplan.model.errors import InputError
from cpplan.model.pool import Pool
from cpplan.model.problem import Problem
from cpplan.packing.pools import objective
from cpplan.solving.pipeline import solve, solve_request
from cpplan.solving.request import KEYWORDS, OPTIONS, Request, make_request
from cpplan.verification import pool_objective

TWO_POOLS = (Pool("sram", 64), Pool("dram"))


def test_solve_takes_the_fields_of_a_request_with_their_defaults() -> None:
    parameters = dict(inspect.signature(solve).parameters)
    del parameters["source"]
    defaults = {known.name: known.default for known in fields(Request)}
    assert {name: parameter.default for name, parameter in parameters.items()} == defaults


def test_a_file_can_ask_for_all_but_progress_and_suggestions() -> None:
    assert set(KEYWORDS) == {known.name for known in fields(Request)} - {
        "progress",
        "suggest",
    }


def test_plan_has_an_option_for_every_field_in_the_table() -> None:
    given = {parameter.name: parameter for parameter in plan_command.params}
    assert set(OPTIONS) <= set(given)
    for name, option in OPTIONS.items():
        assert "/".join([*given[name].opts, *given[name].secondary_opts]) == option.names


def test_the_table_knows_the_choices_of_the_model() -> None:
    assert Request().objective in objective.OBJECTIVES
    assert set(objective.OBJECTIVES) == set(pool_objective.OBJECTIVES)
    for name, choices in residency._CHOICES.items():
        assert set(OPTIONS[name].choices) == set(choices)


def test_a_request_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Request().seed = 3  # type: ignore[misc]


def test_a_request_fills_in_the_order() -> None:
    assert Request().order == "given"
    assert Request(remat=True, cost_limit=1.5).order == "search"


def test_limits_are_bytes_or_shares() -> None:
    assert Request(memory_limit="1 KiB").memory_limit == 1024
    assert Request(memory_limit="60%").memory_limit == "60%"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": "backwards"}, "order='backwards' is not understood: expected one of given, sea"),
        ({"inputs": "lose"}, "inputs='lose' is not understood: expected one of reuse, keep, outs"),
        ({"objective": "fun"}, "objective 'fun' is not understood: expected one of preference, "),
        ({"in_place": 1}, "in_place must be true or false, not 1"),
        ({"remat": "yes"}, "remat must be true or false, not 'yes'"),
        ({"seed": -1}, "seed must be an integer from 0"),
        ({"time_limit": 0}, "time_limit must be a positive number of seconds"),
        ({"memory_limit": "much"}, "memory_limit: 'much' is not a byte count"),
        ({"capacity": "0%"}, "capacity: '0%' is not a share"),
        ({"algorithm": "luck"}, "algorithm 'luck'"),
        ({"cost_limit": 2}, "cost_limit limits what runs again: it needs remat=True"),
        ({"remat": True}, "remat=True needs either a memory_limit or a cost_limit"),
        ({"remat": True, "cost_limit": 0.5}, "cost_limit must be at least 1, not 0.5"),
        ({"piece_bytes": 1}, "piece_bytes weighs the pieces of one pool: it needs split=True"),
        ({"first": ("a",)}, "first and last constrain a searched order"),
        ({"pools": TWO_POOLS, "capacity": 64}, "with several pools, each has its own capacity"),
        ({"pools": ()}, "pools must hold at least one pool"),
        ({"deterministic": True, "workers": 2}, "deterministic=True needs workers=1"),
        ({"tuning": {"solvign": {}}}, "tuning: unknown room 'solvign'"),
        ({"ordre": "search"}, "unknown key 'ordre': expected 'order'"),
    ],
)
def test_a_request_that_is_not_understood_is_refused_without_a_model(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        make_request(options)
    assert str(caught.value).startswith(message)


def test_a_bare_problem_is_refused_what_only_a_graph_has() -> None:
    problem = Problem(("a",), lower=[0], upper=[1], size=[4])
    for options in ({"pools": TWO_POOLS}, {"in_place": True}):
        with pytest.raises(InputError, match="a bare problem"):
            solve_request(problem, Request(**options))


def test_a_request_and_its_keywords_give_the_same_plan() -> None:
    graph = random_graph(3, 9)
    options: dict[str, Any] = {"order": "search", "in_place": True, "deterministic": True}
    first = solve(graph, time_limit=2, **options)
    second = solve_request(graph, Request(time_limit=2, **options))
    assert first.peak == second.peak
    assert first.order == second.order
    assert (first.offset == second.offset).all()
