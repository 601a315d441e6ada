"""Bounds and exact search: right on all that brute force can check, honest where they give up."""

from __future__ import annotations

import random

import numpy as np
import pytest
from support.orders_oracle import layered, least_pressure, random_graph

from cpplan.ordering.bounds import order_bounds, topological_order
from cpplan.ordering.problem import order_problem
from cpplan.ordering.search.downset_search import search_downsets
from cpplan.runtime.deadline import Deadline


@pytest.mark.parametrize("block", range(6))
def test_agrees_with_brute_force_over_all_orders(block):
    """300 random DAGs of up to nine ops, with several outputs, views, workspaces, shared inputs."""
    for seed in range(50 * block, 50 * block + 50):
        graph = random_graph(seed, 1 + seed % 9)
        problem = order_problem(graph)
        bound = order_bounds(problem).bound
        start = topological_order(problem)
        found = search_downsets(problem, start, Deadline(60), level=bound, states=10_000)
        best = least_pressure(graph)
        assert bound <= best, seed
        assert (found.peak, found.level, found.complete) == (best, best, True), seed
        assert problem.is_order(found.order.tolist())
        assert problem.peak(found.order) == found.peak


def test_more_ops_than_a_word_has_bits():
    """130 ops, three words: a chain of 64 pairs, each pair in either order."""
    problem = layered(3, layers=65, width=2)
    start = topological_order(problem)
    bound = order_bounds(problem).bound
    found = search_downsets(problem, start, Deadline(60), level=bound, states=200_000)
    assert found.complete
    assert problem.is_order(found.order.tolist())
    assert bound <= found.level <= found.peak < problem.peak(start)


def test_spent_states_still_bound_from_below():
    problem = layered(0, layers=12, width=8)
    start = topological_order(problem)
    bound = order_bounds(problem).bound
    few = search_downsets(problem, start, Deadline(60), level=bound, states=300)
    many = search_downsets(problem, start, Deadline(60), level=bound, states=300_000)
    assert not few.complete
    assert few.peak == problem.peak(start)
    assert bound <= few.level <= many.level <= many.peak


def test_a_level_above_the_bound_finds_an_order_below_it_sooner():
    """A quarter of the states do not prove anything, but reach the target."""
    problem = layered(0, layers=12, width=8)
    start = topological_order(problem)
    target = int(0.9 * problem.peak(start))
    found = search_downsets(problem, start, Deadline(60), level=target, states=2_000)
    assert found.peak <= target


def test_a_spent_deadline_leaves_the_incumbent():
    problem = layered(0, layers=12, width=8)
    start = topological_order(problem)
    deadline = Deadline(60)
    deadline.cancel()
    found = search_downsets(problem, start, deadline, level=0, states=1_000)
    assert found.order.tolist() == start
    assert not found.complete


def test_forced_bytes_hold_for_every_order():
    for seed in range(50):
        graph = random_graph(seed, 8)
        problem = order_problem(graph)
        forced = order_bounds(problem).forced
        rng = random.Random(seed)
        for _ in range(5):
            left, order = set(range(8)), []
            while left:
                ready = [k for k in sorted(left) if not left & set(problem.predecessors[k])]
                order.append(rng.choice(ready))
                left.remove(order[-1])
            assert (forced[order] <= problem.pressure(order)).all()


def test_cuts_run_at_the_same_step_in_every_order():
    """A diamond between two single ops: the first and the last are cuts, the arms are not."""
    problem = layered(0, layers=1, width=1)
    assert order_bounds(problem).cuts == (0,)
    diamond = order_problem(random_graph(0, 1))
    assert order_bounds(diamond).cut_positions == (0,)
    for seed in range(30):
        problem = order_problem(random_graph(seed, 7))
        bounds = order_bounds(problem)
        step = np.empty(7, np.int64)
        step[topological_order(problem)] = np.arange(7)
        assert [int(step[cut]) for cut in bounds.cuts] == list(bounds.cut_positions)
