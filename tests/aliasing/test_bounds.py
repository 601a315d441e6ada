"""The bound on every choice of candidates: by hand, against brute force, and proved twice."""

from __future__ import annotations

import itertools
import random
from typing import get_args

import pytest
from support.cases import seeds
from support.sharing_instances import (
    concat,
    contested,
    contradiction,
    halves,
    relu_chain,
    setting,
    two_branches,
    unary,
)
from support.sharing_oracle import least_peak, random_sharing_graph

from cpplan.aliasing.alias_candidates import find_candidates
from cpplan.aliasing.bounds import placement_groups, shared_bound
from cpplan.aliasing.lives import ProgramLives
from cpplan.model.graph import Graph, Op, Tensor
from cpplan.model.plan_data import RelationKind
from cpplan.model.residency import Residency
from cpplan.program.anf import Program, to_anf
from cpplan.program.liveness import to_problem
from cpplan.verification.access_trace import replay
from cpplan.verification.shared_bound import least_bytes

BOTH = get_args(RelationKind)
RESIDENCIES = [
    Residency(*choice)
    for choice in itertools.product(
        ("reuse", "keep", "outside"), ("keep", "outside"), ("outside", "keep")
    )
]


def bound_of(program: Program, residency: Residency, kinds=BOTH) -> int:
    problem = to_problem(program, residency)
    candidates = find_candidates(program.graph, residency, kinds)
    return shared_bound(problem, candidates, ProgramLives(program, problem, residency)).value


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (relu_chain(4, size=8), 8),
        (two_branches(), 10),  # step 1: x, a and b
        (contested(), 12),
        (contradiction(), 8),  # no picture of both: the largest of y, z, a and b
        (halves(), 9),  # the last step: r and q, which lie in x, and y
    ],
    ids=lambda value: value.name if isinstance(value, Graph) else str(value),
)
def test_shared_live_bytes_bound_equals_the_sum_by_hand(graph, expected):
    found = setting(graph)
    bound = shared_bound(found.problem, found.candidates, found.lives)
    assert (bound.value, bound.name) == (expected, "live bytes, shared")


def test_the_step_is_one_that_needs_so_much():
    found = setting(two_branches())
    assert shared_bound(found.problem, found.candidates, found.lives).step == 1


def test_without_links_it_is_live_bytes():
    found = setting(two_branches())
    assert shared_bound(found.problem, (), found.lives).value == 16


def test_a_result_that_may_lie_over_two_inputs_is_saved_once():
    """add(a, b) over a or over b: a, b and nothing else, 8 B; both at once would leave 4."""
    tensors = (*(Tensor(n, 4, kind="input") for n in "ab"), Tensor("y", 4, kind="output"))
    add = Op("add", "", ("a", "b"), ("y",), in_place=(("y", "a"), ("y", "b")))
    graph = Graph("g", tensors, (add,))
    assert bound_of(to_anf(graph), Residency()) == 8 == least_peak(graph, (0,))


def test_groups_and_their_places():
    candidates = setting(contested()).candidates
    assert placement_groups(candidates) == [{"y": 0, "a": 0, "b": 4, "z": 4, "c": 8}]
    (torn,) = placement_groups(setting(contradiction()).candidates)
    assert set(torn) == {"a", "b", "y", "z"}
    assert set(torn.values()) == {None}


def test_nothing_to_place_needs_nothing():
    assert bound_of(to_anf(Graph("empty", (), ())), Residency()) == 0


@pytest.mark.parametrize("block", range(5))
def test_the_checker_proves_the_same_bound_at_any_order_and_residency(block):
    """Neither more (then planners give bytes away) nor less (then it is rejected)."""
    for seed in seeds(8, first=50 * block):
        rng = random.Random(seed)
        graph = random_sharing_graph(seed, 1 + seed % 8)
        program = _shuffled(rng, graph)
        for residency in RESIDENCIES:
            for kinds in ((), ("in place",), ("placement",), BOTH):
                traced = replay(program, residency)
                proved = least_bytes(kinds, *traced)
                assert bound_of(program, residency, kinds) == proved, (seed, residency, kinds)


@pytest.mark.parametrize("block", range(10))
def test_no_plan_needs_less(block):
    for seed in range(20 * block, 20 * block + 20):
        graph = random_sharing_graph(seed, 1 + seed % 5)
        if sum(t.view_of is None for t in graph.tensors) <= 6:
            order = tuple(range(len(graph.ops)))
            assert bound_of(Program(graph, order), Residency()) <= least_peak(graph, order)


def _shuffled(rng: random.Random, graph: Graph) -> Program:
    waiting, order = set(range(len(graph.ops))), list[int]()
    while waiting:
        ready = sorted(k for k in waiting if not waiting & set(graph.predecessors[k]))
        order.append(rng.choice(ready))
        waiting.discard(order[-1])
    return Program(graph, tuple(order))


def test_a_second_name_that_must_be_spared_saves_nothing():
    """add(x, v), v a part of x: y needs bytes of its own, and checker and planner know."""
    tensors = (
        Tensor("x", 4, kind="input"),
        Tensor("v", 2, view_of=("x", 1)),
        Tensor("y", 4, kind="output"),
    )
    add = Op("add", "", ("x", "v"), ("y",), in_place=(("y", "x"),))
    program = to_anf(Graph("g", tensors, (add,)))
    assert bound_of(program, Residency()) == 8
    assert least_bytes(("in place",), *replay(program, Residency())) == 8


def test_more_links_never_raise_it():
    """The part within the whole, then also the result in its place."""
    graph = Graph(
        "g",
        (Tensor("x", 4, kind="input"), Tensor("t", 4), Tensor("y", 6, kind="output")),
        (unary("f", "x", "t"), concat("pad", ["t"], "y", [1])),
    )
    program = to_anf(graph)
    values = [
        bound_of(program, Residency(), kinds) for kinds in ((), ("in place",), ("placement",), BOTH)
    ]
    assert values == [10, 10, 8, 6]


def test_the_oracle_joins_nothing_by_an_empty_view():
    tensors = (
        Tensor("x", 3, kind="input"),
        Tensor("v", 0, kind="output", view_of=("x", 2)),
        Tensor("y", 0, kind="output"),
    )
    ops = (
        Op("show", inputs=("x",), outputs=("v",)),
        Op("negate", inputs=("v",), outputs=("y",), in_place=(("y", "v"),)),
    )
    assert least_peak(Graph("empty view", tensors, ops), (0, 1)) == 3
