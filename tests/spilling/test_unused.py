"""Results that nothing reads, and all that lies about them, against brute force.

The graphs have ops of several results, operands read twice, views, empty tensors, tensors written
in parts, workspaces, and tensors of one pool alone; bytes are counted, or cycles.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.cases import seeds
from support.spill_oracle import Case, random_unused_case

import cpplan
from cpplan import Graph, Op, Plan, Pool, Tensor
from cpplan.model.errors import InputError
from cpplan.model.residency import Residency
from cpplan.spilling.outcome import Shortfall, find_shortfall
from cpplan.spilling.search.one_order import SpillSearch


def fewest(case: Case, plan: Plan, *, offsets: bool) -> int | None:
    """The fewest bytes moved of all plans that a plan's bound is about."""
    return case.least(any_order=plan.scope == "every order", offsets=offsets)


def check_claims(case: Case, plan: Plan) -> None:
    """Check a plan's status and bound by brute force, with offsets where these matter."""
    paid, bound = plan.moved_bytes, plan.moved_bytes_bound
    if case.time:
        assert plan.time_bound is not None
        assert plan.cost is not None
        paid = None if plan.time is None else int(plan.time - plan.cost)
        bound = int(plan.time_bound - plan.cost)
    assert bound is not None
    least = fewest(case, plan, offsets=False)
    assert plan.status in ("optimal", "infeasible") or case.pools[1].capacity is not None
    if plan.offset is not None:
        cpplan.simulate(case.graph, plan)
        assert paid is not None
        assert least is not None
        assert least <= paid
        assert (plan.status == "optimal") == (paid == bound)
    if least is not None and (plan.status == "infeasible" or bound > least):
        least = fewest(case, plan, offsets=True)
        assert least is None or plan.status != "infeasible"
        assert least is None or bound <= least


@pytest.mark.parametrize("seed", seeds(100))
def test_claims_hold_against_brute_force(seed: int) -> None:
    case = random_unused_case(seed)
    check_claims(case, case.solve(("given", "search")[seed % 2], time_limit=0.1))


@pytest.mark.slow
def test_two_thousand_claims_hold_against_brute_force() -> None:
    for seed in range(10_000, 12_000):
        case = random_unused_case(seed)
        check_claims(case, case.solve(("given", "search")[seed % 2], time_limit=2))


@pytest.mark.parametrize("order", ["given", "search"])
@pytest.mark.parametrize("kind", ["intermediate", "output"])
def test_result_that_does_not_fit_is_written_in_the_slow_pool(order: str, kind: str) -> None:
    tensors = Tensor("x", 2, kind="input"), Tensor("a", 4, kind=kind)
    graph = Graph("unused", tensors, (Op("f", inputs=("x",), outputs=("a",)),))
    pools = [Pool("fast", 3), Pool("slow", direct=True)]
    plan = cpplan.solve(graph, pools=pools, spill=True, order=order, time_limit=20)
    assert (plan.status, plan.moved_bytes) == ("optimal", 4)
    assert [(move.kind, move.tensor) for move in plan.moves] == [("write", "a")]


def test_result_that_fits_is_written_in_the_fast_pool() -> None:
    """The first op leaves 4 B beside ``x``: its smaller result costs nothing."""
    tensors = Tensor("x", 4, kind="input"), Tensor("a", 8), Tensor("b", 4), Tensor("y", 4)
    ops = (
        Op("f", inputs=("x",), outputs=("a", "b")),
        Op("g", inputs=("x",), outputs=("y",)),
    )
    pools = [Pool("fast", 8), Pool("slow", direct=True)]
    plan = cpplan.solve(Graph("two", tensors, ops), pools=pools, spill=True, time_limit=20)
    assert (plan.status, plan.moved_bytes) == ("optimal", 8)
    assert [(move.kind, move.tensor) for move in plan.moves] == [("write", "a")]


