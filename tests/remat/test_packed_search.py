"""Schedules and offsets together: what is found fits packed, is a schedule, and is cheap."""

from __future__ import annotations

import numpy as np
import pytest
from support.cases import seeds
from support.published import DATASETS
from support.remat_oracle import first_order, least_cost, random_remat_problem, remat_chain

import cpplan
from cpplan import Graph, Op, Tensor
from cpplan.model.residency import Residency
from cpplan.program.anf import Program
from cpplan.program.liveness import to_problem
from cpplan.remat.heuristics.checkpoints import given_order
from cpplan.remat.problem import remat_problem
from cpplan.remat.search.packed_search import search_packed
from cpplan.remat.search.retention_buffers import RetentionBuffers
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline
from cpplan.verification.verifier import check_offsets


def check(problem, limit, found, residency=None):
    assert problem.is_schedule(found.schedule)
    assert found.cost == problem.total_cost(found.schedule)
    buffers = to_problem(Program(problem.graph, problem.expand(found.schedule)), residency)
    check_offsets(buffers, found.offsets, "packed search")
    assert (found.offsets + buffers.size).max() == found.peak <= limit


@pytest.mark.parametrize("seed", seeds(5))
def test_random_graphs(seed):
    """No packed schedule is cheaper than the cheapest within the limit on live bytes."""
    problem = random_remat_problem(seed, 6)
    order = first_order(problem)
    for limit in (problem.peak(order) + 20, problem.peak(order) * 9 // 10):
        least = least_cost(problem, limit)
        for joint in (True, False):
            found = search_packed(
                problem, limit, order, Budget(Deadline(60)), joint=joint, moves=4000
            )
            if found is None:
                assert limit < problem.peak(order)
                continue
            check(problem, limit, found)
            assert found.cost >= least
            if not joint:
                assert tuple(dict.fromkeys(found.schedule)) == tuple(order)


@pytest.mark.parametrize(("n", "slots", "cost"), [(4, 3, 15), (4, 5, 10)])
def test_published_chains(n, slots, cost):
    """Equal sizes leave no holes: the optimum is that of live bytes."""
    problem = remat_problem(remat_chain(n, sizes=8))
    found = search_packed(problem, 8 * slots, range(2 * n + 1), Budget(Deadline(60)), moves=200_000)
    check(problem, 8 * slots, found)
    assert found.cost == cost


def test_alignment():
    """At 32, b (8 B) needs [32, 40) or [0, 8): it fits into 40 bytes only on either side of a."""
    tensors = (
        Tensor("a", 24, alignment=8),
        Tensor("b", 8, alignment=32),
        Tensor("y", 3, kind="output", alignment=4),
    )
    ops = (
        Op("f", outputs=("a",)),
        Op("g", outputs=("b",)),
        Op("h", inputs=("a", "b"), outputs=("y",)),
    )
    problem = remat_problem(Graph("aligned", tensors, ops))
    found = search_packed(problem, 35, [0, 1, 2], Budget(Deadline(60)), moves=3000)
    check(problem, 35, found)
    assert search_packed(problem, 34, [0, 1, 2], Budget(Deadline(60)), moves=3000) is None


def test_unaccessed_tensors_have_offsets():
    """An unread input, an output handed through, and a body's own buffers."""
    body = Graph(
        "body",
        (Tensor("a", 4, kind="input"), Tensor("m", 6), Tensor("b", 4, kind="output")),
        (Op("p", inputs=("a",), outputs=("m",)), Op("q", inputs=("m",), outputs=("b",))),
    )
    tensors = (
        Tensor("unread", 5, kind="input"),
        Tensor("through", 7, kind="output"),
        Tensor("a", 4),
        Tensor("b", 4),
        Tensor("y", 2, kind="output"),
    )
    ops = (
        Op("f", outputs=("a",)),
        Op("call", inputs=("a",), outputs=("b",), bodies=(body,)),
        Op("g", inputs=("b",), outputs=("y",)),
    )
    problem = remat_problem(Graph("others", tensors, ops), Residency())
    limit = problem.peak([0, 1, 2])
    found = search_packed(problem, limit, [0, 1, 2], Budget(Deadline(60)), moves=3000)
    check(problem, limit, found)
    assert search_packed(problem, limit - 1, [0, 1, 2], Budget(Deadline(60)), moves=3000) is None


def with_unaccessed_storages():
    """A constant that no op reads, and a body: in the arena they are no retentions."""
    body = Graph(
        "body",
        (Tensor("a", 4, kind="input"), Tensor("m", 6), Tensor("b", 4, kind="output")),
        (Op("p", inputs=("a",), outputs=("m",)), Op("q", inputs=("m",), outputs=("b",))),
    )
    tensors = (
        Tensor("weight", 5, kind="constant"),
        Tensor("unread", 3, kind="input"),
        Tensor("a", 4),
        Tensor("b", 4),
        Tensor("y", 2, kind="output"),
    )
    ops = (
        Op("f", outputs=("a",)),
        Op("call", inputs=("a",), outputs=("b",), bodies=(body,)),
        Op("g", inputs=("a", "b"), outputs=("y",)),
    )
    return Graph("unaccessed", tensors, ops)


def test_retentions_of_a_packing():
    """The weight lies throughout, at 4: what is above it moves down, and it to the arena's end."""
    residency = Residency(constants="keep")
    problem = remat_problem(with_unaccessed_storages(), residency)
    buffers = RetentionBuffers(problem, residency, 30)
    schedule = (0, 1, 0, 2)
    program = to_problem(Program(problem.graph, problem.expand(schedule)), residency)
    at = {"a": 0, "weight": 4, "a~1": 9, "b": 13, "unread": 9, "y": 20}
    given = np.array([at.get(name, 20) for name in program.names])
    retentions, blocks, entry = buffers.retentions(schedule, given)
    assert (retentions.tolist(), entry) == ([0, 8, 4, 15], 4)
    _, offsets = buffers.offsets(schedule, retentions, blocks, entry)
    moved = dict(zip(program.names, offsets.tolist(), strict=True))
    assert moved["weight"] == 25
    assert [moved[name] for name in ("a", "a~1", "b", "unread", "y")] == [0, 4, 8, 4, 15]


def test_offsets_to_begin_with():
    """A packing is taken as it is, without a move."""
    problem = remat_problem(cpplan.load(DATASETS / "ordering/layered_100.json"))
    order = given_order(problem)
    buffers = to_problem(Program(problem.graph, problem.expand(order)))
    plan = cpplan.solve(buffers, time_limit=60, deterministic=True)
    other = search_packed(problem, plan.peak, order, Budget(Deadline(60)), moves=0)
    assert other is None or other.offsets.tolist() != plan.offset.tolist()
    found = search_packed(
        problem, plan.peak, order, Budget(Deadline(60)), moves=0, offsets=plan.offset
    )
    check(problem, plan.peak, found)
    assert found.offsets.tolist() == plan.offset.tolist()


def test_offsets_above_the_limit():
    """Moved down over others, and then apart."""
    problem = remat_problem(remat_chain(8))
    order = given_order(problem)
    limit = problem.peak(order)
    buffers = to_problem(Program(problem.graph, problem.expand(order)))
    too_high = cpplan.solve(buffers).offset + 1
    found = search_packed(problem, limit, order, Budget(Deadline(60)), moves=2000, offsets=too_high)
    check(problem, limit, found)


def test_a_retention_larger_than_the_arena():
    """b alone has 8 bytes."""
    tensors = Tensor("a", 4), Tensor("b", 8), Tensor("y", 1, kind="output")
    ops = Op("f", outputs=("a",)), Op("g", inputs=("a",), outputs=("b",))
    ops += (Op("h", inputs=("b",), outputs=("y",)),)
    problem = remat_problem(Graph("large", tensors, ops))
    assert search_packed(problem, 7, [0, 1, 2], Budget(Deadline(60))) is None


def test_same_seed_same_answer():
    problem = remat_problem(remat_chain(8))
    one, two = (
        search_packed(problem, 6, range(17), Budget(Deadline(0.2, deterministic=True), seed=3))
        for _ in range(2)
    )
    assert one is not None
    assert one.schedule == two.schedule
    assert one.offsets.tolist() == two.offsets.tolist()


def test_random_sizes():
    """100 layered ops within 80 % of what the given order needs."""
    problem = remat_problem(cpplan.load(DATASETS / "ordering/layered_100.json"))
    order = given_order(problem)
    limit = problem.peak(order) * 8 // 10
    reached = []
    found = search_packed(
        problem, limit, order, Budget(Deadline(600)), moves=30_000, report=reached.append
    )
    check(problem, limit, found)
    assert found is reached[-1]
    assert [r.cost for r in reached] == sorted((r.cost for r in reached), reverse=True)
