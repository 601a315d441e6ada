"""Compiled state changes of the canonical search: place, postpone, propagate, undo."""

# The compiler gives these functions their types.
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from cpplan.packing.search.canonical_state import TRAIL
from cpplan.runtime.loop_compiler import compiled_loop

FAR = 1 << 62
# Kinds of entries of ``Search.trail``.
_FLOOR, _LOWEST, _PLACED = 0, 1, 2
_NOTHING = 0


@compiled_loop
def _align(value, alignment):
    return value if alignment == 1 else -(-value // alignment) * alignment


@compiled_loop
def copy_levels(levels, others):
    for word in range(len(levels)):
        levels[word] = others[word]


@compiled_loop
def clear_levels(levels):
    for word in range(len(levels)):
        levels[word] = np.uint64(0)


@compiled_loop
def _join(levels, others):
    for word in range(len(levels)):
        levels[word] |= others[word]


@compiled_loop
def _join_level(levels, level):
    levels[level >> 6] |= np.uint64(1) << np.uint64(level & 63)


@compiled_loop
def _record(search, kind, item, first, second):
    at = search.counter[TRAIL]
    trail = search.trail
    trail[at, 0], trail[at, 1], trail[at, 2], trail[at, 3] = kind, item, first, second
    if kind == _FLOOR:
        copy_levels(search.old_reason[at], search.reason[item])
    search.counter[TRAIL] = at + 1


@compiled_loop
def undo(board, search, mark):
    at = search.counter[TRAIL]
    trail = search.trail
    while at > mark:
        at -= 1
        item = trail[at, 1]
        if trail[at, 0] == _FLOOR:
            search.floor[item], search.rest[item] = trail[at, 2], trail[at, 3]
            copy_levels(search.reason[item], search.old_reason[at])
        elif trail[at, 0] == _LOWEST:
            search.lowest[item], search.witness[item] = trail[at, 2], trail[at, 3]
        else:
            search.placed[item] = False
            for k in range(board.first_section[item], board.first_section[item + 1]):
                section = board.sections[k]
                search.total[section] += board.size[item]
                # The member placed last stands right after the waiting ones.
                search.waiting[section] += 1
            for boundary in range(board.lower[item] + 1, board.upper[item]):
                search.crossing[boundary] += 1
    search.counter[TRAIL] = mark


@compiled_loop
def _raise(board, search, row, floor, rest, count):
    """Raise the floors of a buffer and its later twins; returns the number of raised buffers."""
    while True:
        _record(search, _FLOOR, row, search.floor[row], search.rest[row])
        search.floor[row], search.rest[row] = floor, rest
        copy_levels(search.reason[row], search.why)
        if not search.is_raised[row]:
            search.is_raised[row] = True
            search.raised[count] = row
            count += 1
        following = board.twin[row]
        if following < 0:
            return count
        floor = _align(floor + board.size[row], board.alignment[row])
        if search.placed[following] or search.floor[following] >= floor:
            return count
        row, rest = following, search.rest[following]


@compiled_loop
def _look_for_lowest(board, search, section):
    """Update the lowest floor of a section; it never decreases."""
    least = search.lowest[section]
    lowest, witness = FAR, -1
    first = board.first_member[section]
    for k in range(first, first + search.waiting[section]):
        row = search.members[k]
        if search.floor[row] < lowest:
            lowest, witness = search.floor[row], row
            if lowest <= least:
                break
    _record(search, _LOWEST, section, search.lowest[section], search.witness[section])
    search.lowest[section], search.witness[section] = lowest, witness


@compiled_loop
def _blame_section(board, search, section):
    """Set the conflict to the placements that raised the waiting buffers of a section."""
    clear_levels(search.conflict)
    first = board.first_member[section]
    for k in range(first, first + search.waiting[section]):
        _join(search.conflict, search.reason[search.members[k]])


@compiled_loop
def _fits(board, search, count):
    """True if every section of the raised buffers can still hold its buffers not yet placed."""
    fits = True
    for k in range(count):
        row = search.raised[k]
        search.is_raised[row] = False
        if not fits:
            continue
        if search.floor[row] > board.highest[row]:
            copy_levels(search.conflict, search.reason[row])
            fits = False
            continue
        for at in range(board.first_section[row], board.first_section[row + 1]):
            section = board.sections[at]
            if search.witness[section] == row:
                _look_for_lowest(board, search, section)
                lowest = search.lowest[section]
                if search.witness[section] >= 0 and lowest + search.total[section] > board.limit[0]:
                    search.weight[section] += 1
                    _blame_section(board, search, section)
                    fits = False
                    break
    return fits


@compiled_loop
def _swap(search, entry, slot):
    """Exchange an entry's member with the one in a slot of the same section."""
    old, other = search.slot[entry], search.entry[slot]
    search.members[old], search.members[slot] = search.members[slot], search.members[old]
    search.entry[old], search.entry[slot] = other, entry
    search.slot[other], search.slot[entry] = old, slot


@compiled_loop
def place(board, search, row):
    """Place a buffer at its floor; returns true if the other buffers may still fit."""
    search.placed[row] = True
    _record(search, _PLACED, row, _NOTHING, _NOTHING)
    for k in range(board.first_section[row], board.first_section[row + 1]):
        section = board.sections[k]
        search.total[section] -= board.size[row]
        search.waiting[section] -= 1
        _swap(search, k, board.first_member[section] + search.waiting[section])
    for boundary in range(board.lower[row] + 1, board.upper[row]):
        search.crossing[boundary] -= 1
    copy_levels(search.why, search.reason[row])
    _join_level(search.why, search.level[row])
    search.raised[0] = row
    search.is_raised[row] = True
    count, top = 1, search.floor[row] + board.size[row]
    for k in range(board.first_neighbour[row], board.first_neighbour[row + 1]):
        other = board.neighbours[k]
        if not search.placed[other]:
            rest = _align(top, board.alignment[other])
            if rest > search.rest[other]:
                floor = max(rest, search.floor[other])
                if floor > search.floor[other]:
                    count = _raise(board, search, other, floor, rest, count)
                else:
                    _record(search, _FLOOR, other, floor, search.rest[other])
                    search.rest[other] = rest
    return _fits(board, search, count)


@compiled_loop
def postpone(board, search, row):
    """Decide that a buffer does not lie at its floor; returns true if it may still fit.

    Some unplaced buffer must then occupy part of that place, and the floor rises above the lowest
    such buffer. Otherwise the buffer could move down, and another branch covers that packing.
    ``Search.why`` has the reasons for the decision.
    """
    top, above = search.rest[row] + board.size[row], FAR
    for k in range(board.first_neighbour[row], board.first_neighbour[row + 1]):
        other = board.neighbours[k]
        if not search.placed[other] and search.floor[other] < top:
            above = min(above, search.floor[other] + board.size[other])
    if above < FAR:
        above = _align(above, board.alignment[row])
        if above <= search.floor[row]:
            return True
    _join(search.why, search.reason[row])
    for k in range(board.first_neighbour[row], board.first_neighbour[row + 1]):
        other = board.neighbours[k]
        if search.placed[other]:
            _join(search.why, search.reason[other])
            _join_level(search.why, search.level[other])
        elif board.size[other] < above:
            _join(search.why, search.reason[other])
    if above == FAR:
        copy_levels(search.conflict, search.why)
        return False
    return _fits(board, search, _raise(board, search, row, above, search.rest[row], 0))


@compiled_loop
def may_fit(board, search):
    """True if no section is too full before any buffer is placed; see :func:`_fits`."""
    for row in range(len(search.floor)):
        if search.floor[row] > board.highest[row]:
            return False
    for section in range(len(search.total)):
        if search.lowest[section] + search.total[section] > board.limit[0]:
            return False
    return True
