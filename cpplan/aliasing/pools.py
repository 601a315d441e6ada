"""Packing of a program or a problem into several pools, with or without aliases.

With aliases, several choices of candidates are packed, and the best one is kept. Bounds are of the
bytes that no choice shares. Every plan that shares bytes is also a layout of a smaller problem in
which nothing is shared:

* a result that an op may write over an input ending there is live only from the next step on;
* of storages that placements join, with those that results are written over or from, only the
  largest live one counts at a step.

Bounds of this problem therefore hold for every choice.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpplan.aliasing.alias_candidates import AliasCandidate
from cpplan.aliasing.alias_sets import form_alias_sets
from cpplan.aliasing.bounds import NAME as SHARED
from cpplan.aliasing.lives import ProgramLives
from cpplan.aliasing.merged import merge_alias_sets
from cpplan.aliasing.packed import Packed, PooledResult
from cpplan.aliasing.solve import SharingSearch
from cpplan.model.levels import Level
from cpplan.model.plan_data import RelationKind, Status
from cpplan.model.pool import Objective
from cpplan.model.problem import Gap, Ints, Problem
from cpplan.model.residency import Residency
from cpplan.packing.heuristics.in_pools import run_in_pools
from cpplan.packing.pools.bounds import bound_levels, excess_bound
from cpplan.packing.pools.objective import levels_value, objective_levels
from cpplan.packing.pools.solve import PooledPacking, pack_pools
from cpplan.program.anf import Program
from cpplan.program.pool_candidates import check_candidates
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline, TimeUpError

# With several pools: share of the time left for each choice of candidates.
_POOLS_CHOICE_SHARE = 0.6


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


class Choice(NamedTuple):
    """A choice of candidates: those left out, those in force, and the packing."""

    skip: frozenset[AliasCandidate]
    candidates: Sequence[AliasCandidate]
    packing: PooledPacking

    @property
    def done(self) -> bool:
        """True if no other choice can be better."""
        return self.packing.status in ("optimal", "infeasible")

    def value(self) -> tuple[int | float, ...]:
        """Objective of the packing; infinite if there is none."""
        return self.packing.objective_value or (math.inf,)


class Choices:
    """Choices of alias candidates of a program, each packed over all its pools.

    Parameters
    ----------
    packing
        Packs a problem of alias sets; the second argument is the set of each buffer.
    """

    def __init__(
        self,
        source: Program,
        problem: Problem,
        residency: Residency,
        sharing: frozenset[RelationKind],
        levels: Sequence[Level],
        packing: Callable[[Problem, Ints, Deadline], PooledPacking],
    ):
        self._source, self._problem, self._residency = source, problem, residency
        self._sharing, self._levels, self._packing = sharing, levels, packing
        self._sets = SharingSearch(source, _on_every_grid(problem), residency, kinds=sharing)
        self._apart = unshared_problem(problem, self._sets.candidates, self._sets.lives)

    def search(self, budget: Budget) -> Choice:
        """The best of some choices, and of those that leave out one more candidate at a time."""
        deadline, share = budget.deadline, _POOLS_CHOICE_SHARE
        first, *others = _left_out(self._problem, self._sets.candidates)
        best = self._choose(first, deadline.share(share))
        if not (best.done or deadline.expired()):
            together = self._in_first_pool(budget, deadline.share(share))
            best = best if together is None else min(best, together, key=Choice.value)
        for skip in others:
            if not (best.done or deadline.expired()):
                best = min(best, self._choose(skip, deadline.share(share)), key=Choice.value)
        return self._leave_out(best, deadline)

    def all_shared(self, deadline: Deadline) -> Choice:
        """The packing with all candidates in force that go together."""
        return self._choose(frozenset(), deadline)

    def _choose(self, skip: frozenset[AliasCandidate], deadline: Deadline) -> Choice:
        """The packing with candidates in force that go together, without those to skip."""
        alias_sets = form_alias_sets(self._sets.candidates, self._sets.rules, skip)
        merged = merge_alias_sets(self._problem, alias_sets)
        packed = self._packing(merged.problem, merged.row, deadline)
        if packed.offset is not None and packed.pool is not None:
            pool, offset = packed.pool[merged.row], merged.spread(packed.offset)
            value = levels_value(self._problem, self._levels, pool, offset)
            packed = replace(packed, pool=pool, offset=offset, objective_value=value)
        return Choice(skip, alias_sets.candidates, self._bounded(packed))

    def _in_first_pool(self, budget: Budget, slot: Deadline) -> Choice | None:
        """The choice found with all buffers in the first pool, or ``None`` if it is too small."""
        problem = self._problem
        everyone = np.arange(len(problem))
        capacity = problem.pools[0].capacity
        if any(problem.candidates_of(row)[0] for row in everyone.tolist()):
            return None
        alone = SharingSearch(
            self._source,
            problem.in_pool(0, everyone),
            self._residency,
            kinds=self._sharing,
            limit=capacity,
            seed=budget.seed,
        )
        alone.run(budget.until(slot))
        if capacity is not None and alone.best.peak > capacity:
            return None
        pool, offset = np.zeros(len(problem), np.int64), alone.best.offsets
        value = levels_value(problem, self._levels, pool, offset)
        name = alone.best.incumbent.found_by
        packed = self._bounded(PooledPacking("feasible", pool, offset, value, (), name, ()))
        return Choice(alone.best.skip, alone.best.alias_sets.candidates, packed)

    def _leave_out(self, best: Choice, deadline: Deadline) -> Choice:
        """Leave out candidates of buffers that cost less in another pool, one at a time."""
        row = {name: k for k, name in enumerate(self._problem.names)}
        tried: set[AliasCandidate] = set()
        while not (best.done or deadline.expired() or best.packing.pool is None):
            dear = _dear(self._problem, self._levels, best.packing.pool)
            left = (k for k in best.candidates if dear[row[k.inner]] or dear[row[k.outer]])
            candidate = next((candidate for candidate in left if candidate not in tried), None)
            if candidate is None:
                break
            tried.add(candidate)
            slot = deadline.share(_POOLS_CHOICE_SHARE)
            best = min(best, self._choose(best.skip | {candidate}, slot), key=Choice.value)
        return best

    def _bounded(self, packing: PooledPacking) -> PooledPacking:
        return _with_bound(packing, self._apart, self._levels, self._sets.bound.value)


def _dear(problem: Problem, levels: Sequence[Level], pool: Ints) -> NDArray[np.bool_]:
    """Mask of the buffers that cost less in another of their pools."""
    rows = np.arange(len(problem))
    dear = np.zeros(len(problem), bool)
    for level in levels:
        least = [level.access[k, list(problem.candidates_of(k))].min() for k in rows.tolist()]
        dear |= level.access[rows, pool] > np.array(least, np.int64)
    return dear


def _left_out(
    problem: Problem, candidates: Sequence[AliasCandidate]
) -> list[frozenset[AliasCandidate]]:
    """Sets of candidates to leave out, each tried once.

    No candidate; the candidates between a storage that fits into its first pool and one that does
    not; all placements; all in-place candidates; all candidates.
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


