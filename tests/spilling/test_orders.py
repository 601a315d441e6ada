"""Searched orders against brute force over all orders."""

from __future__ import annotations

import signal
from dataclasses import replace
from importlib import import_module

import pytest
from support.cases import seeds
from support.spill_oracle import random_spill_case

import cpplan
from cpplan import Graph, Op, Pool, Tensor
from cpplan.io.plan_json import plan_from_dict, plan_to_dict
from cpplan.model.certificates import ForcedAt, ForcedMoves, RoomPrices
from cpplan.model.errors import InputError, VerificationError
from cpplan.model.residency import Residency
from cpplan.model.small_graphs import kept_meanwhile
from cpplan.packing.tuning import PackingTuning
from cpplan.program.anf import to_anf
from cpplan.runtime.budget import Budget, Tuning, make_budget, using
from cpplan.runtime.deadline import Deadline, TimeUpError
from cpplan.spilling import cp_sat_gaps, heuristics, solve
from cpplan.spilling.bounds import MovedBound
from cpplan.spilling.every_order import bound_of_every_order
from cpplan.spilling.heuristics import Eviction
from cpplan.spilling.problem import spill_problem
from cpplan.spilling.search import addresses, one_order, repacking
from cpplan.spilling.search.one_order import SpillSearch
from cpplan.spilling.tuning import SpillingTuning
from cpplan.verification.verifier import check_plan
from tests.benchmarks.time_limits import GRAPHS


@pytest.mark.parametrize("seed", seeds(15, 500))
def test_searched_order_is_bounded_by_brute_force(seed: int) -> None:
    case = random_spill_case(seed, uniform=seed % 2 == 0)
    least, plan = case.least(any_order=True), case.solve("search")
    given = case.solve()
    assert plan.moved_bytes_bound <= least <= plan.moved_bytes
    assert given.moved_bytes is None or plan.moved_bytes <= given.moved_bytes
    assert (plan.status == "optimal") == (plan.moved_bytes == plan.moved_bytes_bound)
    cpplan.simulate(case.graph, plan)


def test_the_only_order_is_planned_as_given() -> None:
    tensors = (*(Tensor(name, 8) for name in "abc"), Tensor("y", 8, kind="output"))
    ops = (
        Op("f", outputs=("a",)),
        Op("g", inputs=("a",), outputs=("b",)),
        Op("h", inputs=("b",), outputs=("c",)),
        Op("k", inputs=("a", "c"), outputs=("y",)),
    )
    graph, pools = Graph("only", tensors, ops), [Pool("fast", 24), Pool("slow")]
    plan = cpplan.solve(graph, pools=pools, spill=True, order="search", time_limit=20)
    assert (plan.status, plan.moved_bytes, plan.scope) == ("optimal", 0, "given order")


def test_a_better_order_moves_nothing() -> None:
    """The given order holds a and b while it makes c and d from the input: 40 B are live."""
    tensors = (Tensor("x", 8, kind="input"), *(Tensor(name, 8) for name in "abcd"))
    tensors += (Tensor("y", 8), Tensor("z", 8), Tensor("out", 8, kind="output"))
    reads = {"a": "x", "b": "x", "c": "x", "d": "x", "y": "ab", "z": "cd", "out": "yz"}
    ops = tuple(Op(f"make {k}", inputs=tuple(v), outputs=(k,)) for k, v in reads.items())
    graph, pools = Graph("pairs", tensors, ops), [Pool("fast", 32), Pool("slow")]
    given = cpplan.solve(graph, pools=pools, spill=True, time_limit=20)
    searched = cpplan.solve(graph, pools=pools, spill=True, order="search", time_limit=20)
    assert given.moved_bytes is not None
    assert given.moved_bytes > 0
    assert (searched.status, searched.moved_bytes, searched.scope) == ("optimal", 0, "every order")
    cpplan.verify(graph, searched)


def test_searched_orders_mostly_move_the_fewest_bytes() -> None:
    found = []
    for seed in range(700, 720):
        case = random_spill_case(seed, uniform=True)
        least = case.least(any_order=True)
        if least is not None:
            found.append(case.solve("search").moved_bytes == least)
    assert sum(found) >= 0.95 * len(found)


def test_prices_of_room_that_prove_nothing_are_refused() -> None:
    """A negative price would count room that nobody takes as bytes moved."""
    graph, pools = kept_meanwhile(), [Pool("fast", 16), Pool("slow")]
    plan = cpplan.solve(graph, pools=pools, spill=True, time_limit=20)
    assert isinstance(plan.moved_certificate, RoomPrices)
    for wrong, said in (
        (RoomPrices(0, (("f", -100),)), "price at op 'f' is -100"),
        (RoomPrices(1 << 40, ()), "places of the certificate must be from 0 to 64"),
    ):
        with pytest.raises(VerificationError, match=said):
            cpplan.verify(graph, replace(plan, moved_certificate=wrong))


