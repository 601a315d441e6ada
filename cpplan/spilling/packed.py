"""Moves of a choice of gaps, and the offsets of its buffers in both pools.

Retentions of storages in the fast pool: runs of accesses with all gaps between them kept.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cpplan.aliasing.alias_candidates import has_candidates
from cpplan.aliasing.solve import SharingSearch
from cpplan.model.errors import VerificationError
from cpplan.model.graph import Graph, Op
from cpplan.model.moves import Move
from cpplan.model.plan_data import Relation
from cpplan.model.pool import Pool
from cpplan.model.problem import Ints, Problem
from cpplan.model.residency import Residency
from cpplan.model.spill_problem import Flags, SpillProblem
from cpplan.packing.incumbent import Incumbent
from cpplan.packing.solve import pack, run_heuristics
from cpplan.program.anf import Program
from cpplan.program.copy_names import CopyNames
from cpplan.program.liveness import to_problem
from cpplan.program.moved import MovedProgram, program_with_moves
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import TimeUpError
from cpplan.spilling.moves import NOTHING_HIDDEN, Hidden, order_with_moves
from cpplan.spilling.search.addresses import NAME
from cpplan.verification.verifier import check_offsets

# Share of the time left for packing the slow pool.
_SLOW_SHARE = 0.2


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Moves and offsets of one choice of gaps.

    Attributes
    ----------
    moved
        The program with its moves as ops.
    order, moves
        Names of the steps, and the moves.
    problem
        The buffers, in both pools.
    pool, offset
        Pool and offset of each buffer.
    relations
        Tensors that share bytes by choice.
    peaks
        Bytes used in the fast and in the slow pool.
    found_by
        The search that packed the fast pool.
    least
        Lower bound on the bytes used in the fast pool, with any offsets.
    """

    moved: MovedProgram
    order: tuple[str, ...]
    moves: tuple[Move, ...]
    problem: Problem
    pool: Ints
    offset: Ints
    relations: tuple[Relation, ...]
    peaks: tuple[int, int]
    found_by: str | None
    least: int = 0

    @property
    def fits(self) -> bool:
        """True if both pools hold their buffers."""
        return all(
            pool.capacity is None or peak <= pool.capacity
            for pool, peak in zip(self.problem.pools, self.peaks, strict=True)
        )

    @property
    def impossible(self) -> bool:
        """True if the fast pool is proved too small for its buffers."""
        capacity = self.problem.pools[0].capacity
        return capacity is not None and self.least > capacity


def lay_out(
    program: Program,
    residency: Residency,
    problem: SpillProblem,
    kept: Flags,
    pools: tuple[Pool, Pool],
    budget: Budget,
    *,
    share: bool,
    quick: bool = False,
    hidden: Hidden = NOTHING_HIDDEN,
    places: Ints | None = None,
) -> Layout:
    """Moves of a choice of gaps, and the best offsets found within the budget.

    The search for offsets ends once all buffers fit into the fast pool. The slow pool is packed by
    heuristics, and by searches only if these do not fit its capacity.

    Parameters
    ----------
    program, residency
        The model in its order.
    problem
        Its spilling problem.
    kept
        Gaps kept.
    pools
        The fast and the slow pool.
    budget
        Budget for packing.
    share
        True if an op may write over an input that no later op reads.
    quick
        True to pack by heuristics only.
    hidden
        Copies that run while ops run.
    places
        Offset of each access in the fast pool, if known: they are then taken without a search.
    """
    names = pools[0].name, pools[1].name
    order, moves = order_with_moves(problem, kept, names, hidden)
    moved = program_with_moves(
        program.graph, residency, order, moves, names, storages=problem.storages
    )
    buffers = to_problem(moved.program, residency, pools)
    pool = np.zeros(len(buffers), np.int64)
    pool[[*buffers.candidates]] = [first for first, *_ in buffers.candidates.values()]
    offset = np.zeros(len(buffers), np.int64)
    rows = np.flatnonzero(pool == 0)
    program_there, part = _in_pool(moved.program, names[0]), buffers.in_pool(0, rows)
    if places is None:
        fast = _pack_fast(program_there, part, residency, budget, share=share, quick=quick)
    else:
        there = _offsets_at(places, problem, kept, program.graph, part)
        fast = _adopt(program_there, part, residency, there, share=share)
    offset[rows] = fast.offset
    rows = np.flatnonzero(pool == 1)
    slow = _pack_slow(buffers.in_pool(1, rows), budget)
    offset[rows] = slow.offset
    peaks = fast.peak, slow.peak
    return Layout(
        moved, order, moves, buffers, pool, offset, fast.relations, peaks, fast.found_by, fast.least
    )  # fmt: skip


class _Packed(NamedTuple):
    """Offsets of the buffers in one pool."""

    offset: Ints
    peak: int
    found_by: str | None
    relations: tuple[Relation, ...] = ()
    least: int = 0


def _pack_fast(
    program: Program,
    part: Problem,
    residency: Residency,
    budget: Budget,
    *,
    share: bool,
    quick: bool,
) -> _Packed:
    """Offsets in the fast pool; the search ends once its capacity holds them."""
    target = part.pools[0].capacity
    if share and has_candidates(program.graph, residency, {"in place"}):
        search = SharingSearch(
            program, part, residency, kinds={"in place"}, target=target, seed=budget.seed
        )
        if quick:
            best = search.choose_all()
            with suppress(TimeUpError):
                run_heuristics(best.incumbent, budget.deadline)
        else:
            search.run(budget)
            best = search.best
        relations = tuple(candidate.relation for candidate in best.alias_sets.candidates)
        least = search.bound.value
        return _Packed(best.offsets, best.peak, best.incumbent.found_by, relations, least)
    incumbent = Incumbent(part, target=target)
    pack(incumbent, budget, most_effort=0 if quick else None)
    offset = incumbent.reduction.restore(incumbent.offsets, part)
    return _Packed(offset, incumbent.peak, incumbent.found_by, (), incumbent.bound.value)


