"""TVM's Unified Static Memory Planner as it was published, its defects included.

``greedy_by_size``, ``greedy_by_conflicts`` and ``hill_climb`` (TVM RFC 0009; apache/tvm,
``src/tir/usmp/algo``), for comparing with. They work on conflict lists as listed, which may be
one-directional, and what they answer may be wrong:

* a conflict that is listed one way only is missed where the other buffer comes first;
* the next free address is rounded up to the alignment of the buffer below, not of the one above;
* room between two conflicting buffers is not looked for, so that what fits is reported not to (the
  greedy ones look above every conflict; hill climbing fills gaps, but gives a pool up as soon as
  there is no room above one conflict);
* in the greedy ones a pool that was given up for one conflict comes back with the next, at an
  address that is free of the next one only;
* hill climbing hands back the layout it accepted last, which may be worse than the best it saw.

The variants to plan with are ``cpplan.heuristics``' ``greedy_by_size``, ``greedy_by_conflicts`` and
``hill_climb``, on several pools by ``run_in_pools``.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cpplan.conflicts import from_conflicts
from cpplan.deadline import Deadline
from cpplan.errors import InfeasibleError, InputError
from cpplan.pool import Pool
from cpplan.problem import Problem

ATTEMPTS = 500


@dataclass(frozen=True, slots=True)
class UsmpBuffer:
    """USMP's ``BufferInfo``: bytes, the pools it may go to, and the buffers it names as conflicts.

    ``pools`` is in order of preference, ``conflicts`` as listed, ``alignment`` in bytes.
    """

    name: str
    size: int
    conflicts: tuple[str, ...] = ()
    pools: tuple[str, ...] = ("arena",)
    alignment: int = 1


class PoolAllocation(NamedTuple):
    """Where USMP puts a buffer: name of the pool, and byte offset in it."""

    pool: str
    offset: int


Allocations = dict[str, PoolAllocation]


@dataclass(frozen=True, slots=True)
class UsmpProblem:
    """What USMP's algorithms are given.

    Attributes
    ----------
    buffers
        In any order; names are unique.
    pools
        Only names and capacities matter to USMP.

    Raises
    ------
    InputError
        If two buffers bear one name, or one names an unknown pool or buffer.

    Examples
    --------
    >>> listed = UsmpProblem((UsmpBuffer("a", 4, ("b",)), UsmpBuffer("b", 8)), (Pool("arena"),))
    >>> int(listed.to_problem().live_bytes().max())
    12
    >>> listed.lists()
    {'a': ('b',), 'b': ()}
    """

    buffers: tuple[UsmpBuffer, ...]
    pools: tuple[Pool, ...]

    def __post_init__(self) -> None:
        names = {buffer.name for buffer in self.buffers}
        if len(names) < len(self.buffers):
            raise InputError("two buffers bear one name")
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
        """The conflict lists as given; ``one_way_conflicts`` tells what is amiss with them."""
        return {buffer.name: buffer.conflicts for buffer in self.buffers}

    def to_problem(self, name: str = "usmp") -> Problem:
        """The problem as it is meant: every conflict counts in both directions."""
        return from_conflicts(
            {buffer.name: buffer.size for buffer in self.buffers},
            [(buffer.name, other) for buffer in self.buffers for other in buffer.conflicts],
            alignment={buffer.name: buffer.alignment for buffer in self.buffers},
            pools=self.pools,
            candidates={buffer.name: buffer.pools for buffer in self.buffers},
            name=name,
        )


def pool_totals(problem: UsmpProblem, allocations: Allocations) -> dict[str, int]:
    """Bytes used of every pool that holds something."""
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
        If it finds no place for a buffer; it is named.

    Examples
    --------
    >>> pair = UsmpBuffer("a", 4, ("b",)), UsmpBuffer("b", 8, ("a",))
    >>> usmp_greedy_by_size(UsmpProblem(pair, (Pool("arena"),)))["a"]
    PoolAllocation(pool='arena', offset=8)
    """
    by_name = sorted(problem.buffers, key=lambda b: b.name, reverse=True)
    return _place_above(problem, sorted(by_name, key=lambda b: (-b.size, -len(b.conflicts))))


def usmp_greedy_by_conflicts(problem: UsmpProblem) -> Allocations:
    """By decreasing number of conflicts listed, ties by size, then by name from z to a.

    Raises
    ------
    InfeasibleError
        If it finds no place for a buffer; it is named.
    """
    by_name = sorted(problem.buffers, key=lambda b: b.name, reverse=True)
    return _place_above(problem, sorted(by_name, key=lambda b: (-len(b.conflicts), -b.size)))


def usmp_hill_climb(
    problem: UsmpProblem,
    memory_pressure: int = 0,
    seed: int = 0,
    deadline: Deadline | None = None,
) -> Allocations:
    """From the order by size, up to 500 attempts to swap two buffers that lie near the peak.

    Ends at ``memory_pressure`` bytes, all pools together, or with ``TimeUpError``. TVM draws from
    the C library's ``rand_r``; here the generator is Python's, so that attempts differ in detail.

    Raises
    ------
    InfeasibleError
        If no attempt finds a place for every buffer.
    """
    return _HillClimb(problem, seed).climb(memory_pressure, deadline or Deadline(math.inf))


