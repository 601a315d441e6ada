"""Chains forward and back: published optima, brute force, and what is no chain."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from support.cases import FACTOR, seeds
from support.published import remat_chains
from support.remat_oracle import least_cost, remat_chain

from cpplan.model.remat_problem import RematProblem
from cpplan.model.residency import Residency
from cpplan.remat.heuristics.chain import Chain, as_chain, solve_chain
from cpplan.remat.problem import remat_problem
from cpplan.runtime.deadline import Deadline, TimeUpError


def solve(problem: RematProblem, limit: int) -> float | None:
    """The cost of the schedule found, which must be what it says."""
    chain = as_chain(problem)
    assert chain is not None
    found = solve_chain(problem, chain, limit, Deadline(60))
    if found is None:
        return None
    assert problem.is_schedule(found.schedule)
    assert problem.peak(found.schedule) == found.peak <= limit
    assert problem.total_cost(found.schedule) == found.cost == found.bound
    return found.cost


def test_published_optima():
    """Optima of Checkmate's linear graphs, up to 33 nodes."""
    for case in remat_chains(16 if FACTOR == 1 else None):
        problem = remat_problem(remat_chain(case["n"], 4))
        assert solve(problem, 4 * case["budget"]) == case["min_total_evals"], case


def test_chain_of_five_units_by_hand():
    """5 units. In three slots, t0 gives way to t2 and is made again."""
    problem = remat_problem(remat_chain(2, 10))
    assert as_chain(problem) == Chain((0, 1, 2), (4, 3), 10, 0)
    assert [solve(problem, limit) for limit in (29, 30, 39, 40)] == [None, 6, 6, 5]


def test_chain_of_one_unit_needs_one_slot():
    problem = remat_problem(remat_chain(0, 10))
    assert [solve(problem, limit) for limit in (9, 10)] == [None, 1]


@pytest.mark.parametrize("seed", seeds(10))
def test_any_costs_agree_with_brute_force(seed):
    rng = random.Random(seed)
    n = rng.randint(0, 5)
    costs = rng.choice(((0, 1, 2, 5, 9), (1, 100), (0, 7, 50), (0.5, 0.25, 3)))
    forward = [rng.choice(costs) for _ in range(n + 1)]
    backward = [rng.choice(costs) for _ in range(n)]
    problem = remat_problem(remat_chain(n, 1, forward, backward))
    for limit in range(n + 4):
        assert solve(problem, limit) == least_cost(problem, limit), limit


def test_always_live_bytes_are_subtracted():
    graph = remat_chain(3, 4)
    idle = replace(graph.tensors[0], name="idle", size=100, kind="output")
    source = replace(graph.ops[0], outputs=("t0", "idle"))
    # An output of an op that is run again is not idle; an input that is kept is.
    held = replace(
        graph,
        tensors=(*graph.tensors, replace(idle, kind="input")),
    )
    problem = remat_problem(held, Residency(inputs="keep"))
    assert problem.ordering.base == 100
    assert solve(problem, 100 + 4 * 4) == solve(remat_problem(graph), 4 * 4)
    second = replace(graph, tensors=(*graph.tensors, idle), ops=(source, *graph.ops[1:]))
    assert as_chain(remat_problem(second)) is None


def _without_repeats(graph):
    return replace(graph, ops=(replace(graph.ops[0], recomputable=False), *graph.ops[1:]))


def _other_size(graph):
    return replace(graph, tensors=(replace(graph.tensors[0], size=5), *graph.tensors[1:]))


def _kept(graph):
    return replace(graph, tensors=(replace(graph.tensors[0], kind="output"), *graph.tensors[1:]))


def _one_read_less(graph):
    last = graph.ops[-1]
    return replace(graph, ops=(*graph.ops[:-1], replace(last, inputs=last.inputs[1:])))


@pytest.mark.parametrize("change", [_without_repeats, _other_size, _kept, _one_read_less])
def test_changed_chains_are_rejected(change):
    assert as_chain(remat_problem(remat_chain(3))) is not None
    assert as_chain(remat_problem(change(remat_chain(3)))) is None


def test_a_kept_end_is_still_a_chain():
    graph = remat_chain(3)
    graph = replace(graph, tensors=(*graph.tensors[:-1], replace(graph.tensors[-1], kind="output")))
    assert solve(remat_problem(graph), 4) == solve(remat_problem(remat_chain(3)), 4)


def test_expired_deadline_raises():
    problem = remat_problem(remat_chain(5))
    deadline = Deadline(60)
    deadline.cancel()
    with pytest.raises(TimeUpError):
        solve_chain(problem, as_chain(problem), 4, deadline)
