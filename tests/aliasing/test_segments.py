"""The ordering problem under sharing: stretches of bytes, and what they prove."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support.cases import seeds
from support.random_orders import every_order
from support.sharing_instances import (
    contested,
    contradiction,
    halves,
    relu_chain,
    two_branches,
    unary,
)
from support.sharing_oracle import least_peak, random_sharing_graph

from cpplan.aliasing.alias_candidates import find_candidates
from cpplan.aliasing.segments import relax_sharing, share_in_any_order
from cpplan.model.graph import Graph, Op, Tensor
from cpplan.model.residency import Residency
from cpplan.ordering.bounds import order_bounds
from cpplan.ordering.problem import order_problem


def shared(graph: Graph):
    return share_in_any_order(graph, order_problem(graph), Residency())


def test_a_concatenation_is_cut_where_its_parts_end():
    problem, complete = shared(two_branches())
    assert dict(zip(problem.storages, problem.size.tolist(), strict=True)) == {
        "x": 2, "a[0:4]": 4, "b[0:4]": 4,
    }  # fmt: skip
    assert complete
    assert problem.pressure([0, 1, 2]).tolist() == [6, 10, 8]


def test_a_chain_is_one_stretch():
    problem, complete = shared(relu_chain(4, size=8))
    assert problem.size.tolist() == [8]
    assert problem.accessed_by == ((0, 1, 2, 3),)
    assert complete


def test_agreeing_concatenations_are_complete_and_contradicting_ones_are_not():
    assert shared(contested())[1]
    assert not shared(contradiction())[1]


def test_a_choice_that_depends_on_the_order_is_not_made():
    """f and g both read x: which of them comes last, no one knows yet; add may use a or b."""
    tensors = (
        Tensor("x", 4, kind="input"),
        *(Tensor(name, 4) for name in "ab"),
        Tensor("y", 4, kind="output"),
    )
    add = Op("add", "", ("a", "b"), ("y",), in_place=(("y", "a"), ("y", "b")))
    graph = Graph("g", tensors, (unary("f", "x", "a"), unary("g", "x", "b"), add))
    problem, complete = shared(graph)
    # x, b, and a with y at its place: 12 B while g runs.
    assert sorted(problem.size.tolist()) == [4, 4, 4]
    assert problem.peak([0, 1, 2]) == 12
    assert not complete
    # The second of f and g may write over x: 8 B, which the relaxed problem must allow.
    assert least_peak(graph, (0, 1, 2)) == 8
    assert relaxed_pressure(graph, [0, 1, 2]) == [4, 8, 8]


def test_a_stretch_covers_what_lies_over_it():
    """p and r lie over bytes 0..4 of x, q over the rest, from its first access to its last."""
    problem, complete = shared(halves())
    assert problem.storages == ("y", "x[0:4]", "x[4:8]")
    assert problem.pressure([0, 1, 2]).tolist() == [8, 8, 9]
    assert complete


def relaxed_pressure(graph: Graph, order: Sequence[int]) -> list[int]:
    problem, more = relax_sharing(order_problem(graph), find_candidates(graph, Residency()))
    return [int(live) - more for live in problem.pressure(order)]


def test_relaxed_live_bytes_equal_sums_by_hand():
    """All placements at once; contradicting ones count as the largest storage, 8 B."""
    assert relaxed_pressure(two_branches(), [0, 1, 2]) == [6, 10, 8]
    assert relaxed_pressure(contested(), [0, 1]) == [12, 12]
    assert relaxed_pressure(contradiction(), [0, 1]) == [8, 8]
    assert relaxed_pressure(relu_chain(3, size=8), [0, 1, 2]) == [8, 8, 8]
    assert relaxed_pressure(halves(), [0, 1, 2]) == [8, 8, 9]


@pytest.mark.parametrize("block", range(4))
def test_bounds_hold_for_every_order_and_all_links(block):
    """Order by order, the relaxed problem; if sharing is complete, the shared problem's bounds."""
    checked = 0
    for seed in range(40 * block, 40 * block + 40):
        graph = random_sharing_graph(seed, 1 + seed % 4)
        if sum(t.view_of is None for t in graph.tensors) > 5:
            continue
        problem, complete = shared(graph)
        relaxed, more = relax_sharing(order_problem(graph), find_candidates(graph, Residency()))
        peaks = {order: least_peak(graph, order) for order in every_order(graph)}
        for order, least in peaks.items():
            assert relaxed.peak(order) - more <= least, (seed, order)
        least = min(peaks.values())
        assert order_bounds(relaxed).bound - more <= least
        if complete:
            checked += 1
            assert order_bounds(problem).bound <= least
            assert min(map(problem.peak, peaks)) <= least
    assert checked


@pytest.mark.parametrize("seed", seeds(30))
def test_complete_sharing_only_lowers_pressure(seed):
    """Live bytes never rise where sharing is complete; elsewhere, stretches may pause."""
    graph = random_sharing_graph(seed, 1 + seed % 6)
    ordering, (problem, complete) = order_problem(graph), shared(graph)
    order = range(len(graph.ops))
    assert problem.is_order(order)
    if complete:
        assert (problem.pressure(order) <= ordering.pressure(order)).all()
