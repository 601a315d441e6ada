"""Compiled part of the nogoods; see ``niche_state``."""

# The compiler gives these functions their types.
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from cpplan.packing.search.niche_state import COUNT, PENDING
from cpplan.runtime.loop_compiler import compiled_loop


@compiled_loop
def mix(value):
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@compiled_loop
def _list_of(nogoods, section, value):
    word = value ^ (np.uint64(section) * np.uint64(0x9E3779B97F4A7C15))
    return np.int64((word ^ (word >> np.uint64(29))) % np.uint64(len(nogoods.heads)))


@compiled_loop
def _watch(nogoods, number, entry):
    nogoods.watched[number] = entry
    of = _list_of(nogoods, nogoods.section[entry], nogoods.value[entry])
    nogoods.following[number] = nogoods.heads[of]
    nogoods.heads[of] = number


@compiled_loop
def _differing(nogoods, cell, number):
    """An entry of a nogood that differs from the state, or -1."""
    for entry in range(nogoods.first[number], nogoods.first[number + 1]):
        if cell[nogoods.section[entry]] != nogoods.value[entry]:
            return entry
    return -1


@compiled_loop
def watch_all(nogoods, cell):
    """Begin in another state; returns false if it is known to fail."""
    for of in range(len(nogoods.heads)):
        nogoods.heads[of] = -1
    for number in range(nogoods.counter[COUNT]):
        entry = _differing(nogoods, cell, number)
        if entry < 0:
            return False
        _watch(nogoods, number, entry)
    nogoods.counter[PENDING] = -1
    return True


@compiled_loop
def _has(sections, section):
    return (sections[section >> 6] >> np.uint64(section & 63)) & np.uint64(1) != np.uint64(0)


@compiled_loop
def _forget_older(nogoods):
    """Forget the older half of the nogoods; all of them watch a section."""
    count = nogoods.counter[COUNT]
    dropped = (count + 1) // 2
    offset = nogoods.first[dropped]
    for entry in range(offset, nogoods.first[count]):
        nogoods.section[entry - offset] = nogoods.section[entry]
        nogoods.value[entry - offset] = nogoods.value[entry]
    for of in range(len(nogoods.heads)):
        nogoods.heads[of] = -1
    for number in range(dropped, count):
        nogoods.first[number - dropped] = nogoods.first[number] - offset
        _watch(nogoods, number - dropped, nogoods.watched[number] - offset)
    nogoods.first[count - dropped] = nogoods.first[count] - offset
    nogoods.counter[COUNT] = count - dropped


@compiled_loop
def learn(nogoods, cell, sections):
    """Remember that the state fails because of these sections (bits); forget older ones for room.

    The nogood watches nothing until one of the sections changes.
    """
    needed = 0
    for section in range(len(cell)):
        needed += _has(sections, section)
    counter = nogoods.counter
    room = len(nogoods.section)
    if needed > room:
        return
    while counter[COUNT] == len(nogoods.watched) or nogoods.first[counter[COUNT]] + needed > room:
        _forget_older(nogoods)
    number = counter[COUNT]
    entry = nogoods.first[number]
    for section in range(len(cell)):
        if _has(sections, section):
            nogoods.section[entry] = section
            nogoods.value[entry] = cell[section]
            entry += 1
    nogoods.first[number + 1] = entry
    counter[COUNT], counter[PENDING] = number + 1, number


@compiled_loop
def watch_pending(nogoods, cell):
    """Watch a section of the newest nogood, now that one differs from it."""
    number = nogoods.counter[PENDING]
    if number >= 0:
        _watch(nogoods, number, _differing(nogoods, cell, number))
        nogoods.counter[PENDING] = -1


@compiled_loop
def matched(nogoods, cell, first, last):
    """A nogood that the state matches after sections ``first:last`` have changed, or -1."""
    found = -1
    for section in range(first, last):
        value = cell[section]
        of = _list_of(nogoods, section, value)
        before, number = -1, nogoods.heads[of]
        while number >= 0:
            following, entry = nogoods.following[number], nogoods.watched[number]
            another = -1
            if nogoods.section[entry] == section and nogoods.value[entry] == value:
                another = _differing(nogoods, cell, number)
                if another < 0:
                    found = number
            if another < 0:
                before = number
            else:
                if before < 0:
                    nogoods.heads[of] = following
                else:
                    nogoods.following[before] = following
                _watch(nogoods, number, another)
            number = following
    return found


@compiled_loop
def blame_nogood(nogoods, number, sections):
    """Add the sections of a nogood to a set of sections (bits)."""
    for entry in range(nogoods.first[number], nogoods.first[number + 1]):
        section = nogoods.section[entry]
        sections[section >> 6] |= np.uint64(1) << np.uint64(section & 63)
