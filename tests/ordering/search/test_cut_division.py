"""Dividing orders at minimum cuts: orders stay orders, and the good ones are found."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cases import examples
from support.orders_oracle import layered
from support.published import DATASETS
from support.random_orders import brute_force_order_peak, random_order_problem, random_topological

from cpplan.io.graph_json import read_graph
from cpplan.model.order_problem import OrderProblem
from cpplan.ordering.bounds import topological_order
from cpplan.ordering.problem import order_problem
from cpplan.ordering.search.cut_division import divide_by_cuts
from cpplan.program.anf import to_anf
from cpplan.runtime.deadline import Deadline


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 7))
def test_every_op_once_after_its_predecessors(seed, ops):
    rng = random.Random(seed)
    problem = random_order_problem(rng, ops)
    order = random_topological(rng, problem)
    for target in (0, problem.peak(order) // 2, problem.peak(order)):
        divided = divide_by_cuts(problem, order, target, Deadline(60))
        assert problem.is_order(divided.tolist())


def test_often_the_optimum_of_small_problems():
    """Division solves two in five of the small problems whose first order is not optimal."""
    solved = tried = 0
    for seed in range(200):
        rng = random.Random(seed)
        problem = random_order_problem(rng, rng.randint(3, 6))
        order = random_topological(rng, problem)
        best = brute_force_order_peak(problem)
        if problem.peak(order) > best:
            tried += 1
            solved += problem.peak(divide_by_cuts(problem, order, best, Deadline(60))) == best
    assert tried > 20
    assert solved > 0.4 * tried


def test_the_op_with_the_most_bytes_goes_first_to_its_minimum():
    """``u`` (8 B) beside the 3 B that ``a`` writes or the 2 B that it reads: before ``a``."""
    start, a, u, end = range(4)
    problem = OrderProblem(
        predecessors=((), (start,), (start,), (a, u)),
        extra=np.array([0, 0, 8, 0]),
        size=np.array([2, 3]),
        accessed_by=((start, a), (a, end)),
        present=np.zeros(2, bool),
        kept=np.zeros(2, bool),
    )
    divided = divide_by_cuts(problem, [start, a, u, end], 0, Deadline(60))
    assert divided.tolist() == [start, u, a, end]


def test_below_the_target_nothing_moves():
    problem = layered(2, layers=24, width=10)
    order = topological_order(problem)
    same = divide_by_cuts(problem, order, problem.peak(order), Deadline(60))
    assert same.tolist() == order
    assert divide_by_cuts(problem, order, problem.peak(order) - 1, Deadline(60)).tolist() != order


@pytest.mark.parametrize("seed", range(4))
def test_layered_graphs_gain(seed):
    """240 ops: by a tenth less than the order by layers has; twice the same."""
    problem = layered(seed, layers=24, width=10)
    order = topological_order(problem)
    divided = divide_by_cuts(problem, order, problem.peak(order) // 2, Deadline(60))
    again = divide_by_cuts(problem, order, problem.peak(order) // 2, Deadline(60))
    assert problem.is_order(divided.tolist())
    assert problem.peak(divided) < 0.9 * problem.peak(order)
    assert divided.tolist() == again.tolist()


def test_a_spent_deadline_leaves_an_order():
    problem = layered(2, layers=24, width=10)
    order = topological_order(problem)
    stopped = Deadline(60)
    stopped.cancel()
    assert divide_by_cuts(problem, order, 0, stopped).tolist() == order
    one_cut = divide_by_cuts(problem, order, 0, Deadline(1e-9, deterministic=True))
    assert problem.is_order(one_cut.tolist())
    assert one_cut.tolist() != order


def test_500_layered_ops_come_within_a_hundredth_of_their_minimum_cut():
    """From 314,860 B to 256,880 B; a minimum cut proves 254,950 B."""
    graph = read_graph(DATASETS / "ordering/layered_500.json")
    problem, order = order_problem(graph), np.array(to_anf(graph).order)
    assert problem.peak(order) == 314_860
    peaks = []
    for _ in range(4):
        order = divide_by_cuts(problem, order, 254_950, Deadline(60))
        peaks.append(problem.peak(order))
    assert 254_950 <= min(peaks) < 1.01 * 254_950
