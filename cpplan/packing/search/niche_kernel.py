"""Compiled part of the niche search; see ``niche_search`` for the method."""

# The compiler gives these functions their types.
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from cpplan.packing.search.niche_nogoods_kernel import (
    blame_nogood,
    learn,
    matched,
    watch_all,
    watch_pending,
)
from cpplan.packing.search.niche_state import (
    CHANGES,
    EXHAUSTED,
    FOUND,
    LEVELS,
    NODES,
    NODES_SPENT,
    PLACED,
    ROOM_SPENT,
    WASTE,
    WAYS,
)
from cpplan.packing.search.niche_state_kernel import (
    blame_corner,
    clear,
    evenness,
    is_blamed,
    lift,
    put,
    ways_of,
)
from cpplan.runtime.loop_compiler import compiled_loop


@compiled_loop
def _choose(shape, fill, limit, highest, rank, first, last):
    """Choose the corner with the fewest ways, by weight, and write them as the next level's.

    Only corners between two sections are considered. Returns the number of ways; 0 if a corner has
    none or a component is known to fail; -1 if no buffer is left to place. ``Fill.conflict`` has
    the sections to blame for a failure.
    """
    level = fill.counter[LEVELS]
    at = fill.counter[WAYS]
    best, best_score = -1, np.inf
    best_begin, best_end, best_right = first, last, False
    best_from, best_to = first, last
    start = first
    while start < last:
        stop, left = start, 0
        while True:
            left += fill.left[stop]
            stop += 1
            if fill.crossing[stop] == 0:
                break
        if left == 0:
            start = stop
            continue
        begin = start
        while begin < stop:
            floor = fill.floor[begin]
            end = begin + 1
            while end < stop and fill.floor[end] == floor:
                end += 1
            lower = floor < limit
            if begin > start and fill.floor[begin - 1] < floor:
                lower = False
            if end < stop and fill.floor[end] < floor:
                lower = False
            if lower:
                # The ways of a niche change only with the floors in it or beside it.
                newest = fill.changed[begin - 1] if begin > start else 0
                for section in range(begin, min(end + 1, stop)):
                    newest = max(newest, fill.changed[section])
                counted = fill.counted[begin]
                known = counted[2] >= newest
                for right in range(2):
                    section = end - 1 if right else begin
                    if not known:
                        counted[right] = ways_of(
                            shape, fill, limit, highest, begin, end, right == 1, at
                        )
                        if counted[right] == 0:
                            counted[2] = -1
                            fill.weight[section] += 1
                            clear(fill.conflict)
                            blamed, on_right = fill.conflict, right == 1
                            blame_corner(
                                shape, fill, limit, begin, end, on_right, start, stop, blamed
                            )
                            return 0
                    score = (counted[right] - 1) / fill.weight[section]
                    if score < best_score:
                        best, best_score = section, score
                        best_begin, best_end, best_right = begin, end, right == 1
                        best_from, best_to = start, stop
                counted[2] = fill.counter[CHANGES]
            begin = end
        start = stop
    if best < 0:
        return -1
    fill.begin[level], fill.end[level] = best_from, best_to
    count = ways_of(shape, fill, limit, highest, best_begin, best_end, best_right, at)
    fill.section[level] = best
    clear(fill.blamed[level])
    blamed, on_right = fill.blamed[level], best_right
    blame_corner(shape, fill, limit, best_begin, best_end, on_right, best_from, best_to, blamed)
    # Order the ways by rank, waste last; in a full section, buffers level with neighbours first.
    full = limit == fill.floor[best] + fill.left[best]
    for k in range(count):
        row = fill.ways[at + k]
        if row != WASTE:
            signs = evenness(shape, fill, row, best_from, best_to) if full else 0
            fill.promise[row] = signs * len(rank) - rank[row]
    for k in range(1, count):
        row = fill.ways[at + k]
        j = k
        while (
            j > 0
            and row != WASTE
            and (
                fill.ways[at + j - 1] == WASTE
                or fill.promise[fill.ways[at + j - 1]] < fill.promise[row]
            )
        ):
            fill.ways[at + j] = fill.ways[at + j - 1]
            j -= 1
        fill.ways[at + j] = row
    fill.first_way[level], fill.next_way[level] = at, at
    fill.counter[WAYS] = at + count
    return count


