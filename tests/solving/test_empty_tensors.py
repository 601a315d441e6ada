"""An empty tensor occupies nothing, keeps nothing alive and shares nothing: plans and checks."""

from __future__ import annotations

import random

import pytest
from support.cases import seeds
from support.empty_tensors import false_optimum, with_empty, without_empty
from support.orders_oracle import least_pressure, random_graph
from support.random_orders import every_order
from support.remat_oracle import interesting_limits, least_cost, random_remat_problem
from support.sharing_oracle import least_peak, random_repeats, random_sharing_graph

import cpplan
from cpplan import Graph, Op, Plan, Program, Tensor, simulate, to_anf, verify
from cpplan.model.symbols import Symbols
from cpplan.ordering.problem import order_problem
from cpplan.program.binding import bind
from cpplan.remat.problem import remat_problem


def solved(source: Graph | Program, **options: object) -> Plan:
    plan = cpplan.solve(source, time_limit=20, **options)  # type: ignore[arg-type]
    verify(source, plan)
    simulate(source, plan)
    return plan


@pytest.mark.parametrize("options", [{}, {"order": "search"}, {"remat": True, "cost_limit": 2.0}])
def test_an_empty_output_keeps_nothing_alive(options):
    plan = solved(false_optimum(), in_place=True, **options)
    assert (plan.peak, plan.status) == (2, "optimal")
    assert sorted(plan.size.tolist()) == [0, 2, 2]


def test_an_empty_view_is_a_storage_of_its_own():
    graph = false_optimum()
    assert graph.empty == {"v0"}
    assert graph.root == {"t0": ("t0", 0), "v0": ("v0", 0), "t2": ("t2", 0)}
    assert [graph.is_storage(name) for name in ("t0", "v0")] == [True, True]


def test_a_tensor_that_has_bytes_at_other_sizes_is_not_empty():
    x = Tensor("x", 8, kind="input")
    view = Tensor("v", shape=("n",), dtype="int8", kind="output", view_of=("x", 0))
    ops = (Op("show", inputs=("x",), outputs=("v",)),)
    graph = Graph("g", (x, view), ops, Symbols({"n": (0, 8)}))
    assert bind(graph, {"n": 0}).root["v"] == ("x", 0)
    assert graph.at(n=0).root["v"] == ("v", 0)
    plan = cpplan.solve(graph)
    verify(graph, plan, dims={"n": 0})
    verify(graph, plan)


@pytest.mark.parametrize("seed", range(40))
def test_sharing_needs_no_more_with_empty_tensors(seed):
    graph = random_sharing_graph(seed, 1 + seed % 5)
    order = tuple(to_anf(graph).order)
    plan = solved(Program(with_empty(graph, seed), order), in_place=True)
    assert (plan.peak, plan.status) == (least_peak(graph, order), "optimal")


@pytest.mark.parametrize("seed", range(20))
def test_orders_and_sharing_need_no_more_with_empty_tensors(seed):
    graph = random_sharing_graph(seed, 1 + seed % 4)
    plan = solved(with_empty(graph, seed), order="search", in_place=True)
    least = min(least_peak(graph, order) for order in every_order(graph))
    assert (plan.peak, plan.status) == (least, "optimal")


@pytest.mark.parametrize("seed", seeds(30))
def test_orders_have_the_same_live_bytes_with_empty_tensors(seed):
    graph = random_graph(seed, 2 + seed % 6)
    more = with_empty(graph, seed)
    assert set(without_empty(more).tensors) == set(without_empty(graph).tensors)
    plain, same = order_problem(graph), order_problem(more)
    order = list(to_anf(graph).order)
    assert plain.pressure(order).tolist() == same.pressure(order).tolist()
    assert solved(more, order="search").lower_bound <= solved(more).peak
    assert least_pressure(without_empty(more)) == least_pressure(graph)


@pytest.mark.parametrize("seed", range(12))
def test_recomputation_costs_the_same_with_empty_tensors(seed):
    graph = with_empty(random_remat_problem(seed, 2 + seed % 4).graph, seed)
    plain = remat_problem(without_empty(graph))
    limits = interesting_limits(plain)
    for limit in (*limits[:3], limits[-1]):
        least = least_cost(plain, limit)
        plan = cpplan.solve(graph, remat=True, memory_limit=limit, time_limit=5)
        assert (plan.offset is None) == (least is None)
        if plan.offset is not None:
            verify(graph, plan)
            simulate(graph, plan)
            assert plan.cost_bound <= least <= plan.cost


@pytest.mark.parametrize("seed", range(20))
def test_ops_that_run_again_need_no_more_with_empty_tensors(seed):
    graph = random_sharing_graph(seed, 1 + seed % 6)
    order = random_repeats(graph, seed, most=4).order
    options = random.Random(seed).choice([{}, {"in_place": True}])
    plan, plain = (solved(Program(g, order), **options) for g in (with_empty(graph, seed), graph))
    assert (plan.peak, plan.lower_bound) == (plain.peak, plain.lower_bound)
