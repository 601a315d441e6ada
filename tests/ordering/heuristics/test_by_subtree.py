"""Liu's algorithm: exact on forests, and only there."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cases import examples
from support.random_orders import every_order

from cpplan.model.order_problem import OrderProblem
from cpplan.ordering.heuristics.by_subtree import tree_order
from cpplan.ordering.heuristics.reversal import reverse_time


def forest(rng: random.Random, count: int) -> OrderProblem:
    """Every op hands something to at most one later op; workspaces, inputs and outputs besides."""
    numbers = rng.sample(range(count), count)
    predecessors: list[list[int]] = [[] for _ in range(count)]
    storages = []
    for k in range(count):
        op = numbers[k]
        reader = numbers[rng.randrange(k + 1, count)] if k + 1 < count else op
        if reader != op and rng.random() < 0.85:
            predecessors[reader].append(op)
            storages += [tuple(sorted((op, reader)))] * rng.randint(0, 2)
        storages += [(op,)] * (rng.random() < 0.3)
    return OrderProblem(
        predecessors=tuple(tuple(sorted(before)) for before in predecessors),
        extra=np.array([rng.choice((0, 0, 2, 9)) for _ in range(count)], np.int64),
        size=np.array([rng.randint(1, 9) for _ in storages], np.int64),
        accessed_by=tuple(storages),
        present=np.array([rng.random() < 0.2 for _ in storages], bool),
        kept=np.array([rng.random() < 0.2 for _ in storages], bool),
    )


def smallest_peak(problem: OrderProblem) -> int:
    return min(map(problem.peak, every_order(problem)))


@given(seed=st.integers(0, 1 << 30), count=st.integers(0, 7), backward=st.booleans())
@settings(max_examples=examples(50))
def test_the_order_of_a_forest_is_optimal(seed: int, count: int, backward: bool) -> None:
    problem = forest(random.Random(seed), count)
    if backward:
        problem = reverse_time(problem)
    order = tree_order(problem)
    assert order is not None
    assert problem.is_order(order.tolist())
    assert problem.peak(order) == smallest_peak(problem)


def test_a_deep_subtree_is_left_and_come_back_to() -> None:
    # a (workspace 20 B) leaves 1 B, which b turns into 10 B; c (workspace 15 B) leaves 5 B, which d
    # turns into 1 B; e joins b and d. The best order enters one branch, does the other and comes
    # back: a 1 + 20, c 1 + 5 + 15, d 1 + 5 + 1, b 1 + 1 + 10 B. One branch after the other needs
    # 10 + 5 + 15 B at c, or 1 + 1 + 20 B at a.
    a, b, c, d, e = range(5)
    problem = OrderProblem(
        predecessors=((), (a,), (), (c,), (b, d)),
        extra=np.array([20, 0, 15, 0, 0], np.int64),
        size=np.array([1, 10, 5, 1], np.int64),
        accessed_by=((a, b), (b, e), (c, d), (d, e)),
        present=np.zeros(4, bool),
        kept=np.zeros(4, bool),
    )
    order = tree_order(problem)
    assert order is not None
    assert problem.peak(order) == 21
    assert problem.peak([a, b, c, d, e]) == 30
    assert problem.peak([c, d, a, b, e]) == 22


def test_a_result_with_two_readers_is_no_forest() -> None:
    diamond = OrderProblem(
        predecessors=((), (0,), (0,), (1, 2)),
        extra=np.zeros(4, np.int64),
        size=np.array([1, 1, 1], np.int64),
        accessed_by=((0, 1, 2), (1, 3), (2, 3)),
        present=np.zeros(3, bool),
        kept=np.zeros(3, bool),
    )
    assert tree_order(diamond) is None


def test_a_storage_shared_by_two_trees_is_no_forest() -> None:
    shared = OrderProblem(
        predecessors=((), ()),
        extra=np.zeros(2, np.int64),
        size=np.array([1], np.int64),
        accessed_by=((0, 1),),
        present=np.array([True]),
        kept=np.array([False]),
    )
    assert tree_order(shared) is None