def test_bound_of_every_order_is_proved_at_the_op_that_the_plan_names() -> None:
    tensors = tuple(Tensor(name, 8) for name in "abcz")
    ops = (
        Op("f", outputs=("a",)),
        Op("g", inputs=("a",), outputs=("b",)),
        Op("h", inputs=("b",), outputs=("c",)),
        Op("k", inputs=("a", "c")),
        Op("i", inputs=("b",), outputs=("z",)),
    )
    graph, pools = Graph("forced", tensors, ops), [Pool("fast", 16), Pool("slow")]
    plan = cpplan.solve(graph, pools=pools, spill=True, order="search", time_limit=20)
    # While h runs, b and c leave no room for a, which k reads after it.
    assert (plan.status, plan.moved_bytes_bound, plan.scope) == ("optimal", 16, "every order")
    assert plan.moved_certificate == ForcedMoves((ForcedAt("h"),))
    assert check_plan(graph, plan).moved_bound == "certificate"
    assert plan_from_dict(plan_to_dict(plan)) == plan
    for wrong, said in (
        (ForcedMoves((ForcedAt("i"),)), "proves a lower bound of 0 B, but the plan claims 16"),
        (ForcedMoves((ForcedAt("?"),)), r"unknown op '\?'"),
        (None, "has no certificate of it"),
    ):
        with pytest.raises(VerificationError, match=said):
            cpplan.verify(graph, replace(plan, moved_certificate=wrong))
    wrong_op = {"kind": "forced moves", "at": [{"kind": "forced at", "op": 3}]}
    values = {**plan_to_dict(plan), "moved_certificate": wrong_op}
    with pytest.raises(InputError, match="moved_certificate: at: op must be a string, not 3"):
        plan_from_dict(values)


def test_the_bound_of_every_order_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It follows the search at the given order, which cannot do without it if it is alone."""
    calls = []

    def bound(*given: object, **options: object) -> MovedBound:
        calls.append(given)
        return bound_of_every_order(*given, **options)

    monkeypatch.setattr(one_order, "bound_of_every_order", bound)
    program = to_anf(GRAPHS["local"](200))
    pools = Pool("fast", 1 << 12), Pool("slow", direct=True)
    for order in False, True:
        calls.clear()
        budget = make_budget(0.03, deterministic=True)
        with using(Tuning({SpillingTuning: SpillingTuning(cp_sat_gaps=0)})):
            assert solve.spill(program, Residency(), pools, budget, order=order).choice
        assert len(calls) == 1


@pytest.mark.parametrize("enough", [False, True])
def test_no_solver_is_loaded_with_little_time_left(
    monkeypatch: pytest.MonkeyPatch, enough: bool
) -> None:
    made = []

    def make(*given: object) -> None:
        made.append(given)

    monkeypatch.setattr(one_order, "make_model", make)
    monkeypatch.setattr(one_order, "search_gaps", lambda *given, **options: None)
    monkeypatch.setattr(SpillSearch, "_repacking", lambda *given: None)
    for name in "_place_by_address", "_with_margin", "_by_insertion", "_place":
        monkeypatch.setattr(SpillSearch, name, lambda *given, **options: False)
    pools = Pool("fast", 1 << 12), Pool("slow", direct=True)
    search = SpillSearch(to_anf(GRAPHS["local"](60)), Residency(), pools)
    monkeypatch.setattr(cp_sat_gaps, "_SOLVER_SECONDS", 1.0 if enough else 1e9)
    search._search(make_budget(1000))
    assert bool(made) == enough


def test_solvers_begin_later_the_more_full_steps_gaps_cross(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three tensors live for ten steps each; two fit, and the steps 2 to 9 have all three."""
    names, ops = ("a", "b", "c"), [Op(f"op{step}") for step in range(12)]
    for k, name in enumerate(names):
        ops[k] = Op(f"op{k}", outputs=(name,))
        ops[k + 9] = Op(f"op{k + 9}", inputs=(name,))
    program = to_anf(Graph("g", tuple(Tensor(name, 8) for name in names), tuple(ops)))
    problem = spill_problem(program, Residency(), (Pool("fast", 16), Pool("slow")))
    monkeypatch.setattr(cp_sat_gaps, "_SOLVER_SECONDS_A_PAIR", 1.0)
    # A gap lies between two accesses: steps 1 to 8 of a, 2 to 9 of b, 3 to 10 of c.
    assert cp_sat_gaps.seconds_to_begin(problem) == cp_sat_gaps._SOLVER_SECONDS + 7 + 8 + 7
    roomy = spill_problem(program, Residency(), (Pool("fast", 24), Pool("slow")))
    assert cp_sat_gaps.seconds_to_begin(roomy) == cp_sat_gaps._SOLVER_SECONDS


