"""Runs end with a proof, at their limit, or with the reason why they ended before."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from support.empty_tensors import with_empty
from support.oracles import brute_force_peak
from support.orders_oracle import random_graph
from support.random_orders import every_order
from support.remat_oracle import (
    cheapest_schedule,
    interesting_limits,
    least_cost,
    random_remat_problem,
)
from support.sharing_oracle import least_peak, random_sharing_graph

from cpplan import Graph, Op, Plan, Pool, Tensor, solve
from cpplan.model.residency import Residency
from cpplan.ordering import solve as ordering
from cpplan.ordering.loops import BEAM, DOWNSETS
from cpplan.ordering.problem import order_problem
from cpplan.ordering.tuning import OrderingTuning
from cpplan.program.anf import Program, to_anf
from cpplan.program.liveness import to_problem
from cpplan.remat import portfolio
from cpplan.remat.heuristics.checkpoints import given_order
from cpplan.remat.known_schedules import KnownSchedules
from cpplan.remat.problem import remat_problem
from cpplan.remat.search.short_schedules import short_schedules
from cpplan.runtime.budget import Budget
from cpplan.runtime.compiled import LoopGroup
from cpplan.runtime.deadline import Deadline, TimeUpError
from cpplan.solving import best_order
from cpplan.solving.open_gaps import ENDED_EARLY
from cpplan.solving.request import Request
from cpplan.solving.run import Run, make_run

# Deterministic seconds: what is searched for is the same on every machine.
LIMIT = 3.0


def aligned(graph: Graph, seed: int) -> Graph:
    """The graph with some alignment for all that may have one."""
    rng = random.Random(seed)
    tensors = tuple(
        t if t.view_of else replace(t, alignment=rng.choice((1, 1, 2, 4))) for t in graph.tensors
    )
    return replace(graph, tensors=tensors)


def check_end(plan: Plan, work: float) -> None:
    """Proved, with a reason, or with its work spent."""
    settled = plan.status in ("optimal", "infeasible")
    said = plan.message is not None and ENDED_EARLY in plan.message
    assert settled != said or work >= LIMIT, (plan.status, plan.message, work)
    assert said == any(ENDED_EARLY in event.source for event in plan.history)


@pytest.fixture
def solved(monkeypatch):
    """``solve`` by work, checked for how the run ended."""
    made: list[Deadline] = []

    class Watched(Deadline):
        def __init__(self, seconds: float, **options: object):
            super().__init__(seconds, **options)
            made.append(self)

    monkeypatch.setattr("cpplan.runtime.budget.Deadline", Watched)

    def call(source: Graph, **options: object) -> Plan:
        made.clear()
        plan = solve(source, time_limit=LIMIT, deterministic=True, **options)
        check_end(plan, LIMIT if made[0].expired() else 0.0)
        return plan

    return call


def idle_input(inputs: tuple[str, ...] = ()) -> Graph:
    """An input of 3 B that no op, or one, reads; outputs of 1 B and 8 B: 13 B with alignments."""
    return Graph(
        "idle",
        (
            Tensor("i", 3, kind="input", alignment=4),
            Tensor("a", 1, kind="output", alignment=4),
            Tensor("b", 8, kind="output"),
        ),
        (Op("f", outputs=("a",)), Op("g", inputs=inputs, outputs=("b",))),
    )


@pytest.mark.parametrize("inputs", [(), ("i",)])
def test_a_searched_order_with_an_input_that_nobody_reads_is_proved(solved, inputs):
    plan = solved(idle_input(inputs), order="search", inputs="keep")
    assert (plan.status, plan.peak, plan.lower_bound) == ("optimal", 13, 13)


@pytest.mark.parametrize("inputs", ["keep", "reuse"])
@pytest.mark.parametrize("seed", range(12))
def test_searched_orders_with_alignments_agree_with_brute_force(solved, seed, inputs):
    graph = aligned(random_graph(seed, 2 + seed % 3), seed)
    residency = Residency(inputs=inputs)
    buffers = to_problem(Program(graph, tuple(order_first(graph))), residency)
    plan = solved(graph, order="search", inputs=inputs)
    if len(buffers) <= 7 and plan.status == "optimal":
        peaks = (
            brute_force_peak(to_problem(Program(graph, order), residency))
            for order in every_order(order_problem(graph, residency))
        )
        assert plan.peak == min(peaks)


def order_first(graph: Graph) -> tuple[int, ...]:
    """Some order."""
    return next(every_order(order_problem(graph)))


@pytest.mark.parametrize("seed", [12, 24, 35, 47])
def test_searched_orders_in_place_with_idle_inputs_agree_with_brute_force(solved, seed):
    graph = random_sharing_graph(seed, 3)
    plan = solved(graph, order="search", in_place=True)
    if plan.status == "optimal":
        orders = every_order(order_problem(graph))
        assert plan.peak == min(least_peak(graph, order) for order in orders)


@pytest.mark.parametrize("seed", [99, 106, 195, 247, 371, 694])
def test_small_searched_orders_in_place_are_proved(seed):
    graph = random_sharing_graph(seed, 4)
    for source in (graph, with_empty(graph, seed)):
        plan = solve(source, order="search", in_place=True, deterministic=True, time_limit=LIMIT)
        orders = every_order(order_problem(graph))
        assert plan.peak == min(least_peak(graph, order) for order in orders)
        assert plan.status == "optimal"


@pytest.mark.parametrize("seed", range(8))
def test_shared_pools_say_why_they_end(solved, seed):
    graph = random_sharing_graph(seed, 3)
    pools = [Pool("fast", capacity=6), Pool("slow")]
    solved(graph, pools=pools, in_place=True, order="search" if seed % 2 else "given")


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("most", [1.0, 1.5])
def test_cost_limits_say_why_they_end(solved, seed, most):
    graph = random_remat_problem(seed, 4).graph
    solved(graph, remat=True, cost_limit=most)


@pytest.mark.parametrize("seed", range(6))
def test_memory_limits_agree_with_the_least_cost(solved, seed):
    problem = random_remat_problem(seed, 4)
    *limits, too_small = interesting_limits(problem)
    assert cheapest_schedule(problem, too_small) is None
    assert solved(problem.graph, remat=True, memory_limit=too_small).offset is None
    for limit in limits[:3]:
        plan = solved(problem.graph, remat=True, memory_limit=limit)
        assert plan.status != "infeasible"
        if plan.cost is not None:
            assert plan.cost >= problem.total_cost(cheapest_schedule(problem, limit))


def test_short_schedules_are_those_within_the_limits():
    for seed in range(6):
        problem = random_remat_problem(seed, 4)
        limit = interesting_limits(problem)[-1] + 3
        found = list(short_schedules(problem, limit, 20, Deadline(60), again=2))
        assert len(found) == len(set(found))
        best = cheapest_schedule(problem, limit, copies=2)
        for schedule in found:
            assert problem.is_schedule(schedule)
            assert problem.peak(schedule) <= limit
            assert problem.total_cost(schedule) <= 20
        if best is not None and len(best) <= len(problem) + 2 and problem.total_cost(best) <= 20:
            least = min(problem.total_cost(schedule) for schedule in found)
            assert least <= problem.total_cost(best)


def test_short_schedules_keep_a_given_order():
    problem = remat_problem(random_graph(3, 4))
    order = tuple(range(len(problem)))
    found = short_schedules(problem, 1000, 6, Deadline(60), order=order, again=1)
    assert {tuple(dict.fromkeys(schedule)) for schedule in found} == {order}


def test_an_order_search_without_time_goes_on_after_packing(solved, monkeypatch):
    graph = random_graph(16, 9)
    expected = solve(graph, order="search", deterministic=True, time_limit=20)
    assert expected.status == "optimal"
    construct, calls = ordering._construct, []

    def interrupted(*args: object) -> object:
        calls.append(args)
        if len(calls) == 1:
            raise TimeUpError  # as where loops are still being compiled
        return construct(*args)

    monkeypatch.setattr(ordering, "_construct", interrupted)
    many_ops = {"solving": {"joint_ops": 0}}
    plan = solved(graph, order="search", tuning=many_ops)
    assert len(calls) > 1
    assert (plan.status, plan.peak) == ("optimal", expected.peak)


def test_an_order_found_when_time_is_up_is_packed_by_heuristics_alone(monkeypatch):
    graph, calls = random_graph(11, 12), []
    pack = Run.pack

    def counted(run: Run, source: Program, deadline: Deadline, *args: object, **kwargs: bool):
        calls.append((deadline.remaining() > 0, kwargs.get("quick", False)))
        return pack(run, source, deadline, *args, **kwargs)

    monkeypatch.setattr(Run, "pack", counted)
    expired = Deadline(1.0, deterministic=True)
    expired.spend(1.0)
    request = Request(order="search")
    run = make_run(to_anf(graph), request, Budget(expired))
    packed, _ = best_order.search_orders(run, to_anf(graph))
    assert packed.peak >= packed.bound.value
    assert calls
    assert all(quick and left for left, quick in calls)


def test_a_run_whose_searches_end_says_so(solved, monkeypatch, tune):
    tune(OrderingTuning, most_effort=0, few_ops=0)
    monkeypatch.setattr(ordering, "COMPILED", ())
    tuning = {"solving": {"joint_ops": 0, "joint_ops_in_the_end": 0}}
    plans = [solved(random_graph(seed, 9), order="search", tuning=tuning) for seed in range(6)]
    feasible = [plan for plan in plans if plan.status == "feasible"]
    assert feasible
    assert all(
        ENDED_EARLY in plan.message and best_order.ORDERS_ALONE in plan.message for plan in feasible
    )


def test_an_algorithm_alone_is_named_as_the_reason(solved):
    plans = [solved(random_graph(seed, 6), algorithm="bump") for seed in range(4)]
    assert any("'bump' alone" in (plan.message or "") for plan in plans)


def test_orders_are_proved_by_cp_sat_until_the_loops_are_compiled(solved, monkeypatch, tune):
    asked = []

    def prepare_all(groups: tuple[LoopGroup, ...], deadline: Deadline) -> bool:
        asked.extend(groups)
        return False

    monkeypatch.setattr(ordering, "prepare_all", prepare_all)
    tune(OrderingTuning, few_ops=0)
    plan = solved(random_graph(16, 9), order="search", tuning={"solving": {"joint_ops": 0}})
    assert {BEAM, DOWNSETS} <= set(asked)
    assert plan.status == "optimal"
    assert plan.bound_by == "CP-SAT order"


def test_starts_of_recomputation_are_not_cut_to_a_small_share(monkeypatch):
    shares = []

    def first_schedules(problem: object, limit: int, orders: object, slot: Deadline, **how: object):
        shares.append(slot.remaining() / deadline.remaining())
        raise TimeUpError  # what comes after is not asked

    monkeypatch.setattr(portfolio, "first_schedules", first_schedules)
    for seed in range(6):
        problem, deadline = random_remat_problem(seed, 6), Deadline(LIMIT, deterministic=True)
        search = portfolio.ScheduleSearch(KnownSchedules(problem, given_order(problem)))
        limits = interesting_limits(problem)
        least = min(limit for limit in limits if least_cost(problem, limit) is not None)
        search.within(least, Budget(deadline))
    assert shares
    assert min(shares) >= 0.75
