"""Compiled state changes and ways of the niche search."""

# The compiler gives these functions their types.
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from cpplan.packing.search.niche_nogoods_kernel import mix
from cpplan.packing.search.niche_state import CHANGES, LEVELS, PLACED, WASTE
from cpplan.runtime.loop_compiler import compiled_loop


@compiled_loop
def change_key(fill, section, number, value):
    """Update the hash of a section: the exclusive or of its mixed parts."""
    word = np.uint64(number) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(value)
    fill.cell[section] ^= mix(word + np.uint64(0x632BE59BD9B4E019))


@compiled_loop
def lift(fill, section, floor):
    change_key(fill, section, section, fill.floor[section])
    fill.floor[section] = floor
    change_key(fill, section, section, floor)
    fill.counter[CHANGES] += 1
    fill.changed[section] = fill.counter[CHANGES]


@compiled_loop
def put(shape, fill, row, sign):
    """Place a buffer on the floor, or remove it (``sign`` -1)."""
    size, lower, upper = shape.size[row], shape.lower[row], shape.upper[row]
    at = fill.floor[lower] - (0 if sign > 0 else size)
    for section in range(lower, upper):
        lift(fill, section, at + (size if sign > 0 else 0))
        fill.left[section] -= sign * size
        change_key(fill, section, len(fill.floor) + row, 1)
    for boundary in range(lower + 1, upper):
        fill.crossing[boundary] -= sign
    fill.offset[row] = at
    fill.placed[row] = sign > 0
    fill.counter[PLACED] += sign


@compiled_loop
def is_open(shape, fill, row):
    """True if a buffer is not placed and its twin, if any, is placed."""
    return not fill.placed[row] and (shape.twin[row] < 0 or fill.placed[shape.twin[row]])


@compiled_loop
def evenness(shape, fill, row, first, last):
    """Score of a buffer on the floor: 1 for each side at a wall, 2 for each level with its top.

    Edges rarely line up by chance, but always do in a perfect packing: they are a sign that the
    buffer belongs there.
    """
    lower, upper = shape.lower[row], shape.upper[row]
    floor, signs = fill.floor[lower], 0
    top = floor + shape.size[row]
    if lower > first:
        beside = fill.floor[lower - 1]
        signs += 2 if beside == top else 1 if beside > floor else 0
    if upper < last:
        beside = fill.floor[upper]
        signs += 2 if beside == top else 1 if beside > floor else 0
    return signs


@compiled_loop
def ways_of(shape, fill, limit, highest, begin, end, right, at):
    """Write the ways to fill a corner of a niche from ``at`` on; returns their number.

    The corner is the first or the last section of the niche. A buffer on the floor there starts or
    ends with the niche, because the floors beside it are higher.
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
            if shape.lower[row] >= begin and floor <= highest[row] and is_open(shape, fill, row):
                fill.ways[at + count] = row
                count += 1
    else:
        for k in range(shape.first_start[begin], shape.first_start[begin + 1]):
            row = shape.starting[k]
            if shape.upper[row] <= end and floor <= highest[row] and is_open(shape, fill, row):
                fill.ways[at + count] = row
                count += 1
    slack = limit - floor - fill.left[section]
    if slack > 0:
        # Else the next buffer in the corner rests on a neighbour or on another buffer of the niche.
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


@compiled_loop
def clear(sections):
    for word in range(len(sections)):
        sections[word] = np.uint64(0)


@compiled_loop
def blame(sections, first, end):
    """Add the sections ``first:end`` to a set of sections."""
    for section in range(first, end):
        sections[section >> 6] |= np.uint64(1) << np.uint64(section & 63)


@compiled_loop
def is_blamed(sections, first, end):
    """True if any section of ``first:end`` is in a set of sections."""
    for section in range(first, end):
        if sections[section >> 6] >> np.uint64(section & 63) & np.uint64(1):
            return True
    return False


@compiled_loop
def blame_corner(shape, fill, limit, begin, end, right, start, stop, sections):
    """Add the sections whose floors and buffers decide the ways of a corner.

    Without bytes to spare, these are the corner and the section beside it; also the section at the
    other end of the niche, if a buffer is too wide. Else they are the niche and both neighbours.
    """
    section = end - 1 if right else begin
    if limit - fill.floor[section] - fill.left[section] > 0:
        blame(sections, max(begin - 1, start), min(end + 1, stop))
        return
    if right:
        blame(sections, end - 1, min(end + 1, stop))
        for k in range(shape.first_end[end], shape.first_end[end + 1]):
            row = shape.ending[k]
            if shape.lower[row] < begin and is_open(shape, fill, row):
                blame(sections, begin - 1, begin)
                break
    else:
        blame(sections, max(begin - 1, start), begin + 1)
        for k in range(shape.first_start[begin], shape.first_start[begin + 1]):
            row = shape.starting[k]
            if shape.upper[row] > end and is_open(shape, fill, row):
                blame(sections, end, end + 1)
                break
