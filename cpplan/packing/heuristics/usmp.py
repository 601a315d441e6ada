"""TVM's Unified Static Memory Planner as it was published, including its defects.

``greedy_by_size``, ``greedy_by_conflicts`` and, in ``by_usmp``, ``hill_climb`` (TVM RFC 0009;
apache/tvm, ``src/tir/usmp/algo``) are here for comparison. They read conflict lists literally, even
if a conflict is listed in one direction only. Their results may be wrong:

* A conflict listed by one buffer only is missed if the other buffer is placed later.
* The next free address is rounded up to the alignment of the buffer below, not of the one above.
* Room between two conflicting buffers is missed, so that a problem that fits is reported not to:
  the greedy algorithms place a buffer above all its conflicts; hill climbing fills gaps, but gives
  up a pool as soon as there is no room above one conflict.
* In the greedy algorithms a pool given up for one conflict is used again after the next conflict,
  at an address that is free of only the latter.
* Hill climbing returns the layout it accepted last, which may be worse than the best it saw.

For planning, use ``greedy_by_size``, ``greedy_by_conflicts`` and ``hill_climb`` of
``cpplan.heuristics``, on several pools by ``run_in_pools``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from cpplan.model.errors import InfeasibleError, InputError
from cpplan.model.pool import Pool
from cpplan.model.problem import Gap, Ints, Problem


@dataclass(frozen=True, slots=True)
class UsmpBuffer:
    """USMP's ``BufferInfo``: size, candidate pools, and conflicting buffers.

    ``pools`` is in order of preference, ``conflicts`` as listed, ``alignment`` in bytes.
    """

    name: str
    size: int
    conflicts: tuple[str, ...] = ()
    pools: tuple[str, ...] = ("arena",)
    alignment: int = 1


class PoolAllocation(NamedTuple):
    """Place of a buffer by USMP: name of the pool, and byte offset in it."""

    pool: str
    offset: int


Allocations = dict[str, PoolAllocation]


@dataclass(frozen=True, slots=True)
class UsmpProblem:
    """Input of USMP's algorithms: buffers and pools.

    Attributes
    ----------
    buffers
        In any order; names are unique.
    pools
        Only names and capacities matter to USMP.

    Raises
    ------
    InputError
        If two buffers have the same name, or a buffer names an unknown pool or buffer.
    """

    buffers: tuple[UsmpBuffer, ...]
    pools: tuple[Pool, ...]

    def __post_init__(self) -> None:
        names = {buffer.name for buffer in self.buffers}
        if len(names) < len(self.buffers):
            raise InputError("two buffers have the same name")
        known = {pool.name for pool in self.pools}
        for buffer in self.buffers:
            for what, listed, right in (
                ("pool", buffer.pools, known),
                ("conflict", buffer.conflicts, names),
            ):
                wrong = next((name for name in listed if name not in right), None)
                if wrong is not None:
                    raise InputError(f"buffer {buffer.name!r}: unknown {what} {wrong!r}")

    def lists(self) -> dict[str, tuple[str, ...]]:
        """The conflict lists as given."""
        return {buffer.name: buffer.conflicts for buffer in self.buffers}

    def to_problem(self, name: str = "usmp") -> Problem:
        """The packing problem; every conflict counts in both directions."""
        return from_conflicts(
            {buffer.name: buffer.size for buffer in self.buffers},
            [(buffer.name, other) for buffer in self.buffers for other in buffer.conflicts],
            alignment={buffer.name: buffer.alignment for buffer in self.buffers},
            pools=self.pools,
            candidates={buffer.name: buffer.pools for buffer in self.buffers},
            name=name,
        )


def pool_totals(problem: UsmpProblem, allocations: Allocations) -> dict[str, int]:
    """Bytes used of every pool that holds a buffer."""
    totals: dict[str, int] = {}
    for buffer in problem.buffers:
        if buffer.name in allocations:
            pool, offset = allocations[buffer.name]
            totals[pool] = max(totals.get(pool, 0), offset + buffer.size)
    return totals


def usmp_greedy_by_size(problem: UsmpProblem) -> Allocations:
    """By decreasing size, ties by number of conflicts listed, then by name from z to a."""
    by_name = sorted(problem.buffers, key=lambda b: b.name, reverse=True)
    return _place_above(problem, sorted(by_name, key=lambda b: (-b.size, -len(b.conflicts))))


def usmp_greedy_by_conflicts(problem: UsmpProblem) -> Allocations:
    """By decreasing number of conflicts listed, ties by size, then by name from z to a."""
    by_name = sorted(problem.buffers, key=lambda b: b.name, reverse=True)
    return _place_above(problem, sorted(by_name, key=lambda b: (-len(b.conflicts), -b.size)))


def fits(pool: Pool, offset: int, size: int) -> bool:
    return pool.capacity is None or offset + size <= pool.capacity


def round_up(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment


def _place_above(problem: UsmpProblem, order: Sequence[UsmpBuffer]) -> Allocations:
    """Each buffer above all conflicts listed that are already in its pool."""
    pools = {pool.name: pool for pool in problem.pools}
    by_name = {buffer.name: buffer for buffer in problem.buffers}
    placed: Allocations = {}
    for buffer in order:
        free = {name: 0 for name in buffer.pools if fits(pools[name], 0, buffer.size)}
        for other in (by_name[name] for name in buffer.conflicts if name in placed):
            pool, offset = placed[other.name]
            above = round_up(offset + other.size, other.alignment)
            if not fits(pools[pool], above, buffer.size):
                free.pop(pool, None)
            elif above > free.get(pool, 0):
                free[pool] = above
        placed[buffer.name] = choose(buffer, free)
    return placed


def choose(buffer: UsmpBuffer, free: Mapping[str, int]) -> PoolAllocation:
    for pool in buffer.pools:
        if pool in free:
            return PoolAllocation(pool, free[pool])
    raise InfeasibleError(f"the space in the pools is exceeded by buffer {buffer.name!r}")


def from_conflicts(
    size: Mapping[str, int],
    conflicts: Iterable[tuple[str, str]],
    *,
    alignment: Mapping[str, int] | None = None,
    pools: Sequence[Pool] = (Pool(),),
    candidates: Mapping[str, Sequence[str]] | None = None,
    name: str = "problem",
) -> Problem:
    """The packing problem in which exactly these pairs of buffers may not share bytes.

    A pair counts in both directions, however it is listed; a buffer does not conflict with itself.
    O(buffers × conflicts).

    Parameters
    ----------
    size
        Buffer -> bytes; the order of the buffers is kept.
    conflicts
        Pairs of buffers.
    alignment
        Buffer -> alignment in bytes; 1 by default.
    pools
        Pools for the buffers, in order of preference.
    candidates
        Buffer -> names of its candidate pools, in order of preference; all pools by default.
    name
        Name of the problem.

    Raises
    ------
    InputError
        If a conflict, an alignment or a candidate names an unknown buffer, or a candidate an
        unknown pool.
    """
    row = {buffer: k for k, buffer in enumerate(size)}
    neighbours: list[set[int]] = [set() for _ in row]
    pairs = [(one, other) for one, other in conflicts]
    for buffer in [*(b for pair in pairs for b in pair), *(alignment or {})]:
        if buffer not in row:
            raise InputError(f"unknown buffer {buffer!r} among the conflicts or alignments")
    for one, other in pairs:
        if one != other:
            neighbours[row[one]].add(row[other])
            neighbours[row[other]].add(row[one])
    sizes = np.array(list(size.values()))
    steps_of: list[list[int]] = [[] for _ in row]
    for step, clique in enumerate(_clique_cover(sizes, neighbours)):
        for k in clique:
            steps_of[k].append(step)
    return Problem(
        tuple(size),
        lower=np.array([steps[0] for steps in steps_of], np.int64),
        upper=np.array([steps[-1] + 1 for steps in steps_of], np.int64),
        size=sizes,
        alignment=np.array([(alignment or {}).get(buffer, 1) for buffer in size]),
        gaps={k: gaps for k, steps in enumerate(steps_of) if (gaps := _gaps(steps))},
        pools=pools,
        candidates=_candidates(row, pools, candidates or {}),
        name=name,
    )


def _candidates(
    row: Mapping[str, int], pools: Sequence[Pool], candidates: Mapping[str, Sequence[str]]
) -> dict[int, tuple[int, ...]]:
    number = {pool.name: k for k, pool in enumerate(pools)}
    for buffer, names in candidates.items():
        if buffer not in row:
            raise InputError(f"unknown buffer {buffer!r} among the candidates")
        for name in names:
            if name not in number:
                known = ", ".join(number)
                raise InputError(f"buffer {buffer!r}: unknown pool {name!r}: expected {known}")
    return {row[b]: tuple(number[name] for name in names) for b, names in candidates.items()}


def _clique_cover(size: Ints, neighbours: Sequence[set[int]]) -> list[list[int]]:
    """Cliques that contain every edge and every vertex, grown from the largest buffers down.

    Large cliques of large buffers make the live-bytes bound strong; any cover is exact.
    """
    largest_first = sorted(range(len(size)), key=lambda k: (-int(size[k]), k))
    open_edges = [set(others) for others in neighbours]
    cliques = []
    for k in largest_first:
        if not neighbours[k]:
            cliques.append([k])
        while open_edges[k]:
            clique, common = [k], set(neighbours[k])
            # The first companion closes an open edge; others join if the clique stays one.
            first = next(other for other in largest_first if other in open_edges[k])
            for other in [first, *largest_first]:
                if other in common:
                    clique.append(other)
                    common &= neighbours[other]
            for member in clique:
                open_edges[member].difference_update(clique)
            cliques.append(sorted(clique))
    return cliques


def _gaps(steps: Sequence[int]) -> list[Gap]:
    return [Gap(one + 1, other) for one, other in pairwise(steps) if other > one + 1]
