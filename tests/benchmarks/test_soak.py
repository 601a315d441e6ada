"""The soak: its cases, its oracles, and that it finds and prints what is false."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from support.oracles import brute_force_peak, random_problem
from support.soak import mutated, orders, packing, pools, remat, sharing, sizes, storages, symbolic
from support.soak.boxes import boxes_of, least_height
from support.soak.case import Case, as_test, python_of
from support.soak.made import random_graph, random_pools
from support.soak.run import MODES, Count, case_of, check, soak, table
from support.soak.runs import live_boxes, repeated_boxes
from support.soak.runs import orders as orders_of

from cpplan import (
    Gap,
    Graph,
    Op,
    Placement,
    Plan,
    Pool,
    Problem,
    Tensor,
    plan_sizes,
    share_storages,
    solve,
)
from cpplan.solving.sizes.sizes_plan import PlannedLevel


@pytest.mark.parametrize("mode", MODES)
def test_a_few_cases_of_each_mode_are_true(mode: str) -> None:
    finds: list[str] = []
    counts = soak([mode], 5, finds.append, cases=2)
    assert finds == []
    count = counts[mode]
    assert (count.cases + count.too_large, count.false) == (2, 0)


@pytest.mark.parametrize("mode", MODES)
def test_a_case_follows_from_its_mode_seed_and_number(mode: str) -> None:
    assert case_of(mode, 3, 4).lines == case_of(mode, 3, 4).lines
    assert case_of(mode, 3, 4).lines != case_of(mode, 4, 4).lines


def test_a_bound_that_is_too_high_is_found_and_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planner and checker agree on a wrong bound: one byte above the live bytes."""

    def with_wrong_bound(problem: Problem, **options: object) -> Plan:
        plan = right(problem, **options)
        return replace(plan, lower_bound=(plan.lower_bound or 0) + 1)

    right = packing.solve
    monkeypatch.setattr(packing, "solve", with_wrong_bound)
    monkeypatch.setattr(packing, "verify", lambda *_: None)
    finds: list[str] = []
    counts = soak(["packing"], 5, finds.append, cases=4)
    assert counts["packing"].false == 4
    heading, text, *_ = finds
    assert heading == "# --modes packing --seed 5 --first 0 --cases 1"
    assert text.startswith("def test_packing_5_0() -> None:\n    problem = Problem(")
    assert "assert plan.lower_bound <= " in text
    assert packing_fails(text, with_wrong_bound)
    assert not packing_fails(text, right)


def packing_fails(text: str, solve: object) -> bool:
    """True if the test that was printed fails with this ``solve``."""
    names: dict[str, object] = {"solve": solve, "simulate": lambda *_: None}
    names |= {"Problem": Problem, "Gap": Gap, "Pool": Pool}
    exec(text, names)
    try:
        names["test_packing_5_0"]()  # type: ignore[operator]
    except AssertionError:
        return True
    return False


