"""Checkmate's rounding and optimum: by hand, each against the other, on chains, out of time."""

from __future__ import annotations

import pytest
from support.cases import seeds
from support.published import remat_chains
from support.remat_oracle import first_order, interesting_limits, random_remat_problem, remat_chain

from cpplan import Graph, Op, Tensor
from cpplan.model.remat_problem import RematProblem
from cpplan.model.residency import Residency
from cpplan.remat.heuristics.checkmate import cheapest_staged, complete, round_relaxation
from cpplan.remat.problem import remat_problem
from cpplan.runtime.deadline import Deadline, TimeUpError


def diamond(recomputable: bool = True) -> RematProblem:
    """f makes a, g makes b of a, h makes c of b, k reads a and c."""
    tensors = Tensor("a", 4), Tensor("b", 8), Tensor("c", 2), Tensor("y", 1, kind="output")
    ops = (
        Op("f", outputs=("a",), recomputable=recomputable),
        Op("g", inputs=("a",), outputs=("b",)),
        Op("h", inputs=("b",), outputs=("c",)),
        Op("k", inputs=("a", "c"), outputs=("y",)),
    )
    return remat_problem(Graph("diamond", tensors, ops))


def test_missing_values_are_recomputed():
    """Nothing stays: before each first run everything it needs runs, in order."""
    nothing: list[set[int]] = [set(), set(), set(), set()]
    again = complete(diamond(), range(4), nothing)
    assert again == (0, 0, 1, 0, 1, 2, 0, 1, 2, 3)
    # a stays throughout, b for h and c for k: nobody runs again.
    assert complete(diamond(), range(4), [{1, 2, 3}, {2}, {3}, set()]) == (0, 1, 2, 3)
    # a stays for g only: k makes it anew.
    assert complete(diamond(), range(4), [{1}, {2}, {3}, set()]) == (0, 1, 2, 0, 3)


def test_unread_values_are_not_recomputed():
    # b is said to stay to the end, but not before h, and nobody reads it after h.
    assert complete(diamond(), range(4), [{1, 2, 3}, {2, 3, 4}, {3}, set()]) == (0, 1, 2, 3)
    # a is said to stay before k, but not before h: it is made in h's stage, though h reads b only.
    assert complete(diamond(), range(4), [{1, 3}, {2}, {3}, set()]) == (0, 1, 0, 2, 3)


def test_unrepeatable_values_are_kept():
    nothing: list[set[int]] = [set(), set(), set(), set()]
    assert complete(diamond(recomputable=False), range(4), nothing) == (0, 1, 1, 2, 1, 2, 3)


def test_kept_values_are_live_at_the_end():
    tensors = Tensor("a", 4, kind="output"), Tensor("y", 1, kind="output")
    ops = Op("f", outputs=("a",)), Op("g", outputs=("y",))
    problem = remat_problem(Graph("kept", tensors, ops))
    assert complete(problem, (0, 1), [set(), set()]) == (0, 0, 1)
    assert complete(problem, (0, 1), [{1}, set()]) == (0, 1)


def test_by_hand():
    """14 B without repetition (a, b and c while h runs); 12 B if f runs again before k."""
    problem = diamond()
    for method in (round_relaxation, cheapest_staged):
        assert method(problem, 14, range(4), Deadline(60)) == (0, 1, 2, 3)
        assert method(problem, 12, range(4), Deadline(60)) == (0, 1, 2, 0, 3)
        assert method(problem, 11, range(4), Deadline(60)) is None  # a and b at once


@pytest.mark.parametrize("seed", seeds(8))
def test_rounding_is_never_below_the_optimum(seed):
    """A rounded schedule is within the limit and costs no less than the optimum."""
    problem = random_remat_problem(seed, 6)
    order = first_order(problem)
    for limit in interesting_limits(problem):
        rounded = round_relaxation(problem, limit, order, Deadline(60))
        best = cheapest_staged(problem, limit, order, Deadline(60))
        if rounded is not None:
            assert problem.is_schedule(rounded)
            assert problem.peak(rounded) <= limit
            assert tuple(dict.fromkeys(rounded)) == tuple(order)
            assert best is not None
            assert problem.total_cost(best) <= problem.total_cost(rounded)


