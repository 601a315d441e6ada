"""Packing into several pools by any heuristic, or by first fit in a given order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cpplan.model.errors import VerificationError
from cpplan.model.levels import Level
from cpplan.model.problem import Ints, Problem
from cpplan.packing.heuristics import registered
from cpplan.packing.heuristics.layout import Layout, placement_seconds
from cpplan.runtime.deadline import Deadline


class PoolLayout(NamedTuple):
    """Position in ``problem.pools`` and byte offset of every buffer, shape ``(n,)``."""

    pool: Ints
    offset: Ints


def run_in_pools(name: str, problem: Problem, deadline: Deadline) -> PoolLayout | None:
    """Layout by a named heuristic, one pool after another; ``None`` if it does not fit.

    The heuristic packs all buffers whose first candidate is the first pool. Buffers that end above
    the capacity move on to their next candidate. Then the next pool is packed in the same way;
    buffers that a pool already holds stay in place.
    """
    heuristic = registered.get(name)
    count = len(problem)
    turn = np.zeros(count, np.int64)
    pool = np.array([problem.candidates_of(row)[0] for row in range(count)], np.int64)
    offset, settled = np.zeros(count, np.int64), np.zeros(count, bool)
    while not settled.all():
        number = int(pool[~settled].min())
        rows = np.flatnonzero(pool == number)
        part = problem.in_pool(number, rows)
        kept = {k: int(offset[row]) for k, row in enumerate(rows.tolist()) if settled[row]}
        found = np.asarray(heuristic(replace(part, fixed={**part.fixed, **kept}), deadline))
        if found.shape != (len(rows),):
            raise VerificationError(
                f"algorithm {name!r}: offset has shape {found.shape}: expected ({len(rows)},)"
            )
        limit = problem.pools[number].capacity
        for k, row in enumerate(rows.tolist()):
            if settled[row]:
                continue
            if limit is None or found[k] + problem.size[row] <= limit:
                offset[row], settled[row] = found[k], True
                continue
            turn[row] += 1
            candidates = problem.candidates_of(row)
            if turn[row] == len(candidates):
                return None
            pool[row] = candidates[turn[row]]
    return PoolLayout(pool, offset)


class PoolFit:
    """Places buffers in a given order, each at the lowest address of the pool it suits best.

    Parameters
    ----------
    problem
        Buffers, candidates, pools.
    level
        If given, a buffer goes to the pool where this level grows least. Else it goes to its first
        candidate where it fits below the capacity. If it fits into no candidate, it goes to the
        pool whose capacity it exceeds least.
    """

    def __init__(self, problem: Problem, level: Level | None = None):
        self._problem, self._level = problem, level
        self._parts = []
        for number, pool in enumerate(problem.pools):
            fixed = {
                row: at for row, at in problem.fixed.items() if number in problem.candidates_of(row)
            }
            whole = replace(problem, fixed=fixed)
            self._parts.append(whole.aligned_to(pool.alignment))
        self._size = problem.size.tolist()
        self._candidates = [tuple(problem.candidates_of(row)) for row in range(len(problem))]

    def place(self, order: Iterable[int], deadline: Deadline) -> PoolLayout:
        """Pool and offset of every row. O(n²)."""
        problem = self._problem
        layouts = [Layout(part) for part in self._parts]
        peaks = [self._fixed_end(part) for part in self._parts]
        pool, offset = np.zeros(len(problem), np.int64), np.zeros(len(problem), np.int64)
        for row, at in problem.fixed.items():
            pool[row], offset[row] = self._candidates[row][0], at
        work = 16 * placement_seconds(len(problem))
        for count, row in enumerate(order):
            if count % 16 == 0:
                deadline.check(work)
            if row in problem.fixed:
                continue
            choices = []
            for rank, number in enumerate(self._candidates[row]):
                at = layouts[number].lowest(row)
                end, capacity = at + self._size[row], problem.pools[number].capacity
                out = 0 if capacity is None else max(0, end - capacity)
                choices.append((out, self._growth(row, number, end, peaks), rank, number, at))
                if out == 0 and self._level is None:
                    break
            _, _, _, number, at = min(choices)
            layouts[number].place(row, at)
            peaks[number] = max(peaks[number], at + self._size[row])
            pool[row], offset[row] = number, at
        return PoolLayout(pool, offset)

    def _growth(self, row: int, number: int, end: int, peaks: list[int]) -> int:
        if self._level is None:
            return 0
        more = self._level.weight[number] * max(0, end - peaks[number])
        return more + int(self._level.access[row, number])

    def _fixed_end(self, part: Problem) -> int:
        return max((at + self._size[row] for row, at in part.fixed.items()), default=0)
