"""Cases with known answers from other projects' test suites (kept beside the repository)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.published import PUBLISHED, minimalloc, olla_graph, published, tvm_case

import cpplan
from cpplan.io.minimalloc_csv import read_problem
from cpplan.model.errors import InputError
from cpplan.model.problem import Problem
from cpplan.packing.heuristics.usmp import from_conflicts


@pytest.fixture(scope="module")
def usmp() -> list[dict[str, Any]]:
    """TVM's planner tests that need one unlimited pool."""
    cases = published("tvm")["usmp"]
    return [c for c in cases if len(c["pools"]) == 1 and c["pools"][0]["size_hint"] == -1]


def _problem(case: dict[str, Any]) -> Problem:
    buffers = case["buffers"]
    return from_conflicts(
        {b["name"]: b["size"] for b in buffers},
        [(b["name"], other) for b in buffers for other in b["conflicts"]],
        alignment={b["name"]: b["alignment"] for b in buffers},
        name=case["id"],
    )


def test_usmp_cases_reach_their_proved_optimum(usmp):
    assert len(usmp) >= 7
    for case in usmp:
        plan = cpplan.solve(_problem(case), workers=1)
        assert (plan.status, plan.peak) == ("optimal", case["proven_optimum_bytes"]), case["id"]


def test_usmp_cases_with_lifespans_agree_with_their_conflicts(usmp):
    timed = [case for case in usmp if "start" in case["buffers"][0]]
    assert timed
    for case in timed:
        buffers = case["buffers"]
        problem = Problem(
            [b["name"] for b in buffers],
            lower=[b["start"] for b in buffers],
            upper=[b["end"] + 1 for b in buffers],
            size=[b["size"] for b in buffers],
        )
        assert int(problem.live_bytes().max()) == case["max_live"]
        assert cpplan.solve(problem).peak == case["proven_optimum_bytes"]


def test_usmp_case_that_cannot_fit():
    case = tvm_case("usmp", "usmp/no_pool_error")
    plan = cpplan.solve(_problem(case), capacity=case["pools"][0]["size_hint"])
    assert plan.status == "infeasible"


def test_asymmetric_conflict_lists_are_symmetrised(usmp):
    """Followed literally, the lists of "fanout" allow 190 bytes with overlaps; the truth is 210."""
    case = next(c for c in usmp if c["id"] == "usmp/fanout")
    lists = case["as_given_directed_conflicts"]
    size = {b["name"]: b["size"] for b in case["buffers"]}
    pairs = [(one, other) for one, others in lists.items() for other in others]
    assert cpplan.solve(from_conflicts(size, pairs)).peak == 210


def test_olla_s_packing_cases():
    for case in published("olla")["packing"]:
        tensors = case["tensors"]
        problem = Problem(
            [t["name"] for t in tensors],
            lower=[t["start"] for t in tensors],
            upper=[t["end"] + 1 for t in tensors],
            size=[t["size"] for t in tensors],
        )
        plan = cpplan.solve(problem)
        assert (plan.status, plan.peak) == ("optimal", case["expected_optimal_height"])


def test_fixed_orders_of_olla_s_graphs():
    """The given orders' memory pressure, as OLLA's simulator computes it."""
    checked = 0
    for case in published("olla")["ordering"]:
        if case.get("default_topo_order_peak") is None:
            continue
        plan = cpplan.solve(olla_graph(case))
        assert plan.lower_bound == case["default_topo_order_peak"], case["name"]
        checked += 1
    assert checked >= 3


@pytest.mark.parametrize(
    "instance",
    [
        *("A", "C", "F", "H"),
        pytest.param("D", marks=pytest.mark.slow),
        pytest.param("J", marks=pytest.mark.slow),
    ],
)
def test_minimalloc_s_instances_fit_their_capacity(instance):
    problem = minimalloc(instance)
    plan = cpplan.solve(problem, capacity=1048576, time_limit=60)
    assert plan.offset is not None
    assert plan.peak <= 1048576
    cpplan.simulate(problem, plan)


def test_minimalloc_s_example_fits_its_name():
    problem = read_problem(PUBLISHED / "minimalloc" / "input.12.csv")
    plan = cpplan.solve(problem)
    assert (plan.status, plan.peak) == ("optimal", 12)


def test_a_conflict_with_an_unknown_buffer_is_named():
    with pytest.raises(InputError, match="unknown buffer 'z'"):
        from_conflicts({"a": 1}, [("a", "z")])


def test_conflicts_become_steps_at_which_exactly_those_meet():
    rng = np.random.default_rng(0)
    for _ in range(50):
        count = int(rng.integers(1, 8))
        meets = np.triu(rng.random((count, count)) < 0.5, 1)
        names = [f"b{k}" for k in range(count)]
        pairs = [(names[i], names[j]) for i, j in zip(*np.nonzero(meets), strict=True)]
        problem = from_conflicts(dict.fromkeys(names, 1), pairs)
        found = np.zeros_like(meets)
        for step in range(int(problem.upper.max())):
            live = sorted(problem.live_at(step).tolist())
            for k, i in enumerate(live):
                found[i, live[k + 1 :]] = True
        assert (found == meets).all()