def test_orders_come_with_the_fewest_bytes_of_quick_choices_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph, pools = GRAPHS["anywhere"](120), (Pool("fast", 1 << 12), Pool("slow"))
    tried = []

    def run(search: SpillSearch, budget: Budget) -> None:
        kept = heuristics.get("belady")(search.problem, Deadline(10))
        assert kept is not None
        paid = int(search.problem.paid(kept).sum())
        priced = search.priced(Deadline(10)).paid
        tried.append((search.program.order, min(paid, priced)))

    monkeypatch.setattr(solve, "_run", run)
    cpplan.solve(graph, pools=pools, spill=True, order="search", time_limit=5, deterministic=True)
    least, *others, again = tried
    # The last search is that at the given order alone.
    assert again in others
    assert len({order for order, _ in (least, *others)}) == len(others) + 1 >= 5
    assert [paid for _, paid in others] == sorted(paid for _, paid in others)
    assert least[1] <= others[0][1]


@pytest.mark.parametrize("fewer", [False, True])
def test_the_given_order_has_all_time_unless_another_may_move_fewer_bytes(
    monkeypatch: pytest.MonkeyPatch, fewer: bool
) -> None:
    graph, pools = GRAPHS["anywhere"](120), (Pool("fast", 1 << 12), Pool("slow"))
    program = to_anf(graph)
    searched = []

    def run(search: SpillSearch, budget: Budget) -> None:
        searched.append((search.program.order == program.order, budget.deadline.remaining()))

    def estimated(search: SpillSearch, deadline: Deadline) -> float:
        return 90.0 if fewer and search.program.order != program.order else 100.0

    monkeypatch.setattr(solve, "_run", run)
    monkeypatch.setattr(solve, "_estimated", estimated)
    budget = make_budget(4, deterministic=True)
    solve.spill(program, Residency(), pools, budget, order=True)
    at_given, seconds = searched[0]
    assert at_given is not fewer
    assert seconds == pytest.approx(2.2 if fewer else 4.0, rel=0.1)


@pytest.mark.parametrize(
    "stage",
    ["cpplan.ordering.solve.search_order", "cpplan.spilling.search.one_order.bound_of_every_order"],
)
def test_ctrl_c_between_searches_keeps_the_plan(
    monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    """The first Ctrl-C ends the time, wherever the run is, and raises nothing."""
    module, name = stage.rsplit(".", 1)
    usual, reached = getattr(import_module(module), name), []

    def interrupted(*given: object, **options: object) -> object:
        if not reached:
            reached.append(name)
            signal.raise_signal(signal.SIGINT)
        return usual(*given, **options)

    monkeypatch.setattr(stage, interrupted)
    graph, pools = GRAPHS["anywhere"](120), (Pool("fast", 1 << 12), Pool("slow"))
    plan = cpplan.solve(graph, pools=pools, spill=True, order="search", deterministic=True)
    assert reached
    assert plan.moved_bytes is not None


@pytest.mark.parametrize("many", [False, True])
def test_orders_of_many_ops_are_ranked_after_the_given_one(
    monkeypatch: pytest.MonkeyPatch, many: bool
) -> None:
    program = to_anf(GRAPHS["anywhere"](120))
    done = []

    def estimated(search: SpillSearch, deadline: Deadline) -> float:
        done.append("rank")
        return 1.0

    monkeypatch.setattr(solve, "_run", lambda search, budget: done.append("run"))
    monkeypatch.setattr(solve, "_estimated", estimated)
    tuning = Tuning({PackingTuning: PackingTuning(many_buffers=1 if many else 10_000)})
    budget = make_budget(4, deterministic=True)
    with using(tuning):
        solve.spill(program, Residency(), (Pool("fast", 1 << 12), Pool("slow")), budget, order=True)
    assert done[0] == ("run" if many else "rank")


def test_rules_that_differ_most_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def get(name: str) -> Eviction:
        tried.append(name)
        if len(tried) > 2:
            raise TimeUpError
        return rule(name)

    rule = heuristics.get
    pools = Pool("fast", 1 << 12), Pool("slow", direct=True)
    search = SpillSearch(to_anf(GRAPHS["local"](60)), Residency(), pools)
    monkeypatch.setattr(heuristics, "get", get)
    found = [choice.found_by for choice in search._by_rules(search.problem, make_budget(10))]
    assert tried[:2] == ["belady", "whole tensors"]
    assert found == ["belady", "whole tensors", "everything dropped"]


def test_rules_are_placed_though_loops_are_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = []

    def wait(group: object, deadline: Deadline) -> bool:
        """A wait in vain for the loops, until the deadline."""
        waited.append(deadline.remaining())
        deadline.spend(deadline.remaining())
        return False

    for module in (one_order, addresses, repacking):
        monkeypatch.setattr(module, "prepare", wait)
    graph, pools = GRAPHS["local"](60), (Pool("fast", 1 << 10), Pool("slow", direct=True))
    options = {"time_limit": 10, "deterministic": True, "tuning": {"spilling": {"cp_sat_gaps": 0}}}
    plan = cpplan.solve(graph, pools=pools, spill=True, **options)
    problem = spill_problem(to_anf(graph), Residency(), pools)
    kept = heuristics.get("belady")(problem, Deadline(10))
    assert kept is not None
    assert 0 < plan.moved_bytes <= problem.paid(kept).sum()
    assert waited
    assert sum(waited) < 5
