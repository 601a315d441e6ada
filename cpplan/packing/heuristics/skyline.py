"""Lowest offset first for tens of thousands of buffers, prepared for many orders.

:mod:`cpplan.packing.heuristics.skyline_kernel` searches a tree of lifespans. The tree depends only
on the problem: it is built once and serves every order. Placing takes about a microsecond a buffer,
whatever the number of conflicts.
"""

from __future__ import annotations

import numpy as np

from cpplan.model.problem import Ints, Problem
from cpplan.runtime.deadline import Deadline

_UNLIMITED = np.iinfo(np.int64).max
# Looks at valleys between two looks at the clock.
_SLICE = 1 << 16


class Skyline:
    """Places all buffers of one problem, in any number of orders.

    Parameters
    ----------
    problem
        Preferably reduced, since memory and time grow with its steps. See :meth:`applies_to`.
    deadline
        Ends the preparation with ``TimeUpError``.
    """

    def __init__(self, problem: Problem, deadline: Deadline | None = None):
        self.problem = problem
        first = int(problem.lower.min()) if len(problem) else 0
        self._lower, self._upper = problem.lower - first, problem.upper - first
        self._leaf_row, self._box = lifespan_tree(self._lower, self._upper, deadline)
        sections = int(self._upper.max(initial=1))
        waiting = np.empty(2 * len(self._leaf_row), np.int64)
        # A depth-first search of the tree holds at most two entries a level.
        stack = np.empty(2 * len(self._leaf_row).bit_length() + 2, np.int64)
        self._scratch = waiting, np.empty((5, sections), np.int64), stack

    @staticmethod
    def applies_to(problem: Problem) -> bool:
        """True if every buffer is one rectangle that may lie at any height."""
        return not problem.gaps and not problem.fixed

    def place(
        self, ranked: Ints, limit: int | None = None, deadline: Deadline | None = None
    ) -> Ints | None:
        """Place repeatedly the buffer that can lie lowest; ties by ``ranked``.

        Returns ``None`` as soon as a buffer would end above ``limit``. The lowest buffer is chosen
        before offsets are rounded up to alignments. O(n log n) if lifespans nest well. Raises
        ``TimeUpError`` if the deadline passes first.
        """
        from cpplan.packing.heuristics.skyline_kernel import place_on_skyline, start_on_skyline

        problem = self.problem
        rank, offset = np.empty(len(problem), np.int64), np.empty(len(problem), np.int64)
        rank[ranked] = np.arange(len(problem))
        first, skyline, stack = self._scratch
        state = np.empty(3, np.int64)
        start_on_skyline(rank, self._leaf_row, first, skyline, state)
        while not place_on_skyline(
            self._leaf_row,
            self._box,
            self._lower,
            self._upper,
            problem.size,
            problem.alignment,
            _UNLIMITED if limit is None else limit,
            offset,
            first,
            skyline,
            stack,
            state,
            _SLICE,
        ):
            if deadline is not None:
                deadline.check()
        return None if state[1] < 0 else offset


def lifespan_tree(lower: Ints, upper: Ints, deadline: Deadline | None = None) -> tuple[Ints, Ints]:
    """A balanced k-d tree over lifespans, halved by lower and by upper in turn. O(n log² n).

    Returns
    -------
    row
        Buffer of every leaf, -1 for none, shape ``(leaves,)``; ``leaves`` is a power of two.
    box
        Least lower, most lower, least upper, most upper below each node, shape ``(4, 2 * leaves)``;
        node ``k`` has the children ``2k`` and ``2k + 1``, the root is 1, the leaves are last.
    """
    leaves = 1 << max(0, len(lower) - 1).bit_length()
    row = np.full(leaves, -1, np.int64)
    row[: len(lower)] = np.arange(len(lower))
    # Empty leaves sort last, so that they never lie between buffers.
    columns = [np.append(column, _UNLIMITED) for column in (lower, upper)]
    width, level = leaves, 0
    while width > 1:
        if deadline is not None:
            deadline.check()
        blocks = row.reshape(-1, width)
        by_key = np.argsort(columns[level % 2][blocks], axis=1, kind="stable")
        row = np.take_along_axis(blocks, by_key, axis=1).reshape(-1)
        width, level = width // 2, level + 1
    box = np.empty((4, 2 * leaves), np.int64)
    for least, most, column in ((0, 1, lower), (2, 3, upper)):
        box[least, leaves:] = np.append(column, _UNLIMITED)[row]
        box[most, leaves:] = np.append(column, -1)[row]
        size = leaves
        while size > 1:
            below, above = slice(size, 2 * size), slice(size // 2, size)
            box[least, above] = box[least, below].reshape(-1, 2).min(axis=1)
            box[most, above] = box[most, below].reshape(-1, 2).max(axis=1)
            size //= 2
    return row, box
