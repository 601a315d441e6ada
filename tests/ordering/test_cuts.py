"""Minimum cuts: each op's least bytes over all orders, from brute force and by hand."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cases import examples
from support.orders_oracle import layered
from support.published import DATASETS
from support.random_orders import (
    brute_force_order_peak,
    every_order,
    live_bytes,
    random_order_problem,
    random_topological,
)

from cpplan.io.graph_json import read_graph
from cpplan.model.order_problem import OrderProblem
from cpplan.ordering.bounds import order_bounds, topological_order
from cpplan.ordering.cuts import CutNetwork, OrderCuts
from cpplan.ordering.heuristics.reversal import reverse_time
from cpplan.ordering.problem import order_problem
from cpplan.ordering.solve import search_order
from cpplan.program.anf import to_anf
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline


class CountedLinks(tuple):
    """Links of an op that count how often they are gone through."""

    times = 0

    def __iter__(self):
        self.times += 1
        return super().__iter__()


def start_cuts(problem: OrderProblem, order=None) -> OrderCuts:
    order = topological_order(problem) if order is None else order
    return OrderCuts(problem, order_bounds(problem).forced, order)


def every_minimum(problem: OrderProblem) -> list[int]:
    """The minimum cut of every op, without the savings that ``run`` makes."""
    cuts = start_cuts(problem)
    return [cuts.least(op)[0] for op in range(len(problem))]


def least_over_all_orders(problem: OrderProblem) -> list[int]:
    """For each op, the fewest bytes while it runs; what only the first op holds is not counted."""
    least = [10**9] * len(problem)
    for order in every_order(problem):
        for step, (op, live) in enumerate(zip(order, live_bytes(problem, order), strict=True)):
            least[op] = min(least[op], live - (problem.entry if step == 0 else 0))
    return least


def loosened(rng: random.Random, problem: OrderProblem) -> OrderProblem:
    """Some precedences dropped, so that any of several ops may be the first at a storage."""
    return replace(
        problem,
        predecessors=tuple(
            tuple(p for p in before if rng.random() < 0.5) for before in problem.predecessors
        ),
    )


@pytest.mark.parametrize("loosen", [False, True])
@pytest.mark.parametrize("block", range(4))
def test_the_minimum_of_every_op_is_that_of_all_orders(block, loosen):
    """400 problems, with storages present or kept, extras, entries, several first accesses."""
    for seed in range(50 * block, 50 * block + 50):
        rng = random.Random(seed)
        problem = random_order_problem(rng, rng.randint(1, 6))
        if loosen:
            problem = loosened(rng, problem)
        assert every_minimum(problem) == least_over_all_orders(problem), seed


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 6), st.booleans())
def test_bounds_are_between_what_is_forced_and_the_best_order(seed, ops, loosen):
    rng = random.Random(seed)
    problem = random_order_problem(rng, ops)
    if loosen:
        problem = loosened(rng, problem)
    order = random_topological(rng, problem)
    cuts = start_cuts(problem, order)
    cuts.run(Deadline(60))
    forced = order_bounds(problem).forced
    assert (cuts.bounds >= forced).all()
    assert cuts.bound <= brute_force_order_peak(problem) or not ops
    assert problem.is_order(cuts.order.tolist())
    assert cuts.peak == problem.peak(cuts.order) <= problem.peak(order)
    # Ops that were not cut cannot raise the bound.
    assert cuts.bound == max([0, *every_minimum(problem)])


def test_what_has_run_at_the_minimum_can_run_first():
    """The cut is a certificate: after its ops, the op runs with exactly the least live bytes."""
    problem = layered(1, layers=8, width=6)
    order = np.array(topological_order(problem))
    cuts = start_cuts(problem)
    for op in range(len(problem)):
        least, done = cuts.least(op)
        before, after = order[done[order]], order[~done[order]]
        first = np.concatenate([before, [op], after[after != op]])
        assert problem.is_order(first.tolist())
        assert problem.pressure(first)[len(before)] == least


def butterfly(extra: tuple[int, ...] = (0, 0, 0, 0), **changes) -> OrderProblem:
    """``a`` reads 2 bytes and writes 3 beside ``u``, both between ``start`` and ``end``."""
    start, a, u, end = range(4)
    columns = {
        "predecessors": ((), (start,), (start,), (a, u)),
        "extra": np.array(extra),
        "size": np.array([2, 3]),
        "accessed_by": ((start, a), (a, end)),
        "present": np.zeros(2, bool),
        "kept": np.zeros(2, bool),
    }
    return OrderProblem(**(columns | changes))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        # While u (8 B) runs, a has run and its 3 B are live, or it has not, and the 2 B it reads.
        ({}, [2, 5, 10, 3]),
        # 4 B that a reads: after a.
        ({"size": np.array([4, 3])}, [4, 7, 11, 3]),
        # The 2 B are kept: they are live beside u either way; before a, without the 3 B.
        ({"kept": np.array([True, False])}, [2, 5, 10, 5]),
        # The 3 B are present: nothing to write them makes them live later.
        ({"present": np.array([False, True])}, [5, 5, 11, 3]),
        # u reads the 2 B as well, so that they are live in any case; before a, without the 3 B.
        ({"accessed_by": ((0, 1, 2), (1, 3))}, [2, 5, 10, 3]),
        # 5 B live throughout, accessed by nobody.
        ({"base": 5}, [7, 10, 15, 8]),
        # What is live during the first op only is not counted.
        ({"entry": 100}, [2, 5, 10, 3]),
    ],
)
def test_minimum_cuts_equal_the_least_over_all_orders(changes, expected):
    problem = butterfly((0, 0, 8, 0), **changes)
    assert every_minimum(problem) == expected == least_over_all_orders(problem)


def test_a_storage_written_in_parts_begins_with_whichever_part_is_first():
    """Two ops write halves of 10 B, ``u`` (1 B) comes before ``end``: it can run before both."""
    first, second, u, end = range(4)
    problem = OrderProblem(
        predecessors=((), (), (), (first, second, u)),
        extra=np.array([0, 0, 1, 0]),
        size=np.array([10]),
        accessed_by=((first, second, end),),
        present=np.zeros(1, bool),
        kept=np.zeros(1, bool),
    )
    assert every_minimum(problem) == [10, 10, 1, 10]
    # If u waits for the second half, the 10 B are live.
    late = replace(problem, predecessors=((), (), (second,), (first, second, u)))
    assert every_minimum(late) == [10, 10, 11, 10]


def test_the_same_minima_backwards():
    for seed in range(30):
        problem = replace(layered(seed, layers=5, width=4), entry=0)
        assert every_minimum(reverse_time(problem)) == every_minimum(problem)


def test_another_storage_never_lowers_a_minimum():
    for seed in range(30):
        rng = random.Random(seed)
        problem = random_order_problem(rng, 8)
        users = tuple(sorted(rng.sample(range(8), 3)))
        more = replace(
            problem,
            size=np.append(problem.size, 4),
            accessed_by=(*problem.accessed_by, users),
            present=np.append(problem.present, False),
            kept=np.append(problem.kept, False),
        )
        pairs = zip(every_minimum(problem), every_minimum(more), strict=True)
        assert all(before <= after <= before + 4 for before, after in pairs)


def test_each_op_is_cut_once_at_most():
    """At most one cut an op, and fewer than 120 cuts in all for 240 ops."""
    problem = layered(2, layers=24, width=10)
    cuts, asked = start_cuts(problem), []
    least = cuts.least

    def count(op: int):
        asked.append(op)
        return least(op)

    cuts.least = count  # type: ignore[method-assign]
    cuts.run(Deadline(60))
    assert len(set(asked)) == len(asked) < 120
    assert cuts.bound > order_bounds(problem).bound
    assert cuts.bound == max(every_minimum(problem))


def test_it_stops_and_goes_on():
    problem = layered(2, layers=24, width=10)
    whole, parts = start_cuts(problem), start_cuts(problem)
    whole.run(Deadline(60))
    stopped = Deadline(60)
    stopped.cancel()
    parts.run(stopped)
    assert parts.bounds.tolist() == order_bounds(problem).forced.tolist()
    # Time by work: less than one cut takes, so that each run makes one.
    turns = 0
    while parts.bound < whole.bound:
        parts.run(Deadline(1e-9, deterministic=True))
        turns += 1
    assert turns > 1
    parts.run(Deadline(60))
    assert parts.bounds.tolist() == whole.bounds.tolist()
    assert (parts.peak, parts.order.tolist()) == (whole.peak, whole.order.tolist())


def test_bytes_by_the_exabyte():
    problem = layered(0, layers=12, width=8)
    huge = replace(problem, size=problem.size << 49)
    assert every_minimum(huge) == [least << 49 for least in every_minimum(problem)]


def test_no_ops_and_no_storages():
    none = np.zeros(0, np.int64)
    flags = np.zeros(0, bool)
    nothing = OrderProblem((), none, none, (), flags, flags)
    cuts = start_cuts(nothing)
    cuts.run(Deadline(60))
    assert (cuts.bounds.tolist(), cuts.bound, cuts.peak) == ([], 0, 0)
    bare = OrderProblem(((), (0,)), np.array([3, 4]), none, (), flags, flags, base=1)
    assert every_minimum(bare) == [4, 5]


def test_the_search_proves_by_minimum_cuts():
    """8 B are forced; the given order has 11 B, the best 10 B, as the cut says."""
    problem = butterfly((0, 0, 8, 0))
    assert (problem.peak(range(4)), order_bounds(problem).bound) == (11, 8)
    outcome = search_order(problem, np.arange(4), Budget(Deadline(60)))
    assert (outcome.peak, outcome.bound, outcome.bound_by) == (10, 10, "minimum cut")


def test_500_layered_ops_need_far_more_than_their_forced_live_bytes():
    """Forced live bytes prove 203,330 B, minimum cuts 254,950 B; 256,880 B are reached."""
    graph = read_graph(DATASETS / "ordering/layered_500.json")
    problem, order = order_problem(graph), np.array(to_anf(graph).order)
    cuts = start_cuts(problem, order)
    cuts.run(Deadline(60))
    assert order_bounds(problem).bound == 203_330
    assert cuts.bound == 254_950
    assert cuts.peak < problem.peak(order)


def test_a_cut_for_which_there_may_be_no_time_is_not_begun(monkeypatch):
    """A cut cannot be stopped; in work, which the clock does not count, it is begun."""
    problem = OrderProblem(
        predecessors=((), (0,), (0,), (1, 2)), extra=np.array([0, 0, 8, 0]),
        size=np.array([2, 3]), accessed_by=((0, 1), (1, 3)),
        present=np.zeros(2, bool), kept=np.zeros(2, bool),
    )  # fmt: skip
    parts = start_cuts(problem, [0, 1, 2, 3])
    monkeypatch.setattr("cpplan.ordering.cuts._MOST_SECONDS_PER_ARC", 1e6)
    monkeypatch.setattr(OrderCuts, "least", None)
    parts.run(Deadline(5))
    assert not parts._settled.any()
    with pytest.raises(TypeError):
        parts.run(Deadline(5, deterministic=True))


def test_a_network_goes_through_the_predecessors_of_an_op_few_times():
    """An op that reads hundreds of results is not compared with each of them one by one."""
    count = 300
    before = CountedLinks(range(count))
    problem = OrderProblem(
        predecessors=(*((),) * count, before), extra=np.zeros(count + 1, np.int64),
        size=np.ones(count, np.int64), accessed_by=tuple((op, count) for op in range(count)),
        present=np.zeros(count, bool), kept=np.zeros(count, bool),
    )  # fmt: skip
    assert CutNetwork(problem).minimum(count)[0] == count
    assert before.times < 10
