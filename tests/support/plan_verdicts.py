"""Plans as the tests of the checkers accept, refuse and change them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from cpplan import Graph, Plan, Problem, Program, simulate, solve, verify
from cpplan.model.errors import VerificationError
from cpplan.model.residency import Residency
from cpplan.program.anf import to_anf
from cpplan.program.liveness import to_problem

RESIDENCIES = [
    Residency(*choice)
    for choice in itertools.product(
        ("reuse", "keep", "outside"), ("keep", "outside"), ("outside", "keep")
    )
]


def proved(source: Graph | Program, **options: str) -> Plan:
    """The plan of a source, proved optimal and checked by both checkers."""
    plan = solve(source, workers=1, **options)
    assert plan.status == "optimal"
    verify(source, plan)
    simulate(source, plan)
    return plan


def first_fit(
    graph: Graph, order: Iterable[str] | None = None, residency: Residency | None = None
) -> Plan:
    """A sound plan of a graph: the largest buffer first, each at the lowest free offset."""
    program = to_anf(graph, order)
    problem = to_problem(program, residency)
    offset = np.zeros(len(problem), np.int64)
    placed: list[int] = []
    for row in np.argsort(-problem.size, kind="stable").tolist():
        for other in sorted(placed, key=lambda other: int(offset[other])):
            meets = (
                problem.lower[row] < problem.upper[other]
                and problem.lower[other] < problem.upper[row]
            )
            if meets and offset[row] + problem.size[row] > offset[other]:
                offset[row] = max(offset[row], offset[other] + problem.size[other])
        placed.append(row)
    return Plan(
        graph.name,
        "feasible",
        tuple(problem.names),
        problem.size,
        problem.lower,
        problem.upper,
        offset,
        peak=int(np.max(offset + problem.size, initial=0)),
        order=program.names,
        residency=residency or Residency(),
    )


def accepts(check: Callable[..., object], source: Graph | Program | Problem, plan: Plan) -> bool:
    """True if a checker, ``verify`` or ``simulate``, lets the plan pass."""
    try:
        check(source, plan)
    except VerificationError:
        return False
    return True


def moved(plan: Plan, offsets: Mapping[str, int]) -> Plan:
    """The same plan with some buffers elsewhere, and an arena that still holds them all."""
    assert plan.offset is not None
    offset = plan.offset.copy()
    for name, address in offsets.items():
        offset[plan.buffers.index(name)] = address
    return replace(plan, offset=offset, peak=int(np.max(offset + plan.size)))


def rejected(source: Graph | Program | Problem, plan: Plan, match: str) -> None:
    """Fail unless ``verify`` rejects the plan with one line that matches."""
    with pytest.raises(VerificationError, match=match) as caught:
        verify(source, plan)
    assert "\n" not in str(caught.value)
