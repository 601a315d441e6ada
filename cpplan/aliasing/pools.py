"""Packing of a program or a problem into several pools, with or without aliases."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cpplan.aliasing.packed import Packed, PooledResult
from cpplan.aliasing.pool_choices import Choices
from cpplan.model.levels import Level
from cpplan.model.plan_data import RelationKind, Status
from cpplan.model.pool import Objective
from cpplan.model.problem import Ints, Problem
from cpplan.model.residency import Residency
from cpplan.packing.heuristics.in_pools import run_in_pools
from cpplan.packing.pools.bounds import bound_levels
from cpplan.packing.pools.objective import levels_value, objective_levels
from cpplan.packing.pools.solve import PooledPacking, pack_pools
from cpplan.program.anf import Program
from cpplan.program.pool_candidates import check_candidates
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline, TimeUpError


def pack_in_pools(
    source: Program | Problem,
    problem: Problem,
    residency: Residency,
    objective: Objective,
    budget: Budget,
    *,
    sharing: frozenset[RelationKind] = frozenset(),
    algorithm: str | None = None,
    report: Callable[[object, object, str], None] = lambda value, bound, source: None,
) -> Packed:
    """The best layout over several pools found in time.

    With sharing, several choices of candidates are packed, first the one with all candidates that
    go together. The bounds of these packings hold for one choice only and are replaced by weaker
    bounds that hold for every choice.
    """
    levels, deadline = objective_levels(problem, objective), budget.deadline

    def packing(part: Problem, row: Ints, deadline: Deadline) -> PooledPacking:
        here = [level.merged(row) for level in levels]
        if algorithm is not None:
            return _by_algorithm(algorithm, part, here, deadline)
        return pack_pools(part, objective, budget.until(deadline), levels=here, report=report)

    if not sharing or not isinstance(source, Program):
        alone = packing(problem, np.arange(len(problem)), deadline)
        return Packed(source, problem, pooled=PooledResult(alone, objective))
    choices = Choices(source, problem, residency, sharing, levels, packing)
    best = choices.search(budget) if algorithm is None else choices.all_shared(deadline)
    relations = tuple(candidate.relation for candidate in best.candidates)
    return Packed(source, problem, pooled=PooledResult(best.packing, objective, sharing, relations))


def _by_algorithm(
    name: str, problem: Problem, levels: Sequence[Level], deadline: Deadline
) -> PooledPacking:
    """The packing by one heuristic alone, pool after pool."""
    check_candidates(problem)
    try:
        layout = run_in_pools(name, problem, deadline)
    except TimeUpError:
        layout = None
    if layout is None:
        message = f"algorithm {name!r} found no place for all buffers in time or within the pools"
        return PooledPacking("unknown", None, None, (), (), None, (), message)
    value = levels_value(problem, levels, *layout)
    bound, names = bound_levels(problem, levels, value)
    status: Status = "optimal" if value == bound else "feasible"
    return PooledPacking(status, layout.pool, layout.offset, value, bound, name, names)
