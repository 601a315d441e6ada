"""What stays apart however tensors share bytes: never more than the best plan needs."""

from __future__ import annotations

from typing import get_args

import pytest
from oracles import brute_force_peak
from sharing_instances import halves, relu_chain, two_branches
from sharing_oracle import least_peak, random_sharing_graph

from cpplan.anf import Program, to_anf
from cpplan.checks.apart_anyway import never_shared
from cpplan.checks.demands import trace
from cpplan.graph import Graph
from cpplan.liveness import to_problem
from cpplan.plan import RelationKind
from cpplan.problem import Problem
from cpplan.residency import Residency

BOTH = get_args(RelationKind)


def left_of(graph: Graph, kinds=BOTH) -> Problem:
    program = to_anf(graph)
    touches = trace(program, Residency())
    return never_shared(to_problem(program), program, kinds, touches)


@pytest.mark.parametrize(
    ("graph", "live"),
    [
        (relu_chain(2, size=8), [8, 8]),
        (two_branches(), [6, 6, 8]),  # x and a; x and a or b; y
        (halves(), [8, 4, 5]),  # x; the larger of p and q; that of q and r, and y
    ],
    ids=["chain", "branches", "halves"],
)
def test_by_hand(graph, live):
    problem = left_of(graph)
    steps = range(int(problem.upper.max()))
    held = [
        sum(
            int(problem.spans.end[k] - problem.spans.begin[k])
            for k in range(len(problem.spans.lower))
            if problem.spans.lower[k] <= step < problem.spans.upper[k]
        )
        for step in steps
    ]
    assert held == live


def test_nothing_is_left_out_where_nothing_may_be_shared():
    problem = left_of(two_branches(), kinds=())
    assert brute_force_peak(problem) == 16


@pytest.mark.parametrize("block", range(10))
def test_even_packed_best_it_needs_no_more_than_any_plan(block):
    for seed in range(30 * block, 30 * block + 30):
        graph = random_sharing_graph(seed, 1 + seed % 5)
        if sum(t.view_of is None for t in graph.tensors) <= 6:
            order = tuple(range(len(graph.ops)))
            program = Program(graph, order)
            problem = never_shared(to_problem(program), program, BOTH, trace(program, Residency()))
            assert brute_force_peak(problem) <= least_peak(graph, order), graph.name
