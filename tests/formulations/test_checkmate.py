"""Checkmate's model alone: by hand, against every staged schedule, published chains, its bound."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from support.cases import seeds
from support.published import remat_chains
from support.remat_oracle import first_order, least_cost, random_remat_problem, remat_chain

from cpplan import Graph, Op, Tensor
from cpplan.model.remat_problem import RematProblem
from cpplan.remat.problem import remat_problem
from formulations.checkmate import build, count_variables


def cheapest(problem: RematProblem, limit: int, order: list[int]) -> float | None:
    """The model's optimum, and that it is what its schedule costs; ``None`` if there is none."""
    checkmate = build(problem, memory_limit=limit, order=order)
    status = checkmate.solver.Solve()
    if status == checkmate.solver.INFEASIBLE:
        return None
    assert status == checkmate.solver.OPTIMAL
    schedule = checkmate.extract()
    assert problem.is_schedule(schedule)
    assert problem.peak(schedule) <= limit
    cost = problem.total_cost(schedule)
    assert (
        cost
        == checkmate.bound()
        == pytest.approx(checkmate.solver.Objective().Value() * scale(problem))
    )
    return cost


def scale(problem: RematProblem) -> float:
    """The objective counts the mean cost as 1."""
    return sum(problem.cost) / len(problem) or 1.0


def relaxed_bound(problem: RematProblem, limit: int, order: list[int]) -> float | None:
    checkmate = build(problem, memory_limit=limit, order=order, relaxed=True)
    status = checkmate.solver.Solve()
    if status == checkmate.solver.INFEASIBLE:
        return None
    assert status == checkmate.solver.OPTIMAL
    return checkmate.bound()


def staged_schedules(problem: RematProblem, order: list[int]) -> list[list[int]]:
    """Stage by stage any of the earlier units, in order, and then the next one."""
    stages = [
        [
            [unit for unit, run in zip(order, chosen, strict=False) if run] + [order[t]]
            for chosen in product((False, True), repeat=t)
        ]
        for t in range(len(order))
    ]
    schedules = ([unit for stage in chosen for unit in stage] for chosen in product(*stages))
    return [schedule for schedule in schedules if problem.is_schedule(schedule)]


@pytest.mark.parametrize("seed", seeds(20))
def test_every_staged_schedule(seed):
    """Five units: 1,024 schedules at most; every limit that one of them meets exactly."""
    problem = random_remat_problem(seed, 5)
    order = first_order(problem)
    by_limit = {}
    for schedule in staged_schedules(problem, order):
        peak, cost = problem.peak(schedule), problem.total_cost(schedule)
        by_limit[peak] = min(cost, by_limit.get(peak, cost))
    assert cheapest(problem, min(by_limit) - 1, order) is None
    for limit in by_limit:
        least = min(cost for peak, cost in by_limit.items() if peak <= limit)
        assert cheapest(problem, limit, order) == least
        bound = relaxed_bound(problem, limit, order)
        assert bound is not None
        assert problem.total_cost(order) <= bound <= least


@pytest.mark.parametrize("seed", seeds(10, 40))
def test_no_schedule_of_any_kind_is_cheaper(seed):
    problem = random_remat_problem(seed, 5)
    order = first_order(problem)
    limit = problem.peak(order) - 1
    found, least = cheapest(problem, limit, order), least_cost(problem, limit)
    if found is not None:
        assert least is not None
        assert least <= found


def test_chains_of_the_published_kind():
    """On unit chains nothing is lost by stages: the optimum over all schedules is reached."""
    proved = 0
    for case in remat_chains(8):
        problem = remat_problem(remat_chain(case["n"]))
        order, limit = list(range(len(problem))), case["budget"]
        bound = relaxed_bound(problem, limit, order)
        assert bound is not None
        assert bound <= case["min_total_evals"]
        if case["n"] <= 6:
            assert cheapest(problem, limit, order) == case["min_total_evals"]
            proved += 1
    assert proved == 6


def test_the_relaxation_is_close_on_chains():
    """n = 16 within 8: 43 at least, 33 without a limit. Some bound between them is no accident."""
    problem = remat_problem(remat_chain(16))
    bound = relaxed_bound(problem, 8, list(range(33)))
    assert bound is not None
    assert 42 <= bound <= 43


def test_nothing_runs_after_the_last_first_run():
    """o (8 B, kept) is dropped for b (8 B) and made again at the end: 9 B, but no staged schedule.

    In stages o stays while b is alive, 16 B, and y (1 B) with them; unless it is the last to run.
    """
    tensors = Tensor("o", 8, kind="output"), Tensor("b", 8), Tensor("y", 1, kind="output")
    ops = Op("f", outputs=("o",)), Op("g", outputs=("b",)), Op("h", inputs=("b",), outputs=("y",))
    problem = remat_problem(Graph("kept", tensors, ops))
    assert problem.peak([0, 1, 2, 0]) == 9
    assert cheapest(problem, 17, [0, 1, 2]) == 3
    assert cheapest(problem, 16, [0, 1, 2]) is None
    assert cheapest(problem, 9, [1, 2, 0]) == 3


