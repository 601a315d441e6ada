"""The bytes that no choice of candidates shares: derived by the planner as by the checker."""

from __future__ import annotations

import random
from typing import get_args

import pytest
from support.cases import seeds
from support.sharing_instances import contradiction, halves, recomputed_activation, two_branches
from support.sharing_oracle import random_sharing_graph

from cpplan.aliasing.alias_candidates import find_candidates
from cpplan.aliasing.lives import ProgramLives
from cpplan.aliasing.pools import unshared_problem
from cpplan.model.plan_data import RelationKind
from cpplan.model.problem import Problem
from cpplan.model.residency import Residency
from cpplan.program.anf import Program, to_anf
from cpplan.program.liveness import to_problem
from cpplan.program.unrolled import unroll
from cpplan.verification.access_trace import replay
from cpplan.verification.never_shared import never_shared

BOTH = get_args(RelationKind)


def live_steps(problem: Problem) -> list[tuple[int, int]]:
    """Row and step of everything that is live."""
    spans = problem.spans
    return sorted(
        (int(row), step)
        for row, low, high in zip(spans.buffer, spans.lower, spans.upper, strict=True)
        for step in range(low, high)
    )


def by_planner_and_checker(
    program: Program, residency: Residency, kinds: tuple[RelationKind, ...] = BOTH
) -> tuple[Problem, Problem]:
    problem, unrolled = to_problem(program, residency), unroll(program, residency)
    candidates = find_candidates(unrolled.graph, residency, kinds)
    planner = unshared_problem(problem, candidates, ProgramLives(unrolled, problem, residency))
    return planner, never_shared(problem, kinds, *replay(program, residency))


@pytest.mark.parametrize(
    "program",
    [*(to_anf(make()) for make in (two_branches, contradiction, halves)), recomputed_activation()],
    ids=lambda program: program.graph.name,
)
def test_planner_and_checker_derive_the_same_problem(program):
    planner, checker = by_planner_and_checker(program, Residency())
    assert live_steps(planner) == live_steps(checker)


@pytest.mark.parametrize("seed", seeds(40))
def test_planner_and_checker_derive_the_same_problem_of_random_graphs(seed):
    rng = random.Random(seed)
    program = to_anf(random_sharing_graph(seed, 1 + seed % 9))
    residency = Residency(
        rng.choice(("reuse", "keep", "outside")),
        rng.choice(("keep", "outside")),
        rng.choice(("outside", "keep")),
    )
    for kinds in (BOTH, BOTH[:1], BOTH[1:]):
        planner, checker = by_planner_and_checker(program, residency, kinds)
        assert live_steps(planner) == live_steps(checker)