@compiled_loop
def _go(shape, fill):
    """Take the next way of the last level; returns a nogood that the state then matches, or -1."""
    level = fill.counter[LEVELS]
    row = fill.ways[fill.next_way[level]]
    fill.next_way[level] += 1
    fill.counter[LEVELS] = level + 1
    if row == WASTE:
        section = fill.section[level]
        before = fill.floor[section]
        lift(fill, section, fill.raised[level])
        fill.raised[level] = before
        return matched(fill.nogoods, fill.cell, section, section + 1)
    put(shape, fill, row, 1)
    return matched(fill.nogoods, fill.cell, shape.lower[row], shape.upper[row])


@compiled_loop
def _take_back(shape, fill):
    """Undo the decision of the last level."""
    level = fill.counter[LEVELS] - 1
    row = fill.ways[fill.next_way[level] - 1]
    section = fill.section[level]
    if row == WASTE:
        # ``raised`` holds the floor from before.
        lifted = fill.floor[section]
        lift(fill, section, fill.raised[level])
        fill.raised[level] = lifted
        matched(fill.nogoods, fill.cell, section, section + 1)
    else:
        put(shape, fill, row, -1)
        matched(fill.nogoods, fill.cell, shape.lower[row], shape.upper[row])


@compiled_loop
def _touches(shape, fill, level):
    """True if the decision of a level concerns a section to blame."""
    row = fill.ways[fill.next_way[level] - 1]
    if row == WASTE:
        return is_blamed(fill.conflict, fill.section[level], fill.section[level] + 1)
    return is_blamed(fill.conflict, shape.lower[row], shape.upper[row])


@compiled_loop
def _may_fit(fill, limit, highest):
    for section in range(len(fill.left)):
        if fill.left[section] > limit:
            return False
    for row in range(len(highest)):
        if highest[row] < 0:
            return False
    return True


@compiled_loop
def _go_back(shape, fill):
    """Go back to the last decision in a section to blame; returns false if there is none."""
    counter = fill.counter
    level = counter[LEVELS]
    while level > 0:
        level -= 1
        counter[LEVELS] = level + 1
        _take_back(shape, fill)
        counter[LEVELS] = level
        if _touches(shape, fill, level):
            watch_pending(fill.nogoods, fill.cell)
            blamed = fill.blamed[level]
            for word in range(len(blamed)):
                blamed[word] |= fill.conflict[word]
            if fill.next_way[level] < counter[WAYS]:
                return True
            for word in range(len(blamed)):
                fill.conflict[word] = blamed[word]
            fill.weight[fill.section[level]] += 0.1
            learn(fill.nogoods, fill.cell, fill.conflict)
        counter[WAYS] = fill.first_way[level]
    return False


@compiled_loop
def explore(shape, fill, limit, highest, rank, nodes):
    """Continue for ``nodes`` nodes. ``Fill.offset`` holds the offsets if ``FOUND``.

    ``limit`` is the end of the arena, rounded up to units; ``highest`` has each buffer's highest
    offset.
    """
    counter = fill.counter
    last = counter[NODES] + nodes
    count, sections = len(fill.offset), len(fill.floor)
    # Later nodes need no such test: a corner has no ways if its section cannot fit.
    if counter[NODES] == 0 and not (
        _may_fit(fill, limit, highest) and watch_all(fill.nogoods, fill.cell)
    ):
        return EXHAUSTED
    while True:
        level = counter[LEVELS]
        if counter[PLACED] == count:
            return FOUND
        if counter[NODES] >= last:
            return NODES_SPENT
        if level + 1 >= len(fill.section) or counter[WAYS] + count + 2 > len(fill.ways):
            return ROOM_SPENT
        # Finish the component of the last decision first; then the one it was split from.
        found, first, end, back = -1, 0, 0, level
        while found < 0:
            back -= 1
            if back < 0:
                first, end = 0, sections
            elif fill.begin[back] == first and fill.end[back] == end:
                continue
            else:
                first, end = fill.begin[back], fill.end[back]
            found = _choose(shape, fill, limit, highest, rank, first, end)
        while True:
            if found == 0 and not _go_back(shape, fill):
                return EXHAUSTED
            counter[NODES] += 1
            nogood = _go(shape, fill)
            if nogood < 0:
                break
            clear(fill.conflict)
            blame_nogood(fill.nogoods, nogood, fill.conflict)
            found = 0