def test_a_bug_inside_the_planner_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound one byte too high, in the name of a search, which the checker believes."""
    from cpplan.packing import incumbent
    from cpplan.packing.bounds import Bound

    right = incumbent.lower_bound
    monkeypatch.setattr(
        incumbent, "lower_bound", lambda problem: Bound(right(problem).value + 1, "CP-SAT", None)
    )
    finds: list[str] = []
    assert soak(["packing"], 5, finds.append, cases=3)["packing"].false == 3
    assert all("plan = solve(problem" in text for text in finds[1::2])


def test_a_checker_that_accepts_all_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutated, "verify", lambda *_: None)
    monkeypatch.setattr(mutated, "simulate", lambda *_: None)
    finds: list[str] = []
    assert soak(["mutated"], 5, finds.append, cases=20)["mutated"].false >= 10
    assert finds[1].endswith(
        "    with pytest.raises(VerificationError):\n        verify(problem, changed)\n"
    )


def _called_optimal(plan: Plan) -> Plan:
    """The same plan, said to be proved."""
    if plan.offset is None:
        return plan
    return replace(
        plan, status="optimal", lower_bound=plan.peak, objective_bound=plan.objective_value
    )


def _dearer(graph: Graph, **options: object) -> Plan:
    """A plan that costs or takes one more than what is optimal."""
    plan = solve(graph, **options)
    if plan.offset is None or "cost_limit" not in options:
        return replace(plan, status="infeasible") if plan.offset is not None else plan
    return replace(plan, peak=plan.peak + 1, status="optimal")


# Where each mode gets its answers, and a function that gives wrong ones.
WRONG = {
    "orders": (
        orders,
        "solve",
        lambda g, **o: _called_optimal(solve(g, **{**o, "order": "given"})),
    ),
    "sharing": (sharing, "solve", lambda g, **o: _called_optimal(solve(g, deterministic=True))),
    "pools": (pools, "solve", lambda p, **o: _called_optimal(solve(p, **o, algorithm="bump"))),
    "symbolic": (symbolic, "solve", lambda g, **o: _called_optimal(solve(g, algorithm="bump"))),
    "remat": (remat, "solve", _dearer),
    "storages": (
        storages,
        "share_storages",
        lambda p, **o: replace(share_storages(p, algorithm="bump"), status="optimal"),
    ),
    "sizes": (
        sizes,
        "plan_sizes",
        lambda g, s, **o: replace(plan_sizes(g, s, deterministic=True), levels=(NEVER,)),
    ),
}
NEVER = PlannedLevel("largest arena", 10**6, 10**6)


@pytest.mark.parametrize("mode", WRONG)
def test_wrong_answers_are_found(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, name, wrong = WRONG[mode]
    monkeypatch.setattr(module, name, wrong)
    for checker in ("verify", "simulate", "check_assignment"):
        monkeypatch.setattr(module, checker, lambda *_, **__: None, raising=False)
    finds = (check(case_of(mode, 1, number)) for number in range(25))
    assert any(find and "assert" in find[0] for find in finds)


def test_an_error_is_a_find() -> None:
    def fail() -> list[str]:
        raise KeyError("t")

    assert check(Case((), fail))[0].endswith("raised KeyError: 't'")
    assert as_test("x", Case(("a = 1",), fail), ["assert a == 2"]) == (
        "def test_x() -> None:\n    a = 1\n    assert a == 2"
    )


@pytest.mark.parametrize("seed", range(20))
def test_python_of_a_case_makes_the_case(seed: int) -> None:
    rng = random.Random(seed)
    names = {"Graph": Graph, "Op": Op, "Tensor": Tensor, "Placement": Placement, "Gap": Gap}
    names |= {"Problem": Problem, "Pool": Pool}
    graph = random_graph(rng, 5)
    assert eval(python_of(graph), dict(names)) == graph
    problem = random_problem(rng, 5)
    problem = Problem(
        problem.names, problem.lower, problem.upper, problem.size, problem.alignment,
        problem.gaps, problem.fixed, pools=random_pools(rng),
    )  # fmt: skip
    made = eval(python_of(problem), dict(names))
    for column in ("lower", "upper", "size", "alignment", "reads", "writes"):
        np.testing.assert_array_equal(getattr(made, column), getattr(problem, column))
    for field in ("names", "fixed", "pools"):
        assert getattr(made, field) == getattr(problem, field)
    assert {row: list(gaps) for row, gaps in made.gaps.items()} == {
        row: list(gaps) for row, gaps in problem.gaps.items()
    }


@pytest.mark.parametrize("seed", range(40))
def test_both_brute_forces_agree(seed: int) -> None:
    problem = random_problem(random.Random(seed), 1 + seed % 5)
    least = least_height(boxes_of(problem))
    assert least == brute_force_peak(problem)
    assert least_height(boxes_of(problem), least) == least
    assert least == 0 or least_height(boxes_of(problem), least - 1) is None


def test_lifespans_by_hand() -> None:
    tensors = (
        Tensor("x", 2, kind="input"),
        Tensor("a", 3),
        Tensor("v", 1, view_of=("a", 2)),
        Tensor("y", 4, kind="output"),
        Tensor("w", 9, kind="constant"),
        Tensor("s", 5, kind="workspace"),
    )
    ops = (
        Op("f", inputs=("w",), outputs=("a",), workspaces=("s",)),
        Op("g", inputs=("a",), outputs=("v",)),
        Op("h", inputs=("v",), outputs=("y",)),
    )
    graph = Graph("hand", tensors, ops)
    assert list(orders_of(graph)) == [(0, 1, 2)]
    spans = {box.name: sorted(box.held) for box in live_boxes(graph, (0, 1, 2))}
    assert spans == {"x": [0], "a": [0, 1, 2], "y": [2], "s": [0]}
    pair = Op("f", outputs=("a",)), Op("h", inputs=("a",), outputs=("y",))
    plain = Graph("plain", (tensors[1], tensors[3]), pair)
    again = [(box.name, sorted(box.held)) for box in repeated_boxes(plain, (0, 1, 0, 1))]
    assert again == [("a", [0, 1]), ("y", [1]), ("a", [2, 3]), ("y", [3])]


def test_the_table_adds_up() -> None:
    text = table({"packing": Count(12, 2, 1, 0.5), "pools": Count(3, 0, 0, 1.5)})
    assert text.splitlines()[1].split() == ["packing", "12", "1", "2", "0.5"]
    assert text.splitlines()[-1].split() == ["all", "15", "1", "2", "2.0"]
