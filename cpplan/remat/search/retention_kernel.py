"""Retentions of a schedule, their offsets, and the bytes they share."""

# Arrays are described in ``anneal_packed``; the compiler infers their types.
# mypy: disable-error-code="no-untyped-def,no-any-return,untyped-decorator"

from __future__ import annotations

import numpy as np

from cpplan.model.problem import Ints
from cpplan.remat.search.flat_problem import FlatProblem
from cpplan.runtime.loop_compiler import compiled_loop

# Most offsets to try for a retention.
_LOOKS = 400
# No limit on bytes, the result of an impossible move, and most retentions moved by another.
_ALL, NO, _EJECTED = 1 << 60, 1 << 61, 6


@compiled_loop
def find_retentions(flat, slots, schedule, ids, length, begin, end, stop, active, latest):
    """Find the retentions of a schedule and return their number.

    Sets their first and last positions, and the runs that end them.

    ``active`` lists their slots by first position; ``end`` of all other slots is -1. ``latest`` is
    scratch, a row for every storage.
    """
    storages = len(flat.size)
    for slot in range(len(end)):
        end[slot] = -1
    for s in range(storages):
        latest[s] = -1
    count = 0
    if flat.entry > 0:
        slot = len(end) - 1
        begin[slot], end[slot], stop[slot] = 0, 0, ids[0]
        active[count] = slot
        count += 1
    for s in range(storages):
        if flat.present[s]:
            begin[s], end[s], stop[s] = 0, 0, ids[0]
            latest[s] = s
            active[count] = s
            count += 1
    for position in range(length):
        unit, run = schedule[position], ids[position]
        for t in range(flat.read_start[unit], flat.read_start[unit + 1]):
            slot = latest[flat.reads[t]]
            end[slot], stop[slot] = position, run
        first = storages + run * slots
        for t in range(flat.write_start[unit], flat.write_start[unit + 1]):
            s = flat.writes[t]
            slot = s if flat.in_parts[s] else first + t - flat.write_start[unit]
            if latest[s] != slot:
                latest[s] = slot
                begin[slot] = position
                active[count] = slot
                count += 1
            end[slot], stop[slot] = position, run
        if flat.extra[unit] > 0:
            slot = first + slots - 1
            begin[slot], end[slot], stop[slot] = position, position, run
            active[count] = slot
            count += 1
    for s in range(storages):
        if flat.kept[s] and latest[s] >= 0:
            end[latest[s]], stop[latest[s]] = length - 1, -1
    return count


@compiled_loop
def overlap(slot, offset, limit, begin, end, active, count, pending, off, size):
    """Bytes that a retention at an offset shares with others, pair by pair; up to ``limit``."""
    low, high, first, last = offset, offset + size[slot], begin[slot], end[slot]
    shared = 0
    for k in range(count):
        other = active[k]
        if begin[other] > last:
            break
        if end[other] < first or pending[other] or other == slot:
            continue
        both = min(high, off[other] + size[other]) - max(low, off[other])
        if both > 0:
            shared += both
            if shared > limit:
                break
    return shared