def test_chains():
    """Rounding costs up to 1.32 times the optimum here, and up to 4 times at n = 64."""
    ratios = []
    for case in remat_chains(9):
        problem = remat_problem(remat_chain(case["n"]))
        order, limit, optimum = range(len(problem)), case["budget"], case["min_total_evals"]
        rounded = round_relaxation(problem, limit, order, Deadline(60))
        if rounded is not None:
            assert problem.peak(rounded) <= limit
            assert problem.total_cost(rounded) >= optimum
            ratios.append(problem.total_cost(rounded) / optimum)
        if case["n"] <= 8:
            best = cheapest_staged(problem, limit, order, Deadline(60))
            assert best is not None
            assert problem.total_cost(best) == optimum
    assert len(ratios) >= 8
    assert max(ratios) <= 1.5
    assert sum(ratio == 1 for ratio in ratios) >= 6


def test_rounding_is_deterministic():
    problem = remat_problem(remat_chain(9))
    first = round_relaxation(problem, 5, range(19), Deadline(60))
    assert first is not None
    assert first == round_relaxation(problem, 5, range(19), Deadline(60))
    counted = Deadline(60, deterministic=True)
    assert first == round_relaxation(problem, 5, range(19), counted)
    assert counted.remaining() < 60
    optimum = cheapest_staged(problem, 7, range(19), Deadline(60, deterministic=True))
    assert optimum is not None
    assert problem.total_cost(optimum) == 23  # published


@pytest.mark.parametrize("method", [round_relaxation, cheapest_staged])
def test_expired_deadline_raises(method):
    problem = remat_problem(remat_chain(4))
    with pytest.raises(TimeUpError):
        method(problem, 5, range(9), Deadline(0))


@pytest.mark.parametrize("method", [round_relaxation, cheapest_staged])
@pytest.mark.parametrize("seconds", [1e300, float("inf")])
def test_endless_deadline_ends(method, seconds):
    assert method(diamond(), 12, range(4), Deadline(seconds)) == (0, 1, 2, 0, 3)


def test_a_model_that_is_too_large_is_not_begun(monkeypatch):
    problem = remat_problem(remat_chain(4))  # 226 variables
    monkeypatch.setattr("cpplan.remat.heuristics.checkmate._LP_VARIABLES", 226)
    monkeypatch.setattr("cpplan.remat.heuristics.checkmate._MILP_VARIABLES", 226)
    assert round_relaxation(problem, 5, range(9), Deadline(60)) is not None
    assert cheapest_staged(problem, 5, range(9), Deadline(60)) is not None
    monkeypatch.setattr("cpplan.remat.heuristics.checkmate._LP_VARIABLES", 225)
    monkeypatch.setattr("cpplan.remat.heuristics.checkmate._MILP_VARIABLES", 225)
    assert round_relaxation(problem, 5, range(9), Deadline(60)) is None
    assert cheapest_staged(problem, 5, range(9), Deadline(60)) is None


def test_without_ops():
    graph = Graph("empty", (Tensor("x", 4, kind="input"),), ())
    problem = remat_problem(graph, Residency(inputs="keep"))
    for method in (round_relaxation, cheapest_staged):
        assert method(problem, 4, (), Deadline(60)) == ()
        assert method(problem, 3, (), Deadline(60)) is None


def test_rewritten_values_need_not_stay():
    """f makes a and b, k reads both. a is missing, and f brings both: b need not stay."""
    tensors = Tensor("a", 4), Tensor("b", 4), Tensor("c", 1), Tensor("y", 1, kind="output")
    ops = (
        Op("f", outputs=("a", "b")),
        Op("g", outputs=("c",)),
        Op("k", inputs=("a", "b", "c"), outputs=("y",)),
    )
    problem = remat_problem(Graph("two results", tensors, ops))
    assert complete(problem, range(3), [set(), {2}, {2}, set()]) == (0, 1, 0, 2)