def test_what_may_run_but_once_stays():
    """a (4 B) is read first and last; b is 8 B, c 2 B. Within 12 B, a must be computed twice."""
    tensors = Tensor("a", 4), Tensor("b", 8), Tensor("c", 2), Tensor("y", 1, kind="output")

    def problem(recomputable: bool) -> RematProblem:
        ops = (
            Op("f", outputs=("a",), recomputable=recomputable, cost=3),
            Op("g", inputs=("a",), outputs=("b",)),
            Op("h", inputs=("b",), outputs=("c",)),
            Op("k", inputs=("a", "c"), outputs=("y",)),
        )
        return remat_problem(Graph("g", tensors, ops))

    assert cheapest(problem(True), 12, [0, 1, 2, 3]) == 9  # f g h f k
    assert cheapest(problem(False), 12, [0, 1, 2, 3]) is None
    assert cheapest(problem(False), 14, [0, 1, 2, 3]) == 6


def test_large_sizes_and_costs():
    """Sizes of gigabytes and costs of 10**13 make no difference to what is found."""
    graph = remat_chain(6, sizes=3 << 30, forward=[10**13] * 7, backward=[10**13] * 6)
    problem = remat_problem(graph)
    assert cheapest(problem, 5 * (3 << 30), list(range(13))) == 16 * 10**13  # published: 16
    bound = relaxed_bound(problem, 5 * (3 << 30), list(range(13)))
    assert bound is not None
    assert 13 * 10**13 < bound <= 16 * 10**13


@pytest.mark.parametrize("seed", range(20))
def test_the_variables_are_counted(seed):
    problem = random_remat_problem(seed, 6)
    order = first_order(problem)
    checkmate = build(problem, memory_limit=problem.peak(order), order=order)
    assert checkmate.solver.NumVariables() == count_variables(problem, order)


def test_a_limit_can_be_lowered():
    problem = remat_problem(remat_chain(4))
    relaxed = build(problem, memory_limit=5, relaxed=True)
    relaxed.solver.Solve()
    within_five = relaxed.bound()
    relaxed.lower_limit(3)
    relaxed.solver.Solve()
    assert within_five <= 10  # the optimum
    assert within_five < relaxed.bound() <= 15  # the optimum within 3


def test_bytes_of_a_unit_alone_and_of_the_first_position():
    """a (4 B), then b (8 B) from it: 12 B at the second unit, besides what is added."""
    tensors = Tensor("a", 4), Tensor("b", 8, kind="output")
    ops = Op("f", outputs=("a",)), Op("g", inputs=("a",), outputs=("b",))
    plain = remat_problem(Graph("pair", tensors, ops))
    more = replace(plain.ordering, extra=np.array([0, 3]), base=5)  # 5 + 4, then 5 + 12 + 3
    assert_peak(replace(plain, ordering=more), 20)
    more = replace(plain.ordering, extra=np.array([2, 0]), entry=10)  # 4 + 2 + 10, then 12
    assert_peak(replace(plain, ordering=more), 16)


def test_what_is_there_from_the_start_is_there_at_the_first_position():
    """x (9 B) is read by the second unit only: 9 + 4 B at the first, 9 + 2 at the second."""
    tensors = Tensor("x", 9, kind="input"), Tensor("a", 4), Tensor("b", 2), Tensor("y", 1)
    ops = (
        Op("f", outputs=("a",)),
        Op("g", inputs=("x",), outputs=("b",)),
        Op("h", inputs=("b",), outputs=("y",)),
    )
    assert_peak(remat_problem(Graph("waiting", tensors, ops)), 13)


def assert_peak(problem: RematProblem, peak: int) -> None:
    """In the order as numbered, no unit twice: as RematProblem counts, and as the model does."""
    order = list(range(len(problem)))
    assert problem.peak(order) == peak
    assert cheapest(problem, peak, order) == problem.total_cost(order)
    assert cheapest(problem, peak - 1, order) is None


def test_the_relaxation_frees_nothing_twice():
    """Seed 20: no schedule at all fits into 23 B, which the relaxation shows by itself."""
    problem = random_remat_problem(20, 5)
    order = first_order(problem)
    assert least_cost(problem, 23) is None
    assert relaxed_bound(problem, 23, order) is None
    assert relaxed_bound(problem, problem.peak(order), order) == problem.total_cost(order)
