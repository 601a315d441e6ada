"""CP-SAT on several pools: a pool for every buffer and, optionally, an offset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from cpplan.model.levels import Level
from cpplan.model.problem import Ints, Problem
from cpplan.packing.heuristics.in_pools import PoolLayout
from cpplan.packing.reduction import address_unit
from cpplan.packing.tuning import active
from cpplan.runtime.budget import Budget
from cpplan.runtime.cp_sat_run import improve_by_model

NAME, LIQUID_NAME = "CP-SAT", "CP-SAT on live bytes"


class LevelProblem(NamedTuple):
    """A level to be minimised, and what solutions must keep.

    Attributes
    ----------
    problem
        A reduced problem.
    levels, values
        The earlier levels and their limits; then the level itself and its value in the start.
    limits
        Limits on the peaks, bytes.
    lower
        A proved bound on the level.
    liquid
        True to assign only pools, as if bytes were a liquid; offsets are zero.
    """

    problem: Problem
    levels: Sequence[Level]
    values: Sequence[int]
    limits: Sequence[int | None]
    lower: int
    liquid: bool


def search_level(
    task: LevelProblem,
    start: PoolLayout,
    budget: Budget,
    *,
    work: float,
    found: Callable[[PoolLayout], object],
    proved: Callable[[int], None],
    peaks: Ints | None = None,
) -> bool:
    """Minimise the last of some levels while the earlier ones keep within their values.

    Parameters
    ----------
    task
        The problem, the levels, and their limits.
    start
        A layout within all limits, for the hint.
    budget
        Its deadline ends the run.
    work
        Most units of CP-SAT's deterministic time.
    found, proved
        Called with every layout or assignment; called with every bound on the last level.
    peaks
        Peaks of ``start``, if it assigns only pools.

    Returns
    -------
    bool
        True if the model was small enough to be tried.
    """
    from formulations.pools import Former, Placement, build

    problem, spans = task.problem, task.problem.spans
    entries = int((spans.upper - spans.lower).sum())
    if entries * len(problem.pools) > active().pools_entries:
        return False
    return improve_by_model(
        lambda: build(
            problem,
            task.levels[-1],
            units=pool_units(problem),
            limits=task.limits,
            former=[Former(*pair) for pair in zip(task.levels[:-1], task.values[:-1], strict=True)],
            lower=task.lower,
            liquid=task.liquid,
        ),
        Placement(*start, peaks),
        budget,
        found=lambda placement: found(PoolLayout(placement.pool, placement.offset)),
        proved=proved,
        work=work,
        # Without rectangles the model is a set of knapsacks: there the relaxation pays.
        linearization=1 if task.liquid else 0,
    )


def pool_units(problem: Problem) -> list[int]:
    """Address unit of each pool, bytes; valid for any subset of its candidates."""
    units = []
    for number in range(len(problem.pools)):
        rows = [row for row in range(len(problem)) if number in problem.candidates_of(row)]
        units.append(address_unit(problem.in_pool(number, np.array(rows, np.int64))))
    return units