def test_result_is_written_over_an_input_of_two_names() -> None:
    """``a`` has two names, so it cannot move; ``b`` is written over it."""
    tensors = Tensor("a", 8), Tensor("part", 4, view_of=("a", 0)), Tensor("b", 8)
    ops = (
        Op("f", outputs=("a", "part")),
        Op("g", inputs=("a",), outputs=("b",), in_place=(("b", "a"),)),
    )
    graph, pools = Graph("names", tensors, ops), [Pool("fast", 8), Pool("slow")]
    plan = cpplan.solve(graph, pools=pools, spill=True, in_place=True, time_limit=20)
    assert (plan.status, plan.moved_bytes) == ("optimal", 0)


def test_what_must_lie_beside_an_op_in_one_order_alone_proves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the given order ``a`` lies in the fast pool while ``g`` runs; ``g`` may be first."""
    tensors = Tensor("a", 4, pools=("fast",)), Tensor("b", 8), Tensor("y", 4, kind="output")
    ops = Op("f", outputs=("a",)), Op("g", outputs=("b",)), Op("h", inputs=("a",), outputs=("y",))
    case = Case(
        Graph("beside", tensors, ops), Residency(), (Pool("fast", 8), Pool("slow")), in_place=False
    )
    short = Shortfall("g", 12, 4)
    assert find_shortfall(case.problem()) == short
    assert find_shortfall(case.problem(), alone=True) is None
    assert case.solve("search").moved_bytes == 0
    # Time for the given order only.
    monkeypatch.setattr(SpillSearch, "allows", lambda search, layouts, deadline: layouts < 4)
    tuning = {"spilling": {"every_choice_ops": 0}}
    assert case.solve("search", tuning=tuning).status == "unknown"
    small = replace(case, pools=(Pool("fast", 7), Pool("slow")))
    assert small.solve("search").status == "infeasible"


def test_tensor_that_cannot_move_must_be_allowed_in_the_fast_pool() -> None:
    tensors = Tensor("s", 4, kind="workspace", pools=("slow",)), Tensor("y", 4, kind="output")
    graph = Graph("scratch", tensors, (Op("f", outputs=("y",), workspaces=("s",)),))
    pools = [Pool("fast", 8), Pool("slow", direct=True)]
    with pytest.raises(InputError, match="'s': may lie in 'slow' only, but cannot move"):
        cpplan.solve(graph, pools=pools, spill=True, time_limit=5)


def test_residency_of_unused_results() -> None:
    """``keep`` or not, an unused result needs no room after its op."""
    tensors = Tensor("x", 4, kind="input"), Tensor("a", 4), Tensor("y", 4, kind="output")
    ops = Op("f", inputs=("x",), outputs=("a",)), Op("g", inputs=("x",), outputs=("y",))
    graph = Graph("kept", tensors, ops)
    for inputs in ("reuse", "keep", "outside"):
        for outputs in ("keep", "outside"):
            case = Case(
                graph, Residency(inputs, outputs), (Pool("fast", 8), Pool("slow", direct=True)),
                in_place=False,
            )  # fmt: skip
            plan = case.solve()
            assert (plan.status, plan.moved_bytes) == ("optimal", 0)


def test_an_empty_view_needs_no_copy_of_its_base():
    """Result ``a`` is written to the slow pool alone, and its empty view is read later."""
    graph = Graph(
        "g",
        (
            Tensor("x", 2, kind="input"),
            Tensor("a", 4),
            Tensor("nothing", 0, view_of=("a", 4)),
            Tensor("y", 2, kind="output"),
        ),
        (
            Op("write", inputs=("x",), outputs=("a",)),
            Op("read", inputs=("x", "nothing"), outputs=("y",)),
        ),
    )
    pools = Pool("fast", 4), Pool("slow", direct=True)
    plan = cpplan.solve(graph, spill=True, pools=pools)
    assert (plan.status, plan.moved_bytes) == ("optimal", 4)
    cpplan.verify(graph, plan)
    cpplan.simulate(graph, plan)
