"""Small problems are settled: all choices of gaps and orders, the cheapest first."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, pairwise

import pytest
from support.cases import seeds
from support.spill_oracle import Case, random_unused_case

import cpplan
from cpplan import Graph, Op, Pool, Tensor
from cpplan.model.errors import VerificationError
from cpplan.model.residency import Residency
from cpplan.program.anf import to_anf
from cpplan.runtime.deadline import Deadline
from cpplan.spilling.search.every_choice import ALL_GAPS, EveryChoice
from cpplan.verification.verifier import check_plan


def scattered(pools: tuple[str, ...] | None = None) -> Case:
    """A graph whose bytes fit into 6 B at each op, while no offset of ``a`` serves both.

    Beside ``b`` at 0, ``a`` lies at 4; between ``c`` and ``d`` at 0 and 4, it lies at 2.
    """
    aligned = {"alignment": 4}
    tensors = (
        Tensor("a", 2, pools=pools),
        Tensor("b", 4, **aligned),
        Tensor("c", 2, **aligned),
        Tensor("d", 2, **aligned),
    )
    ops = Op("f", outputs=("a", "b")), Op("g", inputs=("a",), outputs=("c", "d"))
    graph, fast = Graph("scattered", tensors, ops), Pool("fast", 6)
    return Case(graph, Residency(), (fast, Pool("slow")), in_place=False)


def every_choice(case: Case, *, any_order: bool) -> EveryChoice:
    program = to_anf(case.graph)
    return EveryChoice(case.graph, case.problem(), program.order, any_order=any_order)


@pytest.mark.parametrize("seed", seeds(60))
def test_choices_cost_what_their_gaps_cost_from_the_fewest_bytes_on(seed: int) -> None:
    case, any_order = random_unused_case(seed), seed % 2 == 1
    every = every_choice(case, any_order=any_order)
    assert every.visit(None, Deadline(60))
    found = list(islice(every.cheapest_first(), 20))
    least = case.least(any_order=any_order)
    assert (found[0].cost if found else None) == least
    assert all(one.cost <= other.cost for one, other in pairwise(found))
    for choice in found:
        problem = case.problem(choice.order)
        kept = choice.gaps(problem)
        assert problem.paid(kept).sum() == choice.cost
        assert (problem.load(kept) <= problem.capacity).all()
    assert len({choice[:2] for choice in found}) == len(found)


@pytest.mark.parametrize("seed", seeds(40, 200))
def test_small_problems_are_settled(seed: int) -> None:
    case, order = random_unused_case(seed), ("given", "search")[seed % 2]
    case = replace(case, pools=(case.pools[0], replace(case.pools[1], capacity=None)))
    plan = case.solve(order, time_limit=2)
    least = case.least(any_order=plan.scope == "every order")
    assert plan.moved_bytes == least or case.time
    assert plan.status == ("infeasible" if least is None else "optimal")


@pytest.mark.slow
def test_hundreds_of_small_problems_are_settled_in_two_seconds() -> None:
    for seed in range(30_000, 30_484):
        test_small_problems_are_settled(seed)


@pytest.mark.parametrize("order", ["given", "search"])
def test_bytes_that_fit_without_offsets_alone_prove_nothing(order: str) -> None:
    case = scattered()
    assert case.least(any_order=True) == 0
    plan = case.solve(order)
    assert (plan.status, plan.moved_bytes, plan.moved_bytes_bound_by) == ("optimal", 4, ALL_GAPS)
    assert check_plan(case.graph, plan).moved_bound == "searched"


def test_no_choice_that_fits_is_infeasible() -> None:
    """``a`` may not leave the fast pool."""
    plan = scattered(("fast",)).solve()
    assert plan.status == "infeasible"
    assert plan.message == "no moves fit into 6 B of pool fast: all were tried"


def test_all_gaps_of_one_order_prove_nothing_about_every_order() -> None:
    plan = scattered().solve()
    with pytest.raises(VerificationError, match="is of one order"):
        cpplan.verify(scattered().graph, replace(plan, scope="every order"))


@pytest.mark.parametrize("few", ["edges", "ops"])
def test_too_many_states_settle_nothing(few: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tuning = {"spilling": {"every_choice_ops": 0}} if few == "ops" else None
    if few == "edges":
        monkeypatch.setattr("cpplan.spilling.search.every_choice._EVERY_CHOICE_EDGES", 0)
    plan = scattered().solve(tuning=tuning, time_limit=1)
    assert (plan.status, plan.moved_bytes, plan.moved_bytes_bound) == ("feasible", 4, 0)


def test_time_that_is_up_settles_nothing() -> None:
    every = every_choice(scattered(), any_order=True)
    assert every.settle(lambda choice: True, None, Deadline(0)) == 0


def test_choices_that_may_fit_raise_the_bound_no_further() -> None:
    every = every_choice(scattered(), any_order=False)
    answers = iter([False, None])
    assert every.settle(lambda choice: next(answers), None, Deadline(60)) == 4