def _with_bound(
    packing: PooledPacking, apart: Problem, levels: Sequence[Level], floor: int
) -> PooledPacking:
    """The packing with a bound that holds for any aliases."""
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
    """Status and message if no layout was found: infeasible if none exists with any aliases."""
    limits = [pool.capacity for pool in apart.pools]
    room = sum(limit for limit in limits if limit is not None)
    if None not in limits and floor > room:
        missing = f"{floor} B are needed with any aliases, and the pools hold {room} B"
        return "infeasible", f"does not fit: {floor - room} B are missing: {missing}"
    excess = excess_bound(apart)
    if excess.value:
        missing = f"{excess.value} B are missing with any aliases ({excess.name})"
        return "infeasible", f"does not fit: {missing}"
    return "unknown", (
        "no plan within the capacities was found in time. With the aliases tried last, where one "
        f"buffer stands for all tensors that share its bytes: {packing.message}"
    )


def unshared_problem(
    problem: Problem, candidates: Sequence[AliasCandidate], lives: ProgramLives
) -> Problem:
    """The problem with gaps wherever all bytes of a buffer may be those of another one.

    O(n + candidates + the square of the storages that placements join).
    """
    row = {name: k for k, name in enumerate(problem.names)}
    handed_over = [
        candidate
        for candidate in candidates
        if candidate.in_place and lives.hands_over(candidate.outer, candidate.inner, candidate.op)
    ]
    placements = [candidate for candidate in candidates if not candidate.in_place]
    gaps = {
        row[candidate.inner]: [Gap(step, step + 1)]
        for candidate in handed_over
        for step in [lives.step[candidate.op]]
    }
    for names in _joined(placements, handed_over):
        rows = np.array(sorted(row[name] for name in names), np.int64)
        for k in rows.tolist():
            gaps.pop(k, None)
        gaps.update(_hidden_behind_the_largest(problem, rows))
    return replace(problem, gaps={**problem.gaps, **gaps})


def _joined(
    placements: Sequence[AliasCandidate], handed_over: Sequence[AliasCandidate]
) -> Iterator[set[str]]:
    """Sets of storages that candidates connect, if one of these is a placement."""
    neighbours: dict[str, list[str]] = defaultdict(list)
    for candidate in (*placements, *handed_over):
        neighbours[candidate.inner].append(candidate.outer)
        neighbours[candidate.outer].append(candidate.inner)
    seen: set[str] = set()
    for start in dict.fromkeys(candidate.outer for candidate in placements):
        if start in seen:
            continue
        found, waiting = {start}, [start]
        while waiting:
            others = set(neighbours[waiting.pop()]) - found
            found |= others
            waiting += others
        seen |= found
        yield found


def _hidden_behind_the_largest(problem: Problem, rows: Ints) -> dict[int, list[Gap]]:
    """Row -> the stretches of steps at which another of the live rows is larger."""
    lower, upper, size = problem.lower[rows], problem.upper[rows], problem.size[rows]
    times = np.unique(np.concatenate([lower, upper]))
    first, last = np.searchsorted(times, lower), np.searchsorted(times, upper)
    # From each time to the next, the largest live row; the smallest number if several are.
    largest = np.full(len(times), -1, np.int64)
    for k in np.lexsort((-rows, size)).tolist():
        largest[first[k] : last[k]] = k
    return {
        int(rows[k]): [
            Gap(int(times[t]), int(times[t + 1]))
            for t in range(int(first[k]), int(last[k]))
            if largest[t] != k
        ]
        for k in range(len(rows))
        if (largest[first[k] : last[k]] != k).any()
    }