def _fits(pool: Pool, offset: int, size: int) -> bool:
    return pool.capacity is None or offset + size <= pool.capacity


def _round_up(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment


def _place_above(problem: UsmpProblem, order: Sequence[UsmpBuffer]) -> Allocations:
    """Each buffer above all conflicts listed that are already in its pool."""
    pools = {pool.name: pool for pool in problem.pools}
    by_name = {buffer.name: buffer for buffer in problem.buffers}
    placed: Allocations = {}
    for buffer in order:
        free = {name: 0 for name in buffer.pools if _fits(pools[name], 0, buffer.size)}
        for other in (by_name[name] for name in buffer.conflicts if name in placed):
            pool, offset = placed[other.name]
            above = _round_up(offset + other.size, other.alignment)
            if not _fits(pools[pool], above, buffer.size):
                free.pop(pool, None)
            elif above > free.get(pool, 0):
                free[pool] = above
        placed[buffer.name] = _choose(buffer, free)
    return placed


def _choose(buffer: UsmpBuffer, free: Mapping[str, int]) -> PoolAllocation:
    for pool in buffer.pools:
        if pool in free:
            return PoolAllocation(pool, free[pool])
    raise InfeasibleError(f"the space in the pools is exceeded by buffer {buffer.name!r}")


class _HillClimb:
    def __init__(self, problem: UsmpProblem, seed: int):
        self.problem = problem
        self.pools = {pool.name: pool for pool in problem.pools}
        self.by_name = {buffer.name: buffer for buffer in problem.buffers}
        self.random = random.Random(seed)
        by_name = sorted(problem.buffers, key=lambda b: b.name, reverse=True)
        self.order = sorted(by_name, key=lambda b: (-b.size, -len(b.conflicts)))

    def climb(self, goal: int, deadline: Deadline) -> Allocations:
        best: int | None = None
        accepted: Allocations = {}
        current: Allocations = {}
        swapped = (0, 0)
        for attempt in range(ATTEMPTS):
            deadline.check(1e-6 * len(self.order))
            before, current = current, self._place()
            total = sum(pool_totals(self.problem, current).values())
            fits = len(current) == len(self.order)
            if best is None or (fits and self._accepts(total, best, attempt)):
                accepted = current
                best = total if fits else best
                if fits and total <= goal:
                    break
            else:
                self._swap(swapped)
                current = before
            move = self._next_swap(current)
            if move is not None:
                swapped = move
                self._swap(swapped)
        for buffer in self.order:
            if buffer.name not in accepted:
                _choose(buffer, {})
        return accepted

    def _accepts(self, total: int, best: int, attempt: int) -> bool:
        """A smaller total always, a larger one with a probability that falls with the attempts."""
        worse = 50 * (total - best) // max(1, total) // attempt
        return total < best or self.random.randrange(100) < worse

    def _swap(self, places: tuple[int, int]) -> None:
        one, other = places
        self.order[one], self.order[other] = self.order[other], self.order[one]

    def _place(self) -> Allocations:
        """Each buffer in the lowest gap between the conflicts listed that are already placed."""
        placed: Allocations = {}
        for buffer in self.order:
            free = {name: 0 for name in buffer.pools if _fits(self.pools[name], 0, buffer.size)}
            others = [self.by_name[name] for name in buffer.conflicts if name in placed]
            for other in sorted(others, key=lambda b: placed[b.name].offset):
                pool, offset = placed[other.name]
                if pool not in free:
                    continue
                above = _round_up(offset + other.size, other.alignment)
                if not _fits(self.pools[pool], above, buffer.size):
                    del free[pool]
                elif above > free[pool] and free[pool] + buffer.size > offset:
                    free[pool] = above
            chosen = next((name for name in buffer.pools if name in free), None)
            if chosen is not None:
                placed[buffer.name] = PoolAllocation(chosen, free[chosen])
        return placed

    def _next_swap(self, current: Allocations) -> tuple[int, int] | None:
        """Places in the order of two buffers near one at a pool's peak that come before it.

        TVM draws the second until it differs from the first, for ever where none does.
        """
        at = {buffer.name: k for k, buffer in enumerate(self.order)}
        totals = pool_totals(self.problem, current)
        top = [
            buffer
            for buffer in self.order
            if buffer.name in current
            and current[buffer.name].offset + buffer.size == totals[current[buffer.name].pool]
        ]
        if not top:
            raise InfeasibleError("the space in the pools is exceeded by every buffer")
        node = self.random.choice(top)
        first = sorted(at[name] for name in node.conflicts if at[name] < at[node.name])
        second = sorted(
            at[name]
            for between in node.conflicts
            for name in self.by_name[between].conflicts
            if at[name] < at[between]
        )
        if not first:
            return None
        one = self.random.choice(first)
        if not {*first, *second} - {one}:
            return None
        other = one
        while other == one:
            far = bool(second) and self.random.randrange(100) > 25
            other = self.random.choice(second if far else first)
        return one, other
