"""A window's pressure is the whole order's pressure there, however the window is reordered."""

from __future__ import annotations

import random

import numpy as np
import pytest
from support.cases import seeds
from support.random_orders import random_order_problem, random_topological

from cpplan.model.errors import InputError
from cpplan.model.order_problem import OrderProblem
from cpplan.ordering.search.order_window import OrderWindows


def two_arms() -> OrderProblem:
    """a feeds b and c, and both feed d; a and d read the input x; the output y is kept."""
    return OrderProblem(
        predecessors=((), (0,), (0,), (1, 2)),
        extra=np.array([0, 16, 0, 0]),
        size=np.array([1, 2, 4, 8, 32]),
        accessed_by=((0, 3), (0, 1, 2), (1, 3), (2, 3), (3,)),
        present=np.array([True, False, False, False, False]),
        kept=np.array([False, False, False, False, True]),
        base=100,
        entry=64,
        names=("a", "b", "c", "d"),
    )


def test_window_of_two_arms_equals_the_one_made_by_hand():
    """x lies idle (base); a's result is there from the start; the arms' results stay."""
    window = OrderWindows(two_arms(), [0, 1, 2, 3]).window(1, 3)
    assert window.names == ("b", "c")
    assert (window.base, window.entry) == (101, 0)
    assert window.size.tolist() == [2, 4, 8]
    assert window.accessed_by == ((0, 1), (0,), (1,))
    assert window.present.tolist() == [True, False, False]
    assert window.kept.tolist() == [False, True, True]
    assert window.predecessors == ((), ())
    assert window.pressure([0, 1]).tolist() == [123, 115]
    assert window.pressure([1, 0]).tolist() == [111, 131]


def test_the_whole_order_is_a_window():
    problem, order = two_arms(), [0, 2, 1, 3]
    window = OrderWindows(problem, order).window(0, 4)
    assert window.names == ("a", "c", "b", "d")
    assert window.pressure(range(4)).tolist() == problem.pressure(order).tolist()


@pytest.mark.parametrize("seed", seeds(80))
def test_pressure_within_is_the_whole_order_s(seed):
    rng = random.Random(seed)
    problem = random_order_problem(rng, rng.randint(1, 12))
    order = random_topological(rng, problem)
    windows = OrderWindows(problem, order)
    for _ in range(5):
        begin = rng.randrange(len(order))
        end = rng.randint(begin + 1, len(order))
        window = windows.window(begin, end)
        inner = random_topological(rng, window)
        order[begin:end] = [order[begin + k] for k in inner]
        assert problem.is_order(order)
        whole = problem.pressure(order)
        assert window.pressure(inner).tolist() == whole[begin:end].tolist()
        windows.put_back(begin, end, inner)
        assert windows.order == order
        assert [windows.pressure(step) for step in range(len(order))] == whole.tolist()


@pytest.mark.parametrize("seed", range(40))
def test_a_window_has_the_precedences_between_its_ops(seed):
    rng = random.Random(1000 + seed)
    problem = random_order_problem(rng, 9)
    order = random_topological(rng, problem)
    window = OrderWindows(problem, order).window(2, 7)
    for _ in range(20):
        inner = rng.sample(range(5), 5)
        moved = order[:2] + [order[2 + k] for k in inner] + order[7:]
        assert window.is_order(inner) == problem.is_order(moved)


@pytest.mark.parametrize(("begin", "end"), [(-1, 2), (2, 2), (3, 5)])
def test_what_is_no_window_is_refused(begin, end):
    with pytest.raises(InputError, match="is no window of 4 ops"):
        OrderWindows(two_arms(), [0, 1, 2, 3]).window(begin, end)
