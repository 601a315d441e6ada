"""Sources of a plan as packing problems: a graph, a program, or a bare packing problem."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cpplan.model.errors import InputError, VerificationError
from cpplan.model.graph import Graph
from cpplan.model.pool import Pool
from cpplan.model.problem import Problem
from cpplan.model.residency import Residency
from cpplan.program.anf import Program, to_anf
from cpplan.program.liveness import to_problem
from cpplan.program.pool_candidates import check_candidates
from cpplan.verification.rectangles import check_apart, cut_gaps


def as_program(source: Graph | Program | Problem) -> Program | Problem:
    """The program of a graph in its listed order; a program or a problem unchanged."""
    if isinstance(source, Graph):
        return to_anf(source)
    if isinstance(source, (Program, Problem)):
        return source
    raise InputError(
        f"expected a Graph, a Program or a Problem, not {type(source).__name__}: "
        "cpplan.load reads a model"
    )


def as_problem(
    source: Graph | Program | Problem,
    residency: Residency,
    pools: Sequence[Pool] | None = None,
) -> Problem:
    """The packing problem of a graph or a program; a problem unchanged.

    If there is a single pool, every buffer takes on its alignment.
    """
    source = as_program(source)
    problem = source if isinstance(source, Problem) else to_problem(source, residency, pools)
    if len(problem.pools) == 1:
        problem = problem.aligned_to(problem.pools[0].alignment)
        check_candidates(problem)
        _check_fixed(problem)
    return problem


def _check_fixed(problem: Problem) -> None:
    """Raise ``InputError`` if two buffers with fixed offsets overlap. O(n log n)."""
    rows = np.array(sorted(problem.fixed), np.int64)
    offsets = np.array([problem.fixed[row] for row in rows.tolist()], np.int64)
    given = problem.subset(rows)
    try:
        check_apart(cut_gaps(given), given.names, offsets)
    except VerificationError as error:
        raise InputError(f"the fixed offsets contradict each other: {error}") from error
