"""Compiled part of the niche search; see ``niche_search`` for what it does.

``Shape`` is the problem, in address units: buffers by the section where they start, and where they
end. ``Fill`` is where the search stands: how far each section is filled, what is left to place
there, and the decisions so far with the ways that each still has.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from cpplan.problem import Ints

FOUND, EXHAUSTED, NODES_SPENT, ROOM_SPENT = 0, 1, 2, 3
# Entries of ``Fill.counter``.
LEVELS, NODES, PLACED, WAYS = 0, 1, 2, 3
# A way out of a corner: nothing lies there.
WASTE = -1
_FAR = np.int64(1) << np.int64(62)


class Shape(NamedTuple):
    """What does not change. Row ``k`` starts before its twin, an equal buffer, if it has one."""

    lower: Ints
    upper: Ints
    size: Ints
    twin: Ints
    first_start: Ints
    starting: Ints
    first_end: Ints
    ending: Ints


class Fill(NamedTuple):
    """Where the search stands; ``ways[first_way[l] : first_way[l + 1]]`` are those of level l."""

    floor: Ints
    left: Ints
    offset: Ints
    placed: NDArray[np.bool_]
    weight: NDArray[np.float64]
    crossing: Ints
    section: Ints
    begin: Ints
    end: Ints
    raised: Ints
    first_way: Ints
    next_way: Ints
    ways: Ints
    cell: NDArray[np.uint64]
    keys: NDArray[np.uint64]
    failed: NDArray[np.uint64]
    counter: Ints


@njit(cache=True, nogil=True)
def _mix(value):
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@njit(cache=True, nogil=True)
def _change_key(fill, section, number, value):
    """Two words a section that tell its state: exclusive or of what is mixed from each part."""
    word = np.uint64(number) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(value)
    fill.cell[section, 0] ^= _mix(word + np.uint64(0x632BE59BD9B4E019))
    fill.cell[section, 1] ^= _mix(_mix(word) + np.uint64(0xD6E8FEB86659FD93))


@njit(cache=True, nogil=True)
def _lift(fill, section, floor):
    _change_key(fill, section, section, fill.floor[section])
    fill.floor[section] = floor
    _change_key(fill, section, section, floor)


@njit(cache=True, nogil=True)
def _put(shape, fill, row, sign):
    """Place a buffer on the floor, or take it away again (``sign`` -1)."""
    size, lower, upper = shape.size[row], shape.lower[row], shape.upper[row]
    at = fill.floor[lower] - (0 if sign > 0 else size)
    for section in range(lower, upper):
        _lift(fill, section, at + (size if sign > 0 else 0))
        fill.left[section] -= sign * size
    for boundary in range(lower + 1, upper):
        fill.crossing[boundary] -= sign
    _change_key(fill, lower, len(fill.floor) + row, 1)
    fill.offset[row] = at
    fill.placed[row] = sign > 0
    fill.counter[PLACED] += sign


@njit(cache=True, nogil=True)
def _open(shape, fill, row):
    """Whether a buffer may be next: not placed, and of equal ones the first."""
    return not fill.placed[row] and (shape.twin[row] < 0 or fill.placed[shape.twin[row]])


@njit(cache=True, nogil=True)
def _ways(shape, fill, limit, highest, begin, end, right, at):
    """Write the ways to fill a corner of a niche from ``at`` on; how many there are.

    The corner is the first section of the niche, or the last: what lies there at the floor starts,
    or ends, with the niche, because its neighbours are higher.
    """
    count = 0
    section = end - 1 if right else begin
    floor = fill.floor[section]
    if fill.left[section] == 0:
        fill.ways[at] = WASTE
        fill.raised[fill.counter[LEVELS]] = limit
        return 1
    if right:
        for k in range(shape.first_end[end], shape.first_end[end + 1]):
            row = shape.ending[k]
            if shape.lower[row] >= begin and floor <= highest[row] and _open(shape, fill, row):
                fill.ways[at + count] = row
                count += 1
    else:
        for k in range(shape.first_start[begin], shape.first_start[begin + 1]):
            row = shape.starting[k]
            if shape.upper[row] <= end and floor <= highest[row] and _open(shape, fill, row):
                fill.ways[at + count] = row
                count += 1
    slack = limit - floor - fill.left[section]
    if slack > 0:
        # Else what lies in the corner rests on a neighbour, or on something else in the niche.
        level = limit
        if fill.crossing[begin] > 0:
            level = min(level, fill.floor[begin - 1])
        if fill.crossing[end] > 0:
            level = min(level, fill.floor[end])
        first, last = (begin, end - 1) if right else (begin + 1, end)
        for start in range(first, last):
            for k in range(shape.first_start[start], shape.first_start[start + 1]):
                row = shape.starting[k]
                if shape.upper[row] <= last and not fill.placed[row]:
                    level = min(level, floor + shape.size[row])
        if level - floor <= slack:
            fill.ways[at + count] = WASTE
            fill.raised[fill.counter[LEVELS]] = level
            count += 1
    return count


@njit(cache=True, nogil=True)
def _known_to_fail(fill, one, other):
    at = one % np.uint64(len(fill.failed))
    return fill.failed[at, 0] == one and fill.failed[at, 1] == other


@njit(cache=True, nogil=True)
def _choose(shape, fill, limit, highest, rank, first, last, fails):
    """Write the ways of the corner that has the fewest, by weight, as the next level's.

    Looks between two sections. Returns how many ways there are; 0 if some corner has none, or a
    component is known to fail: ``fails[0]`` is a section of it; -1 if nothing is left to place.
    """
    level = fill.counter[LEVELS]
    at = fill.counter[WAYS]
    best, best_score = -1, np.inf
    best_begin, best_end, best_right = -1, -1, False
    best_from, best_to = first, last
    best_one, best_other = np.uint64(0), np.uint64(0)
    start = first
    while start < last:
        stop, one, other = start, np.uint64(start), np.uint64(0)
        left = 0
        while True:
            one ^= fill.cell[stop, 0]
            other ^= fill.cell[stop, 1]
            left += fill.left[stop]
            stop += 1
            if fill.crossing[stop] == 0:
                break
        if left == 0:
            start = stop
            continue
        other ^= _mix(np.uint64(stop))
        if _known_to_fail(fill, one, other):
            fails[0] = start
            return 0
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
                for right in (False, True):
                    count = _ways(shape, fill, limit, highest, begin, end, right, at)
                    section = end - 1 if right else begin
                    if count == 0:
                        fill.weight[section] += 1
                        fails[0] = section
                        return 0
                    score = (count - 1) / fill.weight[section]
                    if score < best_score:
                        best, best_score = count, score
                        best_begin, best_end, best_right = begin, end, right
                        best_from, best_to = start, stop
                        best_one, best_other = one, other
            begin = end
        start = stop
    if best < 0:
        return -1
    fill.begin[level], fill.end[level] = best_from, best_to
    fill.keys[level, 0], fill.keys[level, 1] = best_one, best_other
    count = _ways(shape, fill, limit, highest, best_begin, best_end, best_right, at)
    fill.section[level] = best_end - 1 if best_right else best_begin
    # The first ranked first, and waste last.
    for k in range(1, count):
        row = fill.ways[at + k]
        j = k
        while (
            j > 0
            and row != WASTE
            and (fill.ways[at + j - 1] == WASTE or rank[fill.ways[at + j - 1]] > rank[row])
        ):
            fill.ways[at + j] = fill.ways[at + j - 1]
            j -= 1
        fill.ways[at + j] = row
    fill.first_way[level], fill.next_way[level] = at, at
    fill.counter[WAYS] = at + count
    return count


@njit(cache=True, nogil=True)
def _take_back(shape, fill):
    """Undo what the last level did."""
    level = fill.counter[LEVELS] - 1
    row = fill.ways[fill.next_way[level] - 1]
    section = fill.section[level]
    if row == WASTE:
        # ``raised`` holds the floor from before.
        lifted = fill.floor[section]
        _lift(fill, section, fill.raised[level])
        fill.raised[level] = lifted
    else:
        _put(shape, fill, row, -1)


@njit(cache=True, nogil=True)
def explore(shape, fill, limit, highest, rank, nodes):
    """Continue for so many nodes. ``Fill.offset`` holds the offsets if ``FOUND``.

    ``limit`` is the end of the arena, rounded up to units; ``highest`` a buffer's highest offset.
    """
    counter = fill.counter
    last = counter[NODES] + nodes
    count, sections = len(fill.offset), len(fill.floor)
    fails = np.zeros(1, np.int64)
    # Later, ways out of corners see to it that the rest fits.
    if counter[NODES] == 0 and (fill.left.max() > limit or highest.min() < 0):
        return EXHAUSTED
    while True:
        level = counter[LEVELS]
        if counter[PLACED] == count:
            return FOUND
        if counter[NODES] >= last:
            return NODES_SPENT
        if level + 1 >= len(fill.section) or counter[WAYS] + count + 2 > len(fill.ways):
            return ROOM_SPENT
        # The component decided last, as long as it lasts; then what it was split from.
        found, back = -1, level
        while found < 0:
            back -= 1
            if back < 0:
                found = _choose(shape, fill, limit, highest, rank, 0, sections, fails)
                break
            found = _choose(
                shape, fill, limit, highest, rank, fill.begin[back], fill.end[back], fails
            )
        if found == 0:
            # Only decisions in the component that fails are to blame.
            while True:
                if level == 0:
                    return EXHAUSTED
                level -= 1
                counter[LEVELS] = level + 1
                _take_back(shape, fill)
                counter[LEVELS] = level
                if fill.begin[level] <= fails[0] < fill.end[level]:
                    if fill.next_way[level] < counter[WAYS]:
                        break
                    fill.weight[fill.section[level]] += 0.1
                    at = fill.keys[level, 0] % np.uint64(len(fill.failed))
                    fill.failed[at, 0] = fill.keys[level, 0]
                    fill.failed[at, 1] = fill.keys[level, 1]
                counter[WAYS] = fill.first_way[level]
        counter[NODES] += 1
        level = counter[LEVELS]
        row = fill.ways[fill.next_way[level]]
        fill.next_way[level] += 1
        counter[LEVELS] = level + 1
        if row == WASTE:
            section = fill.section[level]
            before = fill.floor[section]
            _lift(fill, section, fill.raised[level])
            fill.raised[level] = before
        else:
            _put(shape, fill, row, 1)
