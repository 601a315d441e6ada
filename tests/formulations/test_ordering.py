"""The ordering model alone: by hand, against brute force, published cases, and its hint."""

from __future__ import annotations

import random

import numpy as np
import pytest
from ortools.sat.python import cp_model
from support.cases import seeds
from support.published import DATASETS, olla_graph, published
from support.random_orders import random_order_problem, random_topological
from support.solvers import new_solver

from cpplan.io.graph_json import read_graph
from cpplan.model.order_problem import OrderProblem
from cpplan.ordering.bounds import order_bounds
from cpplan.ordering.problem import order_problem
from cpplan.ordering.search.downset_search import search_downsets
from cpplan.runtime.deadline import Deadline
from formulations.ordering import build


def minimise(problem: OrderProblem, upper: int | None = None, lower: int = 0) -> int:
    """The proved optimum; without a limit given, one that nothing exceeds."""
    everything = int(problem.size.sum() + problem.extra.sum()) + problem.base + problem.entry
    ordering = build(problem, upper=everything if upper is None else upper, lower=lower)
    solver = new_solver(linear=False)
    assert solver.solve(ordering.model) == cp_model.OPTIMAL
    order = ordering.extract(solver)
    assert problem.is_order(order)
    peak = problem.peak(order)
    assert ordering.proved_bound(solver) == peak
    return peak


def chains(*sizes: tuple[int, ...], extra: int = 0, **more: int) -> OrderProblem:
    """Chains of ops side by side; each op makes a tensor of the size given for the next one."""
    predecessors: list[tuple[int, ...]] = []
    accessed_by, size, kept = [], [], []
    for chain in sizes:
        for k, amount in enumerate(chain):
            op = len(predecessors)
            predecessors.append((op - 1,) if k else ())
            size.append(amount)
            last = k + 1 == len(chain)
            accessed_by.append((op,) if last else (op, op + 1))
            kept.append(last)
    return OrderProblem(
        tuple(predecessors),
        np.full(len(predecessors), extra, np.int64),
        np.array(size, np.int64),
        tuple(accessed_by),
        np.zeros(len(size), bool),
        np.array(kept),
        **more,
    )


def test_one_chain_has_one_order():
    """Pressures 4, 4 + 8, 8 + 2."""
    assert minimise(chains((4, 8, 2))) == 12


def test_chains_one_after_another():
    """Either chain reaches 10; after the first, 1 is left. In turns it would be 18."""
    assert minimise(chains((9, 1), (9, 1))) == 11


def test_the_chain_that_leaves_less_runs_first():
    """First 9 -> 1, then 1 + (8 + 5); the other way round it would be 5 + 10 = 15."""
    assert minimise(chains((9, 1), (8, 5))) == 14


def test_what_an_op_needs_for_itself_counts_in_its_step_alone():
    """As above, 7 more while any op runs."""
    assert minimise(chains((9, 1), (8, 5), extra=7)) == 21


def test_what_the_caller_brings_for_nobody_meets_the_first_op():
    """20 with the first op: the smaller of 8 and 9 comes first, and the rest stays below 28."""
    assert minimise(chains((9, 1), (8, 5), entry=20)) == 28


def test_what_is_always_live_is_added():
    assert minimise(chains((9, 1), (8, 5), base=100)) == 114


def test_inputs_are_live_from_the_start_and_outputs_to_the_end():
    """Inputs 6 and 3 turn into outputs 1 and 4: 9 + 1, then 3 + 1 + 4; else 9 + 4 first."""
    problem = OrderProblem(
        predecessors=((), ()),
        extra=np.zeros(2, np.int64),
        size=np.array([6, 3, 1, 4]),
        accessed_by=((0,), (1,), (0,), (1,)),
        present=np.array([True, True, False, False]),
        kept=np.array([False, False, True, True]),
    )
    assert minimise(problem) == 10


def test_an_edge_without_bytes_is_kept():
    """As before, but the op that had better be first has to wait."""
    problem = OrderProblem(
        predecessors=((1,), ()),
        extra=np.zeros(2, np.int64),
        size=np.array([6, 3, 1, 4]),
        accessed_by=((0,), (1,), (0,), (1,)),
        present=np.array([True, True, False, False]),
        kept=np.array([False, False, True, True]),
    )
    assert minimise(problem) == 13


def test_a_storage_with_several_first_and_last_accessors():
    """b and c fill 8 bytes in either order, d and e read them; a and f are not concerned."""
    problem = OrderProblem(
        predecessors=((), (), (), (1, 2), (1, 2), ()),
        extra=np.array([5, 0, 0, 0, 0, 7]),
        size=np.array([8]),
        accessed_by=((1, 2, 3, 4),),
        present=np.zeros(1, bool),
        kept=np.zeros(1, bool),
    )
    assert minimise(problem) == 8


def test_below_the_optimum_is_infeasible():
    ordering = build(chains((4, 8, 2)), upper=11)
    assert new_solver(linear=False).solve(ordering.model) == cp_model.INFEASIBLE


def test_limits_that_cross_are_infeasible():
    ordering = build(chains((4, 8, 2)), upper=12, lower=14)
    assert new_solver(linear=False).solve(ordering.model) == cp_model.INFEASIBLE


def test_the_unit_is_the_greatest_common_divisor():
    ordering = build(chains((4096, 8192), extra=1024, base=5), upper=100_000)
    assert ordering.unit == 1024
    assert minimise(ordering.problem) == 5 + 4096 + 8192 + 1024


@pytest.mark.parametrize("seed", seeds(20))
def test_agrees_with_the_search_over_downsets(seed):
    rng = random.Random(500 + seed)
    problem = random_order_problem(rng, rng.randint(7, 12))
    start = random_topological(rng, problem)
    level = order_bounds(problem).bound
    found = search_downsets(problem, start, Deadline(60), level=level, states=100_000)
    assert found.complete
    assert minimise(problem, upper=problem.peak(start), lower=level) == found.peak


def test_olla_s_graphs_are_ordered_best():
    for case in published("olla")["ordering"]:
        problem = order_problem(olla_graph(case))
        assert minimise(problem) + case["resident"] == case["expected_optimal_peak"], case["name"]


@pytest.mark.slow
def test_100_layered_ops_are_proved():
    """Random layers: 34,270 B, also by the search over downsets."""
    problem = order_problem(read_graph(DATASETS / "ordering/layered_100.json"))
    given = problem.peak(range(len(problem)))
    assert minimise(problem, upper=given, lower=order_bounds(problem).bound) == 34_270
