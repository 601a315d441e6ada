"""Relay's storage tokens: at every step, take a free storage of about the right size.

The rule of TVM's ``GraphPlanMemory`` and, within each dtype and scope, of Relax's
``StaticPlanBlockMemory``.
"""

from __future__ import annotations

from bisect import bisect_left, insort

import numpy as np

from cpplan.model.problem import Ints, Problem
from cpplan.runtime.deadline import Deadline

MATCH_RANGE = 16
_CHECK_EVERY = 4096
_SECONDS_PER_REQUEST = 2e-6


def storage_tokens(
    problem: Problem, group: Ints, deadline: Deadline, *, match_range: int = MATCH_RANGE
) -> Ints:
    """Storage numbers by Relay's rule: serve the buffers by first step. O(n log n).

    A storage is free again when its buffer has ended. A request of ``s`` bytes considers the free
    storages of its group with sizes from ``s // match_range`` to ``s * match_range``. It takes the
    smallest that is large enough; else the largest, which grows to ``s``; else a new storage. With
    a ``match_range`` of 0 nothing is shared.

    Relay never frees parameters and constants: use ``inputs="keep", constants="keep"`` to get its
    storages.
    """
    storage = np.zeros(len(problem), np.int64)
    size, upper = problem.size.tolist(), problem.upper.tolist()
    lower, groups = problem.lower.tolist(), group.tolist()
    ending = np.argsort(problem.upper, kind="stable").tolist()
    free: dict[int, _FreeStorages] = {label: _FreeStorages() for label in sorted(set(groups))}
    bytes_of: list[int] = []
    ended = 0
    for count, row in enumerate(np.argsort(problem.lower, kind="stable").tolist()):
        if count % _CHECK_EVERY == 0:
            deadline.check(min(_CHECK_EVERY, len(problem) - count) * _SECONDS_PER_REQUEST)
        while upper[ending[ended]] <= lower[row]:
            freed = ending[ended]
            free[groups[freed]].put(bytes_of[storage[freed]], int(storage[freed]))
            ended += 1
        found = free[groups[row]].take(size[row], match_range) if match_range else None
        if found is None:
            found = len(bytes_of)
            bytes_of.append(0)
        bytes_of[found] = max(bytes_of[found], size[row])
        storage[row] = found
    return storage


class _FreeStorages:
    """Free storages of one group, by size; ties by the time at which they became free."""

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, int]] = []
        self._count = 0

    def put(self, size: int, number: int) -> None:
        insort(self._entries, (size, self._count, number))
        self._count += 1

    def take(self, size: int, match_range: int) -> int | None:
        k = bisect_left(self._entries, (size,))
        if k < len(self._entries) and self._entries[k][0] <= size * match_range:
            return self._entries.pop(k)[2]
        if k and self._entries[k - 1][0] >= size // match_range:
            return self._entries.pop(k - 1)[2]
        return None
