"""Packing of a program or a problem into several pools, with or without aliases."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpplan.aliasing.alias_candidates import AliasCandidate
from cpplan.aliasing.alias_sets import form_alias_sets
from cpplan.aliasing.bounds import NAME as SHARED
from cpplan.aliasing.merged import merge_alias_sets
from cpplan.aliasing.packed import Packed
from cpplan.aliasing.solve import SharingSearch
from cpplan.aliasing.tuning import active
from cpplan.model.plan import Relation, RelationKind, Status
from cpplan.model.pool import Objective
from cpplan.model.problem import Ints, Problem
from cpplan.model.residency import Residency
from cpplan.packing.heuristics.in_pools import run_in_pools
from cpplan.packing.pools.bounds import bound_levels, excess_bound
from cpplan.packing.pools.objective import Level, levels_value, objective_levels
from cpplan.packing.pools.solve import PooledPacking, pack_pools
from cpplan.program.anf import Program
from cpplan.program.pool_candidates import check_candidates
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline, TimeUpError
from cpplan.verification.access_trace import replay
from cpplan.verification.never_shared import never_shared


@dataclass(frozen=True, slots=True)
class PooledResult:
    """A layout of the original buffers over several pools, and the relations it uses."""

    packing: PooledPacking
    objective: Objective
    sharing: frozenset[RelationKind] = frozenset()
    relations: tuple[Relation, ...] = ()


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

    With sharing, several choices of candidates are packed, first all that go together. The bounds
    of these packings hold for one choice only and are replaced by weaker ones.
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
    search = SharingSearch(source, _on_every_grid(problem), residency, kinds=sharing)
    apart = never_shared(problem, sharing, *replay(source, residency))

    def choose(skip: frozenset[AliasCandidate], deadline: Deadline) -> _Choice:
        alias_sets = form_alias_sets(search.candidates, search.rules, skip)
        merged = merge_alias_sets(problem, alias_sets)
        packed = packing(merged.problem, merged.row, deadline)
        if packed.offset is not None and packed.pool is not None:
            pool, offset = packed.pool[merged.row], merged.spread(packed.offset)
            value = levels_value(problem, levels, pool, offset)
            packed = replace(packed, pool=pool, offset=offset, objective_value=value)
        bounded = _bounded(packed, apart, levels, search.bound.value)
        return _Choice(skip, alias_sets.candidates, bounded)

    def first_pool(slot: Deadline) -> _Choice | None:
        """The choice found with all buffers in the first pool, or ``None`` if it is too small."""
        everyone = np.arange(len(problem))
        capacity = problem.pools[0].capacity
        if any(problem.candidates_of(row)[0] for row in everyone.tolist()):
            return None
        alone = SharingSearch(
            source,
            problem.in_pool(0, everyone),
            residency,
            kinds=sharing,
            limit=capacity,
            seed=budget.seed,
        )
        try:
            alone.run(budget.until(slot))
        except KeyboardInterrupt:
            deadline.cancel()
        if capacity is not None and alone.best.peak > capacity:
            return None
        pool, offset = np.zeros(len(problem), np.int64), alone.best.offsets
        value = levels_value(problem, levels, pool, offset)
        name = alone.best.incumbent.found_by
        packed = PooledPacking("feasible", pool, offset, value, (), name, ())
        bounded = _bounded(packed, apart, levels, search.bound.value)
        return _Choice(alone.best.skip, alone.best.alias_sets.candidates, bounded)

    if algorithm is not None:
        best = choose(frozenset(), deadline)
    else:
        first, *others = _choices(problem, search.candidates)
        best = choose(first, deadline.share(active().pools_choice_share))
        if not (best.done or deadline.expired()):
            together = first_pool(deadline.share(active().pools_choice_share))
            best = best if together is None else min(best, together, key=_Choice.value)
        for skip in others:
            if not (best.done or deadline.expired()):
                best = min(
                    best,
                    choose(skip, deadline.share(active().pools_choice_share)),
                    key=_Choice.value,
                )
        best = _leave_out(problem, levels, best, choose, deadline)
    relations = tuple(candidate.relation for candidate in best.candidates)
    return Packed(source, problem, pooled=PooledResult(best.packing, objective, sharing, relations))


class _Choice(NamedTuple):
    """A choice of candidates: those left out, those in force, and the packing."""

    skip: frozenset[AliasCandidate]
    candidates: Sequence[AliasCandidate]
    packing: PooledPacking

    @property
    def done(self) -> bool:
        return self.packing.status in ("optimal", "infeasible")

    def value(self) -> tuple[int | float, ...]:
        return self.packing.objective_value or (math.inf,)


def _leave_out(
    problem: Problem,
    levels: Sequence[Level],
    best: _Choice,
    choose: Callable[[frozenset[AliasCandidate], Deadline], _Choice],
    deadline: Deadline,
) -> _Choice:
    """Leave out candidates of buffers that cost less in another pool, one at a time, if better."""
    row = {name: k for k, name in enumerate(problem.names)}
    tried: set[AliasCandidate] = set()
    while not (best.done or deadline.expired() or best.packing.pool is None):
        dear = _dear(problem, levels, best.packing.pool)
        left = (k for k in best.candidates if dear[row[k.inner]] or dear[row[k.outer]])
        candidate = next((candidate for candidate in left if candidate not in tried), None)
        if candidate is None:
            break
        tried.add(candidate)
        slot = deadline.share(active().pools_move_share)
        best = min(best, choose(best.skip | {candidate}, slot), key=_Choice.value)
    return best


def _dear(problem: Problem, levels: Sequence[Level], pool: Ints) -> NDArray[np.bool_]:
    """Mask of the buffers that cost less in another of their pools."""
    rows = np.arange(len(problem))
    dear = np.zeros(len(problem), bool)
    for level in levels:
        least = [level.access[k, list(problem.candidates_of(k))].min() for k in rows.tolist()]
        dear |= level.access[rows, pool] > np.array(least, np.int64)
    return dear


def _choices(
    problem: Problem, candidates: Sequence[AliasCandidate]
) -> list[frozenset[AliasCandidate]]:
    """Sets of candidates to leave out, each tried once.

    None; those between a storage that fits into its first pool and one that does not; all
    placements; all in place; all.
    """
    row = {name: k for k, name in enumerate(problem.names)}

    def fits(name: str) -> bool:
        capacity = problem.pools[problem.candidates_of(row[name])[0]].capacity
        return capacity is None or bool(problem.size[row[name]] <= capacity)

    in_place = frozenset(candidate for candidate in candidates if candidate.in_place)
    dragging = frozenset(
        candidate for candidate in candidates if fits(candidate.outer) != fits(candidate.inner)
    )
    everything = frozenset(candidates)
    return list(dict.fromkeys((frozenset(), dragging, everything - in_place, in_place, everything)))


def _on_every_grid(problem: Problem) -> Problem:
    """The problem with buffers aligned for all their pools, so that a place in a set suits each."""
    grids = [
        math.lcm(int(own), *(problem.pools[k].alignment for k in problem.candidates_of(row)))
        for row, own in enumerate(problem.alignment)
    ]
    return replace(problem, alignment=np.array(grids, np.int64))


def _bounded(
    packing: PooledPacking, apart: Problem, levels: Sequence[Level], floor: int
) -> PooledPacking:
    """The packing with a bound that holds whatever is shared."""
    value = packing.objective_value
    if packing.offset is None:
        # Buffers that do not fit with these candidates may fit with others.
        status, message = _shortfall(packing, apart, floor)
        return replace(
            packing, status=status, objective_bound=(), bound_by=(SHARED,), message=message
        )
    bound, _ = bound_levels(apart, levels, value, floor)
    proved: Status = "optimal" if value == bound else "feasible"
    return replace(packing, status=proved, objective_bound=bound, bound_by=(SHARED,))


def _shortfall(packing: PooledPacking, apart: Problem, floor: int) -> tuple[Status, str]:
    """Status and message if no layout was found: infeasible if none exists whatever is shared."""
    limits = [pool.capacity for pool in apart.pools]
    room = sum(limit for limit in limits if limit is not None)
    if None not in limits and floor > room:
        missing = f"{floor} B are needed whatever is shared, and the pools hold {room} B"
        return "infeasible", f"does not fit: {floor - room} B are missing: {missing}"
    excess = excess_bound(apart)
    if excess.value:
        missing = f"{excess.value} B are missing whatever is shared ({excess.name})"
        return "infeasible", f"does not fit: {missing}"
    return "unknown", (
        "no plan within the capacities was found in time. Of the last choice of what to share, in "
        f"which a buffer stands for all that share its bytes: {packing.message}"
    )


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
