"""Storages by CP-SAT: a smaller total, or a proof that there is none."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from cpplan.packing.reduction import reduce_problem
from cpplan.packing.tuning import active
from cpplan.runtime.budget import Budget
from cpplan.runtime.cp_sat_run import improve_by_model

if TYPE_CHECKING:
    from cpplan.model.problem import Ints, Problem

# Literals up to which CP-SAT shares storages: beyond that it takes minutes to start.
_STORAGES_LITERALS = 200_000

_logger = logging.getLogger(__name__)

NAME = "CP-SAT storages"


def improve(
    problem: Problem,
    group: Ints,
    storage: Ints,
    budget: Budget,
    *,
    bound: int = 0,
    found: Callable[[Ints], object],
    proved: Callable[[int], object],
) -> None:
    """Lower the total of an assignment until it is proved least or time is up.

    Parameters
    ----------
    problem, group
        Buffers to assign, and the group label of every row, shape ``(n,)``.
    storage
        A valid assignment to start from: storage numbers, shape ``(n,)``.
    budget
        Its deadline ends the run. With one worker, and enough time, the same input and seed give
        the same assignment.
    bound
        A proved bound on the total, bytes.
    found
        Called with the storage numbers of every solution, in the calling thread.
    proved
        Called with every bound on the total, bytes, in the calling thread.
    """
    reduction = reduce_problem(problem)
    rows = reduction.rows
    literals, entries = _literals(reduction.problem), count_entries(reduction.problem)
    if literals > _STORAGES_LITERALS or entries > active().section_entries:
        _logger.info(
            "CP-SAT skipped for storages: the model would have %d literals and %d entries",
            literals, entries,
        )  # fmt: skip
        return
    from formulations import shared_storage, storage_classes

    # Classes of equal storages have no symmetry, but need buffers without gaps.
    build = shared_storage.build if reduction.problem.gaps else storage_classes.build
    # Buffers that never hold a byte share the largest storage of their group, and enlarge it.
    aside = _aside(problem, group, rows)
    # With the hint's total as the limit, CP-SAT's neighbourhood searches write to stderr.
    upper = int(reduction.problem.size.sum())

    def restored(leaders: Ints) -> Ints:
        full = np.full(len(problem), -1, np.int64)
        full[rows] = rows[leaders]
        for label in np.unique(group[full < 0]).tolist():
            idle = np.flatnonzero((full < 0) & (group == label))
            holding = np.flatnonzero((full >= 0) & (group == label))
            largest = holding[np.argmax(problem.size[holding])] if len(holding) else idle[0]
            full[idle] = full[largest] if len(holding) else largest
        return full

    improve_by_model(
        lambda: build(reduction.problem, group[rows], upper=upper, lower=max(0, bound - aside)),
        storage[rows],
        budget,
        found=lambda leaders: found(restored(leaders)),
        proved=lambda value: proved(value + aside),
    )


def _aside(problem: Problem, group: Ints, rows: Ints) -> int:
    """Bytes by which buffers that never hold a byte enlarge the largest storage of each group."""
    holding = np.zeros(len(problem), bool)
    holding[rows] = True
    more = 0
    for label in np.unique(group).tolist():
        here = group == label
        largest = int(problem.size[here & holding].max(initial=0))
        more += max(0, int(problem.size[here & ~holding].max(initial=0)) - largest)
    return more


def _literals(problem: Problem) -> int:
    """Upper bound on the number of literals of a model."""
    count = len(problem)
    choices = count if problem.gaps else len(np.unique(problem.size))
    return count * choices // 2


def count_entries(problem: Problem) -> int:
    """Upper bound on the literals of the constraints on live buffers at a step. O(n log n)."""
    spans = problem.spans
    steps = np.zeros(len(problem), np.int64)
    np.add.at(steps, spans.buffer, spans.upper - spans.lower)
    if problem.gaps:
        return int(steps.sum()) * len(problem)
    sizes = np.unique(problem.size)
    return int((steps * (len(sizes) - np.searchsorted(sizes, problem.size))).sum())
