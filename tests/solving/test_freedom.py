"""More freedom never costs bytes: sharing, searched orders and both, on graphs of every kind.

Each mode has time enough to end or to come close. With far less, sharing, orders and both divide
the same work among more to try, and a part of a percent may be lost.
"""

from __future__ import annotations

import random

import pytest

from cpplan import Graph, Program, simulate, solve, verify
from cpplan.model.residency import Residency
from cpplan.ordering import heuristics as orders
from cpplan.ordering.problem import order_problem
from cpplan.runtime.deadline import Deadline
from tests.benchmarks.time_limits import GRAPHS, layers

FREEDOM = {
    "given": {},
    "in place": {"in_place": True},
    "searched": {"order": "search"},
    "both": {"order": "search", "in_place": True},
}


def scattered(count: int, seed: int) -> Graph:
    """Ops that each read two results from anywhere before."""
    chance = random.Random(seed)
    return layers(count, lambda k: [chance.randrange(k) for _ in range(2 * (k > 0))], seed=seed)


def check_freedom(graph: Graph, time_limit: float) -> None:
    """Plan a graph in every mode by counted work: each plan holds, and more freedom is no worse."""
    peaks = {}
    for mode, options in FREEDOM.items():
        plan = solve(graph, time_limit=time_limit, deterministic=True, **options)
        verify(graph, plan)
        simulate(graph, plan)
        assert plan.lower_bound <= plan.peak
        assert plan.status == "feasible" or plan.lower_bound == plan.peak
        peaks[mode] = plan.peak
    for less, more in (
        *(("given", "in place"), ("given", "searched")),
        *(("in place", "both"), ("searched", "both")),
    ):
        assert peaks[more] <= peaks[less], (less, more, peaks)


@pytest.mark.parametrize("name", GRAPHS)
def test_more_freedom_never_costs_bytes(name):
    check_freedom(GRAPHS[name](18), 0.02)


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPHS)
def test_more_freedom_never_costs_bytes_of_larger_graphs(name):
    check_freedom(GRAPHS[name](45), 2)


@pytest.mark.parametrize(("count", "seed"), [(90, 4), (60, 15), (90, 17)])
def test_permission_to_share_never_costs_what_exact_search_gains(count, seed):
    graph = scattered(count, seed)
    problem = order_problem(graph, Residency())
    order = orders.get("list_schedule")(problem, Deadline(1, deterministic=True))
    program = Program(graph, tuple(int(op) for op in order))
    plain, shared = (
        solve(program, time_limit=0.2, deterministic=True, in_place=in_place)
        for in_place in (False, True)
    )
    assert "search" in plain.found_by
    assert shared.peak <= plain.peak


def test_order_is_packed_also_if_the_search_for_it_took_all_time():
    graph = scattered(50, 22)
    plain, shared = (
        solve(graph, order="search", time_limit=0.1, deterministic=True, in_place=in_place)
        for in_place in (False, True)
    )
    assert shared.peak <= plain.peak


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "seed", "time_limit"), [(90, 2, 4), (60, 6, 1), (60, 6, 4), (60, 8, 1), (90, 8, 4)]
)
def test_orders_that_need_no_sharing_are_found_with_it(count, seed, time_limit):
    graph = GRAPHS["anywhere"](count) if seed == 2 else scattered(count, seed)
    check_freedom(graph, time_limit)
