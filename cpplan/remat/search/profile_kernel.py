"""Live bytes of a schedule, and how a changed stretch of it changes them.

A move changes a schedule only in a window. Bytes live after the window stay the same, since a
retention that reaches beyond it is read there before and after the move. So only the window is
measured again. Before the window, only retentions change that now reach it or no longer do.
"""

# Arrays are described in ``Profile``; the compiler infers their types.
# mypy: disable-error-code="no-untyped-def,no-any-return,untyped-decorator"

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cpplan.model.problem import Ints
from cpplan.remat.search.flat_problem import FlatProblem
from cpplan.runtime.loop_compiler import compiled_loop

# An access is the number 4 × (position + 1), plus these.
_BEGIN, _SPARED = 2, 1


class Profile(NamedTuple):
    """Accesses and live bytes of a schedule, as :func:`follow` sets them, and space to judge moves.

    Attributes
    ----------
    start, access
        Accesses to every storage ``s``, ascending: ``access[start[s] : start[s + 1]]``.
    live
        Bytes live at every position.
    first, times
        Position of every unit's first run, and number of its runs.
    again, total
        Positions of runs of units that run more than once, and ``total[0]``, their number.
    entry
        ``entry[0]``: bytes live only at the first position.
    number, stamp, accessed, before, reach, last, spared, later, change, found, flips
        Space for :func:`beyond_after`, which leaves there what :func:`follow_window` needs.
    """

    start: Ints
    access: Ints
    live: Ints
    first: Ints
    times: Ints
    again: Ints
    total: Ints
    entry: Ints
    number: Ints
    stamp: Ints
    accessed: Ints
    before: Ints
    reach: Ints
    last: Ints
    spared: Ints
    later: Ints
    change: Ints
    found: Ints
    flips: Ints


def blank_profile(flat: FlatProblem, room: int) -> Profile:
    """Space for the profile of a schedule of at most ``room`` runs."""
    units, storages = len(flat.extra), len(flat.size)
    accesses = np.diff(flat.read_start) + np.diff(flat.write_start)
    most = int(accesses.max(initial=0))
    lengths = {
        "start": storages + 1,
        "access": room * most + storages + 1,
        "live": room + 2,
        "first": units,
        "times": units,
        "again": room + 1,
        "total": 1,
        "entry": 1,
        "stamp": storages + 1,
        "change": room + 2,
        "found": 2 * storages + 2,
        "flips": 2,
    }
    return Profile(*(np.zeros(lengths.get(name, storages), np.int64) for name in Profile._fields))


@compiled_loop
def follow(flat, schedule, length, limit, profile):
    """Set the profile of a schedule; return its peak and the bytes beyond the limit, added up."""
    start, access, live, first = profile.start, profile.access, profile.live, profile.first
    units, storages = len(flat.extra), len(flat.size)
    for s in range(storages + 1):
        start[s] = 0
    for s in range(storages):
        start[s + 1] = np.int64(flat.present[s])
    for unit in range(units):
        profile.times[unit] = 0
        first[unit] = length
    for position in range(length - 1, -1, -1):
        unit = schedule[position]
        profile.times[unit] += 1
        first[unit] = position
    for unit in range(units):
        times = profile.times[unit]
        for t in range(flat.read_start[unit], flat.read_start[unit + 1]):
            start[flat.reads[t] + 1] += times
        for t in range(flat.write_start[unit], flat.write_start[unit + 1]):
            start[flat.writes[t] + 1] += times
    for s in range(storages):
        start[s + 1] += start[s]
    cursor = profile.number
    for s in range(storages):
        cursor[s] = start[s]
        if flat.present[s]:
            access[cursor[s]] = _BEGIN
            cursor[s] += 1
    total = 0
    for position in range(length):
        unit, key = schedule[position], 4 * (position + 1)
        if profile.times[unit] > 1:
            profile.again[total] = position
            total += 1
        for t in range(flat.read_start[unit], flat.read_start[unit + 1]):
            s = flat.reads[t]
            access[cursor[s]] = key + flat.spared[t]
            cursor[s] += 1
        for t in range(flat.write_start[unit], flat.write_start[unit + 1]):
            s = flat.writes[t]
            access[cursor[s]] = key + (0 if flat.in_parts[s] else _BEGIN)
            cursor[s] += 1
    profile.total[0] = total
    for position in range(length + 1):
        live[position] = 0
    entry = flat.entry
    for s in range(storages):
        begin, end, size = start[s], start[s + 1], flat.size[s]
        if end == begin:
            continue
        if flat.present[s] and end == begin + 1 and not flat.kept[s]:
            entry += size
            continue
        retention = (access[begin] >> 2) - 1
        stop = retention + 1
        for k in range(begin + 1, end):
            at = (access[k] >> 2) - 1
            if access[k] & _BEGIN:
                live[max(0, retention)] += size
                live[stop] -= size
                retention = at
                stop = at + 1
            else:
                stop = at + 1 - (access[k] & _SPARED)
        live[max(0, retention)] += size
        live[length if flat.kept[s] else stop] -= size
    profile.entry[0] = entry
    now, peak, beyond = flat.base, flat.base, 0
    for position in range(length):
        now += live[position]
        here = now + flat.extra[schedule[position]]
        if position == 0:
            here += entry
        live[position] = here
        peak = max(peak, here)
        beyond += max(0, here - limit)
    return peak, beyond