@compiled_loop
def place(random, slot, limit, most, align, begin, end, active, count, pending, off, size, near):
    """Offset beside another retention at which a retention shares least, and the bytes shared.

    If these exceed ``most``, the offset is unchanged and the bytes are ``most + 1``.
    """
    found = 0
    for k in range(count):
        other = active[k]
        if begin[other] > end[slot]:
            break
        if end[other] >= begin[slot] and not pending[other] and other != slot:
            near[found] = other
            found += 1
    step, top = align[slot], limit - size[slot]
    best, least = off[slot], most + 1
    looks = min(2 * found + 2, _LOOKS)
    start = random.integers(0, 2 * found + 2)
    for look in range(looks):
        k = (start + look) % (2 * found + 2)
        if k == 2 * found:
            offset = np.int64(0)
        elif k == 2 * found + 1:
            offset = top
        elif k % 2:
            offset = off[near[k // 2]] + size[near[k // 2]]
        else:
            offset = off[near[k // 2]] - size[slot]
        if step > 1:
            offset = offset // step * step if k % 2 == 0 else -(-offset // step) * step
            if k == 2 * found + 1:
                offset = top // step * step
        if offset < 0 or offset > top:
            continue
        shared, high = 0, offset + size[slot]
        for j in range(found):
            other = near[j]
            both = min(high, off[other] + size[other]) - max(offset, off[other])
            if both > 0:
                shared += both
                if shared >= least:
                    break
        if shared < least:
            best, least = offset, shared
            if least == 0:
                break
    return best, least


@compiled_loop
def shift(
    random, slot, limit, most, align, begin, end, active, count, pending, off, size, near, moved,
    before,
):  # fmt: skip
    """Move a retention and those it overlaps; returns the increase of shared bytes, or ``NO``."""
    found = 0
    for k in range(count):
        other = active[k]
        if begin[other] > end[slot]:
            break
        if end[other] >= begin[slot] and other != slot:
            near[found] = other
            found += 1
    if found == 0:
        return NO
    step, top = align[slot], limit - size[slot]
    other = near[random.integers(0, found)]
    kind = random.integers(0, 4)
    if kind == 0:
        offset = off[other]
    elif kind == 1:
        offset = off[other] + size[other]
    elif kind == 2:
        offset = off[other] - size[slot]
    else:
        offset = off[other] + size[other] - size[slot]
    offset = min(max(offset, 0), top)
    if step > 1:
        offset = offset // step * step
    if offset == off[slot]:
        return NO
    moved[0], before[0] = slot, off[slot]
    n, low, high = 1, offset, offset + size[slot]
    more = -overlap(slot, off[slot], _ALL, begin, end, active, count, pending, off, size)
    pending[slot] = True
    for k in range(found):
        other = near[k]
        if off[other] < high and off[other] + size[other] > low:
            if n > _EJECTED:
                more = NO
                break
            more -= overlap(other, off[other], _ALL, begin, end, active, count, pending, off, size)
            pending[other] = True
            moved[n], before[n] = other, off[other]
            n += 1
    if more != NO:
        off[slot], pending[slot] = offset, False
        for k in range(1, n):
            # Largest first.
            for j in range(k + 1, n):
                if size[moved[j]] > size[moved[k]]:
                    moved[j], moved[k] = moved[k], moved[j]
                    before[j], before[k] = before[k], before[j]
            other = moved[k]
            at, extra = place(
                random, other, limit, most - more, align, begin, end, active, count, pending, off,
                size, near,
            )  # fmt: skip
            more += extra
            if more > most:
                break
            off[other], pending[other] = at, False
        if more > most:
            more = NO
    for k in range(n):
        pending[moved[k]] = False
        if more == NO:
            off[moved[k]] = before[k]
    return more


def place_all(
    random: np.random.Generator, flat: FlatProblem, slots: int, schedule: Ints, ids: Ints,
    length: int, limit: int, align: Ints, off: Ints, size: Ints,
) -> int:  # fmt: skip
    """Place all retentions, the largest area first; returns the bytes that they share."""
    total = len(size)
    begin, end, stop, active, near = (np.zeros(total, np.int64) for _ in range(5))
    latest = np.empty(len(flat.size), np.int64)
    count = find_retentions(flat, slots, schedule, ids, length, begin, end, stop, active, latest)
    slot = active[:count]
    area = size[slot].astype(np.float64) * (end[slot] - begin[slot] + 1)
    order = slot[np.argsort(-area, kind="stable")]
    shared = place_in_order(
        random, order, limit, align, begin, end, active, count, np.ones(total, bool), off, size,
        near,
    )  # fmt: skip
    return int(shared)


@compiled_loop
def place_in_order(
    random, order, limit, align, begin, end, active, count, pending, off, size, near
):
    """Set offsets of retentions one after another, and return the bytes that they share."""
    shared = 0
    for slot in order:
        off[slot], more = place(
            random, slot, limit, 1 << 60, align, begin, end, active, count, pending, off, size, near
        )
        pending[slot] = False
        shared += more
    return shared


@compiled_loop
def all_shared(begin, end, active, count, off, size, pending):
    shared = 0
    for k in range(count):
        shared += overlap(
            active[k], off[active[k]], 1 << 60, begin, end, active, k, pending, off, size
        )
    return shared


@compiled_loop
def measure_slots(flat, slots, schedule, ids, length, run, align, size):
    for position in range(length):
        if ids[position] == run:
            measure_run(flat, slots, schedule[position], run, align, size)


@compiled_loop
def measure_runs(flat, slots, schedule, ids, length, align, size):
    """Set the sizes and alignments of the retentions and the blocks that all runs begin."""
    for position in range(length):
        measure_run(flat, slots, schedule[position], ids[position], align, size)


@compiled_loop
def measure_run(flat, slots, unit, run, align, size):
    """Set the sizes and alignments of the retentions and the block that a run begins."""
    storages = len(flat.size)
    slot = storages + run * slots
    for t in range(flat.write_start[unit], flat.write_start[unit + 1]):
        size[slot], align[slot] = flat.size[flat.writes[t]], align[flat.writes[t]]
        slot += 1
    slot = storages + (run + 1) * slots - 1
    if flat.extra[unit] > 0:
        size[slot], align[slot] = flat.extra[unit], align[len(align) - 1]
