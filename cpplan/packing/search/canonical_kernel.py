"""Compiled part of the canonical search: the choice of decisions; see ``canonical_search``."""

# The compiler gives these functions their types.
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from cpplan.packing.search.canonical_state import LEVELS, NODES, TRAIL
from cpplan.packing.search.canonical_state_kernel import (
    FAR,
    clear_levels,
    copy_levels,
    may_fit,
    place,
    postpone,
    undo,
)
from cpplan.packing.search.rounds import EXHAUSTED, FOUND, NODES_SPENT, ROOM_SPENT
from cpplan.runtime.loop_compiler import compiled_loop


@compiled_loop
def _select(board, search, begin, end, ranked):
    """The unplaced buffer with the lowest floor between two sections, ties by rank; or -1."""
    best, lowest = -1, FAR
    for row in ranked:
        if (
            not search.placed[row]
            and search.floor[row] < lowest
            and board.lower[row] >= begin
            and board.upper[row] <= end
        ):
            best, lowest = row, search.floor[row]
    return best


@compiled_loop
def _back(board, search):
    """Undo decisions back to the last one in the conflict, and reverse it.

    Returns false if no decision is in the conflict.
    """
    counter = search.counter
    while True:
        level = -1
        for word in range(len(search.conflict) - 1, -1, -1):
            if search.conflict[word] != np.uint64(0):
                level = 64 * word + _last_bit(search.conflict[word])
                break
        if level < 0:
            return False
        undo(board, search, search.mark[level])
        counter[LEVELS] = level
        counter[NODES] += 1
        copy_levels(search.why, search.conflict)
        search.why[level >> 6] &= ~(np.uint64(1) << np.uint64(level & 63))
        if postpone(board, search, search.buffer[level]):
            return True


@compiled_loop
def _last_bit(word):
    last = 0
    for shift in (32, 16, 8, 4, 2, 1):
        if word >> np.uint64(shift):
            word >>= np.uint64(shift)
            last += shift
    return last


@compiled_loop
def explore(board, search, ranked, nodes, margin):
    """Continue for ``nodes`` nodes. ``Search.floor`` holds the offsets if ``FOUND``."""
    counter = search.counter
    last = counter[NODES] + nodes
    sections = len(search.total)
    if counter[NODES] == 0 and not may_fit(board, search):
        return EXHAUSTED
    while True:
        # Finish the component of the last decision first; then the one it was split from.
        level, row = counter[LEVELS], -1
        while row < 0:
            level -= 1
            begin, end = 0, sections
            if level >= 0:
                begin, end = search.begin[level], search.end[level]
            row = _select(board, search, begin, end, ranked)
            if row < 0 and level < 0:
                return FOUND
        if counter[NODES] >= last:
            return NODES_SPENT
        if counter[TRAIL] + margin > len(search.trail):
            return ROOM_SPENT
        counter[NODES] += 1
        if search.floor[row] > search.rest[row]:
            clear_levels(search.why)
            if not postpone(board, search, row) and not _back(board, search):
                return EXHAUSTED
            continue
        level = counter[LEVELS]
        begin, end = board.lower[row], board.upper[row]
        while begin > 0 and search.crossing[begin] > 0:
            begin -= 1
        while end < sections and search.crossing[end] > 0:
            end += 1
        search.buffer[level], search.level[row] = row, level
        search.begin[level], search.end[level] = begin, end
        search.mark[level] = counter[TRAIL]
        counter[LEVELS] = level + 1
        if not place(board, search, row) and not _back(board, search):
            return EXHAUSTED
