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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cpplan.model.errors import InfeasibleError, InputError
from cpplan.model.pool import Pool
from cpplan.model.problem import Problem
from cpplan.packing.heuristics.conflicts import from_conflicts


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
    """By decreasing size, ties by number of conflicts listed, then by name from z to a.

    Raises
    ------
    InfeasibleError
        If no place is found for a buffer; the message names it.
    """
    by_name = sorted(problem.buffers, key=lambda b: b.name, reverse=True)
    return _place_above(problem, sorted(by_name, key=lambda b: (-b.size, -len(b.conflicts))))


def usmp_greedy_by_conflicts(problem: UsmpProblem) -> Allocations:
    """By decreasing number of conflicts listed, ties by size, then by name from z to a.

    Raises
    ------
    InfeasibleError
        If no place is found for a buffer; the message names it.
    """
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
