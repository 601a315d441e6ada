"""Orders by CP-SAT: proofs, windows, limits of time and work, interruption."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
from support.random_orders import brute_force_order_peak, random_order_problem, random_topological

from cpplan.model.order_problem import OrderProblem
from cpplan.ordering.search.cp_sat_ordering import improve_window, order_model
from cpplan.ordering.search.order_window import OrderWindows
from cpplan.ordering.solve import search_order
from cpplan.runtime.budget import Budget
from cpplan.runtime.cp_sat_proof import Proof, prove_peak
from cpplan.runtime.deadline import Deadline


def side_by_side(count: int) -> OrderProblem:
    """Chains 8 -> 1; one after another they take count + 8, in turns up to 8 count."""
    ops = range(2 * count)
    return OrderProblem(
        predecessors=tuple((op - count,) if op >= count else () for op in ops),
        extra=np.zeros(2 * count, np.int64),
        size=np.array([8 if op < count else 1 for op in ops]),
        accessed_by=tuple((op, op + count) if op < count else (op,) for op in ops),
        present=np.zeros(2 * count, bool),
        kept=np.array([op >= count for op in ops]),
    )


def hard() -> OrderProblem:
    """Sixty ops, hundreds of storages: seconds for the solver, at least."""
    rng = random.Random(7)
    size, accessed_by, before = [], [], [set() for _ in range(60)]
    for _ in range(240):
        users = sorted(rng.sample(range(60), 3))
        if users[0] + 20 < users[-1]:
            continue
        size.append(rng.randint(1, 1 << 20))
        accessed_by.append(tuple(users))
        for reader in users[1:]:
            before[reader].add(users[0])
    return OrderProblem(
        tuple(tuple(sorted(ops)) for ops in before),
        np.zeros(60, np.int64),
        np.array(size),
        tuple(accessed_by),
        np.zeros(len(size), bool),
        np.zeros(len(size), bool),
    )


def test_a_poor_order_becomes_the_best_one():
    """The last of five chains starts at 4 + 8 and ends at 4 + 9."""
    problem = side_by_side(5)
    proof = prove_peak(order_model(problem), np.arange(10), Budget(Deadline(60)))
    assert (problem.peak(range(10)), proof.peak, proof.bound) == (41, 13, 13)
    assert problem.is_order(proof.best)
    assert problem.peak(proof.best) == 13


@pytest.mark.parametrize("seed", range(40))
def test_agrees_with_brute_force(seed):
    rng = random.Random(seed)
    problem = random_order_problem(rng, rng.randint(1, 6))
    proof = prove_peak(
        order_model(problem),
        np.array(random_topological(rng, problem)),
        Budget(Deadline(60), seed=seed),
    )
    best = brute_force_order_peak(problem)
    assert (proof.peak, proof.bound, problem.peak(proof.best)) == (best, best, best)
    assert problem.is_order(proof.best)


def test_no_ops_need_no_model():
    """A model has at least one op."""
    nothing = random_order_problem(random.Random(0), 0)
    found = search_order(nothing, np.arange(0), Budget(Deadline(60)))
    assert found.bound == found.peak == nothing.peak([])


def test_a_bound_that_is_met_ends_it_at_once():
    proof = prove_peak(
        order_model(side_by_side(2)), np.array([0, 2, 1, 3]), Budget(Deadline(60)), bound=10
    )
    assert proof.best.tolist() == [0, 2, 1, 3]
    assert (proof.peak, proof.bound) == (10, 10)


def test_reports_improve_and_end_with_the_result():
    problem, reports = side_by_side(6), []
    proof = prove_peak(
        order_model(problem), np.arange(12), Budget(Deadline(60)), report=reports.append
    )
    assert reports[-1].peak == proof.peak
    assert reports[-1].bound == proof.bound
    for earlier, later in pairwise(reports):
        assert later.peak <= earlier.peak
        assert later.bound >= earlier.bound


def test_a_deadline_that_has_passed_leaves_the_order():
    deadline = Deadline(60)
    deadline.cancel()
    problem = side_by_side(5)
    assert prove_peak(order_model(problem), np.arange(10), Budget(deadline)).best.tolist() == list(
        range(10)
    )


def test_little_work_is_little_improvement_but_an_order():
    problem = hard()
    deadline = Deadline(1000, deterministic=True)
    proof = prove_peak(order_model(problem), np.arange(60), Budget(deadline), work=0.01)
    assert problem.is_order(proof.best)
    assert proof.bound <= proof.peak <= problem.peak(range(60))
    assert 0 < 1000 - deadline.remaining() < 10


@pytest.mark.parametrize("workers", [1, 2])
def test_deterministic_time_gives_the_same_order_twice(workers):
    problem = hard()
    one, two = (
        prove_peak(
            order_model(problem),
            np.arange(60),
            Budget(Deadline(0.05, deterministic=True), workers, seed=3),
        )
        for _ in range(2)
    )
    assert one.best.tolist() == two.best.tolist()
    assert (one.peak, one.bound) == (two.peak, two.bound)


def test_an_interrupt_gets_through_and_what_was_found_was_reported():
    problem, seen = hard(), []

    def interrupt(proof: Proof) -> None:
        seen.append(proof)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prove_peak(order_model(problem), np.arange(60), Budget(Deadline(60)), report=interrupt)
    assert len(seen) == 1
    assert problem.is_order(seen[0].best)


def test_what_fails_in_the_solver_s_thread_is_raised_here(monkeypatch):
    from formulations.ordering import OrderingModel

    def fail(self: OrderingModel, solver: object) -> None:
        raise RuntimeError("no such value")

    monkeypatch.setattr(OrderingModel, "extract", fail)
    with pytest.raises(RuntimeError, match="no such value"):
        prove_peak(order_model(side_by_side(3)), np.arange(6), Budget(Deadline(60)))


@pytest.mark.parametrize("seed", range(30))
def test_windows_never_make_an_order_worse(seed):
    rng = random.Random(seed)
    problem = random_order_problem(rng, 10)
    windows = OrderWindows(problem, random_topological(rng, problem))
    for _ in range(4):
        before, begin = problem.pressure(windows.order), rng.randint(0, 5)
        fallen = improve_window(windows, begin, begin + 5, Budget(Deadline(60)))
        after = problem.pressure(windows.order)
        assert problem.is_order(windows.order)
        assert after[:begin].tolist() == before[:begin].tolist()
        assert after[begin + 5 :].tolist() == before[begin + 5 :].tolist()
        inside = slice(begin, begin + 5)
        assert (after[inside].max() < before[inside].max()) == fallen
        assert after.max() <= before.max()


def test_a_window_that_is_good_enough_is_left_alone():
    windows = OrderWindows(side_by_side(3), range(6))
    assert not improve_window(windows, 0, 6, Budget(Deadline(60)), target=25)
    assert windows.order == list(range(6))
    assert improve_window(windows, 0, 6, Budget(Deadline(60)), target=24)