def _offsets_at(
    places: Ints, problem: SpillProblem, kept: Flags, graph: Graph, part: Problem
) -> Ints:
    """Offset of each buffer of the fast pool, from the offsets of the accesses."""
    names = CopyNames(tensor.name for tensor in graph.tensors)
    found = {
        names.copy(retention.storage, retention.number): int(places[retention.accesses[0]])
        for retention in find_retentions(problem, kept)
    }
    offsets: Ints = np.array([found.get(name, 0) for name in part.names], np.int64)
    return offsets


def places_of(layout: Layout, problem: SpillProblem, kept: Flags, graph: Graph) -> Ints:
    """Offset of each access in the fast pool of a layout, or -1, shape ``(accesses,)``."""
    names = CopyNames(tensor.name for tensor in graph.tensors)
    rows = zip(layout.problem.names, layout.offset.tolist(), layout.pool.tolist(), strict=True)
    offset = {name: offset for name, offset, pool in rows if pool == 0}
    places: Ints = np.full(len(problem.access_step), -1, np.int64)
    for retention in find_retentions(problem, kept):
        places[retention.accesses] = offset.get(names.copy(retention.storage, retention.number), -1)
    return places


def _adopt(
    program: Program, part: Problem, residency: Residency, offsets: Ints, *, share: bool
) -> _Packed:
    """Packing with given offsets in the fast pool, and the aliases that make them valid."""
    target = part.pools[0].capacity
    if share and has_candidates(program.graph, residency, {"in place"}):
        search = SharingSearch(program, part, residency, kinds={"in place"}, target=target)
        search.adopt(offsets, NAME)
        best = search.best
        relations = tuple(candidate.relation for candidate in best.alias_sets.candidates)
        return _Packed(best.offsets, best.peak, best.incumbent.found_by, relations)
    incumbent = Incumbent(part, target=target)
    with suppress(VerificationError):
        check_offsets(part, offsets, NAME)
        incumbent.offer(offsets[incumbent.reduction.rows], NAME)
    return _Packed(
        incumbent.reduction.restore(incumbent.offsets, part), incumbent.peak, incumbent.found_by
    )


def _pack_slow(part: Problem, budget: Budget) -> _Packed:
    """Offsets in the slow pool: by heuristics, then by searches if a capacity is exceeded."""
    target = part.pools[0].capacity
    incumbent = Incumbent(part, target=target)
    with suppress(TimeUpError):
        run_heuristics(incumbent, budget.deadline.share(_SLOW_SHARE))
    if target is not None and not incumbent.good_enough:
        pack(incumbent, budget.share(_SLOW_SHARE))
    offset = incumbent.reduction.restore(incumbent.offsets, part)
    return _Packed(offset, incumbent.peak, incumbent.found_by)


def _in_pool(program: Program, pool: str) -> Program:
    """The program without the tensors of other pools."""
    graph = program.graph
    away = {t.name for t in graph.tensors if t.pools is not None and t.pools != (pool,)}
    # Empty views lie in no bytes; without their base they are not needed.
    views = [t for t in graph.tensors if t.view_of is not None and t.name in graph.empty]
    while more := {t.name for t in views if t.view_of[0] in away} - away:  # type: ignore[index]
        away |= more

    def here(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple([name for name in names if name not in away])

    def left(op: Op) -> Op:
        """The op without its accesses of tensors in other pools; most ops have none."""
        if away.isdisjoint(op.tensors):
            return op
        return Op(
            name=op.name,
            kind=op.kind,
            inputs=here(op.inputs),
            outputs=here(op.outputs),
            workspaces=here(op.workspaces),
            cost=op.cost,
            recomputable=op.recomputable,
            in_place=tuple([pair for pair in op.in_place if away.isdisjoint(pair)]),
            placements=tuple([p for p in op.placements if away.isdisjoint((p.part, p.whole))]),
            bodies=op.bodies,
            after=op.after,
            sequence=op.sequence,
        )

    ops = tuple(map(left, graph.ops))
    tensors = tuple(t for t in graph.tensors if t.name not in away)
    return Program(Graph(graph.name, tensors, ops), program.order)


class Retention(NamedTuple):
    """A storage, the number of its copy in the fast pool, and the accesses of that copy."""

    storage: str
    number: int
    accesses: list[int]


def find_retentions(problem: SpillProblem, kept: Flags) -> list[Retention]:
    """All retentions that follow from a choice of gaps, sorted by storage, then by time."""
    near = problem.near(kept)
    follows = np.zeros(len(near), bool)
    inner = kept & (problem.gap_before >= 0) & (problem.gap_after >= 0)
    follows[problem.gap_after[inner]] = True
    found: list[Retention] = []
    for access in np.flatnonzero(near).tolist():
        name = problem.names[int(problem.access_storage[access])]
        if follows[access]:
            found[-1].accesses.append(access)
        else:
            number = found[-1].number + 1 if found and found[-1].storage == name else 0
            found.append(Retention(name, number, [access]))
    return found
