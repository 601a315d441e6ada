"""Numbers of the runs of a schedule, kept the same from one move to the next."""

# Arrays are described in ``anneal_packed``; the compiler infers their types.
# mypy: disable-error-code="no-untyped-def,no-any-return,untyped-decorator"

from __future__ import annotations

from cpplan.remat.search.moves_kernel import copy_runs
from cpplan.runtime.loop_compiler import compiled_loop


@compiled_loop
def differs(slot, storages, slots, begin, begin2, ids, other_ids, stop, stop2, moved, stamp):
    if stop[slot] != stop2[slot] or ids[begin[slot]] != other_ids[begin2[slot]]:
        return True
    if moved[ids[begin[slot]]] == stamp:
        return True
    return stop[slot] >= 0 and moved[stop[slot]] == stamp


@compiled_loop
def name_inserted(schedule, ids, length, other, other_ids, n, free, left, moved, stamp):
    """Number the runs of a schedule after an insertion; return how many, or -1 without room."""
    more, place = n - length, 0
    if more > left:
        return -1
    while place < length and schedule[place] == other[place]:
        place += 1
    copy_runs(ids, 0, place, other_ids, 0)
    for k in range(more):
        other_ids[place + k] = free[left - 1 - k]
        moved[free[left - 1 - k]] = stamp
    copy_runs(ids, place, length, other_ids, place + more)
    return more


@compiled_loop
def name_removed(schedule, ids, length, other, other_ids, n, moved, stamp):
    less, place = length - n, 0
    while place < n and schedule[place] == other[place]:
        place += 1
    copy_runs(ids, 0, place, other_ids, 0)
    copy_runs(ids, place + less, length, other_ids, place)


@compiled_loop
def name_moved(schedule, ids, other, other_ids, n, moved, stamp):
    """Number the runs of a schedule in which some in a row have moved."""
    low, high = 0, n
    while low < n and schedule[low] == other[low]:
        low += 1
    while high > low and schedule[high - 1] == other[high - 1]:
        high -= 1
    if low == high:
        return False
    copy_runs(ids, 0, n, other_ids, 0)
    wide = high - low
    for block in range(1, min(9, wide)):
        for way in range(2):
            turn = block if way == 0 else wide - block
            same = True
            for k in range(wide):
                if other[low + k] != schedule[low + (k + turn) % wide]:
                    same = False
                    break
            if same:
                for k in range(wide):
                    other_ids[low + k] = ids[low + (k + turn) % wide]
                start = low if way == 0 else high - block
                for k in range(start, start + block):
                    moved[ids[k]] = stamp
                return True
    return False


@compiled_loop
def same_order(schedule, first, other, n, seen, stamp):
    """True if the first runs of two schedules have the same order."""
    k = 0
    for position in range(n):
        unit = other[position]
        if seen[unit] != stamp:
            seen[unit] = stamp
            while first[schedule[k]] != k:
                k += 1
            if schedule[k] != unit:
                return False
            k += 1
    return True