@compiled_loop
def access_from(profile, storage, position):
    """Index of the first access to a storage at a position or later; the end if there is none."""
    low, high, key = profile.start[storage], profile.start[storage + 1], 4 * (position + 1)
    access = profile.access
    while low < high:
        middle = (low + high) >> 1
        if access[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@compiled_loop
def read_next(flat, profile, storage, k):
    """True if a retention lasts to the ``k``-th access, or to the end of the schedule."""
    if k < profile.start[storage + 1]:
        return profile.access[k] & _BEGIN == 0
    return flat.kept[storage]


@compiled_loop
def beyond_after(flat, limit, schedule, profile, low, high, new, size):
    """Change of the bytes beyond the limit if ``schedule[low:high]`` becomes ``new[:size]``.

    The window is not empty; if it begins at 0, ``new`` is not empty either.
    """
    number, accessed, stamps = profile.number, profile.accessed, profile.stamp
    start, access, live = profile.start, profile.access, profile.live
    stamps[len(flat.size)] += 1
    stamp = stamps[len(flat.size)]
    count = 0
    for k in range(high - low + size):
        unit = schedule[low + k] if k < high - low else new[k - high + low]
        for t in range(flat.read_start[unit], flat.read_start[unit + 1]):
            s = flat.reads[t]
            if stamps[s] != stamp:
                stamps[s], accessed[count], number[s] = stamp, s, count
                count += 1
        for t in range(flat.write_start[unit], flat.write_start[unit + 1]):
            s = flat.writes[t]
            if stamps[s] != stamp:
                stamps[s], accessed[count], number[s] = stamp, s, count
                count += 1
    # Bytes live throughout the window: those at its begin, of storages that are not accessed in it.
    level = live[low] - flat.extra[schedule[low]]
    if low == 0:
        level -= profile.entry[0]
    before, reach, last, spared = profile.before, profile.reach, profile.last, profile.spared
    later, change = profile.later, profile.change
    for i in range(count):
        s = accessed[i]
        end = start[s + 1]
        k = access_from(profile, s, low)
        after = k
        while after < end and access[after] < 4 * (high + 1):
            after += 1
        later[i] = np.int64(read_next(flat, profile, s, after))
        known = k > start[s]
        before[i] = np.int64(known and read_next(flat, profile, s, k))
        # The access from which on a retention before the window would have to last.
        reach[i] = (access[k - 1] >> 2) - (access[k - 1] & _SPARED) if known else -1
        last[i] = -1 if known else -2
        spared[i] = 0
        there = before[i] == 1
        if k < end and (access[k] >> 2) - 1 == low:
            there = access[k] & _SPARED == 0 or read_next(flat, profile, s, k + 1)
        if there:
            level -= flat.size[s]
    for j in range(size + 1):
        change[j] = 0
    found, flips = profile.found, 0
    for j in range(size):
        unit = new[j]
        for t in range(flat.read_start[unit], flat.read_start[unit + 1]):
            s = flat.reads[t]
            i = number[s]
            if last[i] == -1:
                if not before[i]:
                    found[2 * flips], found[2 * flips + 1] = reach[i], flat.size[s]
                    flips += 1
                change[0] += flat.size[s]
            else:
                change[last[i] + 1 - spared[i]] += flat.size[s]
            last[i], spared[i] = j, flat.spared[t]
            change[j + 1 - spared[i]] -= flat.size[s]
        for t in range(flat.write_start[unit], flat.write_start[unit + 1]):
            s = flat.writes[t]
            i = number[s]
            if flat.in_parts[s] and last[i] != -2:
                if last[i] == -1:
                    if not before[i]:
                        found[2 * flips], found[2 * flips + 1] = reach[i], flat.size[s]
                        flips += 1
                    change[0] += flat.size[s]
                else:
                    change[last[i] + 1 - spared[i]] += flat.size[s]
            else:
                if last[i] == -1 and before[i]:
                    found[2 * flips], found[2 * flips + 1] = reach[i], -flat.size[s]
                    flips += 1
                change[j] += flat.size[s]
            last[i], spared[i] = j, 0
            change[j + 1] -= flat.size[s]
    for i in range(count):
        s = accessed[i]
        if last[i] == -1:
            if later[i]:
                change[0] += flat.size[s]
            if before[i] != later[i]:
                more = flat.size[s] if later[i] else -flat.size[s]
                found[2 * flips], found[2 * flips + 1] = reach[i], more
                flips += 1
        elif last[i] >= 0 and later[i]:
            change[last[i] + 1 - spared[i]] += flat.size[s]
    beyond = 0
    for position in range(low, high):
        beyond -= max(0, live[position] - limit)
    for j in range(size):
        level += change[j]
        here = level + flat.extra[new[j]] - limit
        if low == 0 and j == 0:
            here += profile.entry[0]
        change[j] = here + limit
        beyond += max(0, here)
    # Before the window: from the earliest reach on, more or fewer bytes.
    for i in range(1, flips):
        at, more = found[2 * i], found[2 * i + 1]
        k = i
        while k > 0 and found[2 * k - 2] > at:
            found[2 * k], found[2 * k + 1] = found[2 * k - 2], found[2 * k - 1]
            k -= 1
        found[2 * k], found[2 * k + 1] = at, more
    more = 0
    for i in range(flips):
        more += found[2 * i + 1]
        stop = found[2 * i + 2] if i + 1 < flips else low
        if more != 0:
            part = 0
            for position in range(found[2 * i], stop):
                over = live[position] - limit
                part += max(0, over + more) - max(0, over)
            beyond += part
    profile.flips[0] = flips
    profile.flips[1] = count
    return beyond


@compiled_loop
def follow_window(flat, schedule, profile, low, high, new):
    """Set the profile after units changed places in a window that was just judged.

    ``new`` has the units of ``schedule[low:high]`` in their new order, and replaces them.
    """
    live, access, found, number = profile.live, profile.access, profile.found, profile.number
    flips = profile.flips[0]
    more = 0
    for i in range(flips):
        more += found[2 * i + 1]
        stop = found[2 * i + 2] if i + 1 < flips else low
        for position in range(found[2 * i], stop):
            live[position] += more
    for i in range(profile.flips[1]):
        s = profile.accessed[i]
        number[s] = access_from(profile, s, low)
    for j in range(high - low):
        live[low + j] = profile.change[j]
        if profile.first[new[j]] >= low:
            profile.first[new[j]] = high
    for j in range(high - low):
        unit, key = new[j], 4 * (low + j + 1)
        schedule[low + j] = unit
        if profile.first[unit] == high:
            profile.first[unit] = low + j
        for t in range(flat.read_start[unit], flat.read_start[unit + 1]):
            s = flat.reads[t]
            access[number[s]] = key + flat.spared[t]
            number[s] += 1
        for t in range(flat.write_start[unit], flat.write_start[unit + 1]):
            s = flat.writes[t]
            access[number[s]] = key + (0 if flat.in_parts[s] else _BEGIN)
            number[s] += 1
    # The positions of runs again, in the window.
    if profile.total[0]:
        k, stop = 0, profile.total[0]
        while k < stop:
            middle = (k + stop) >> 1
            if profile.again[middle] < low:
                k = middle + 1
            else:
                stop = middle
        for position in range(low, high):
            if profile.times[schedule[position]] > 1:
                profile.again[k] = position
                k += 1
