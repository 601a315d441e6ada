"""The compiled loop of the search over packed sequences; imports numba, so import it to search."""

# Arrays are described in ``anneal_packed``; the compiler infers their types.
# mypy: disable-error-code="no-untyped-def,no-any-return,untyped-decorator"

from __future__ import annotations

import numpy as np
from numba import njit

from cpplan.remat.sequence_kernel import _insert, _move, _remove

# Shares of the moves.
_INSERT, _REMOVE, _EXCHANGE, _MOVE = 0.20, 0.25, 0.10, 0.15
# How often a stay that changed and overlaps another gets another offset.
_PLACE = 0.7
# Offsets that are looked at for a stay, at most.
_LOOKS = 400
_ALL, _NO, _EJECTED = 1 << 60, 1 << 61, 6


@njit(cache=True)
def find_stays(flat, slots, sequence, ids, length, begin, end, stop, active):
    """The stays of a sequence: first and last position, run that ends them; how many there are.

    ``active`` lists their slots by first position; ``end`` of all other slots is -1.
    """
    storages = len(flat.size)
    end[:] = -1
    latest = np.full(storages, -1, np.int64)
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
        unit, run = sequence[position], ids[position]
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


@njit(cache=True)
def overlap(slot, offset, limit, begin, end, active, count, pending, off, size):
    """Bytes that a stay at an offset shares with others, pair by pair; at most about ``limit``."""
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


@njit(cache=True)
def place(random, slot, limit, most, align, begin, end, active, count, pending, off, size, near):
    """``(offset, bytes shared)`` where a stay shares least with others, beside one of them.

    If that is more than ``most``, its offset is left and the bytes are ``most + 1``.
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


@njit(cache=True)
def shift(
    random, slot, limit, most, align, begin, end, active, count, pending, off, size, near, moved,
    before,
):  # fmt: skip
    """Give a stay another offset, and those in its way too; bytes shared more, or ``_NO``."""
    found = 0
    for k in range(count):
        other = active[k]
        if begin[other] > end[slot]:
            break
        if end[other] >= begin[slot] and other != slot:
            near[found] = other
            found += 1
    if found == 0:
        return _NO
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
        return _NO
    moved[0], before[0] = slot, off[slot]
    n, low, high = 1, offset, offset + size[slot]
    more = -overlap(slot, off[slot], _ALL, begin, end, active, count, pending, off, size)
    pending[slot] = True
    for k in range(found):
        other = near[k]
        if off[other] < high and off[other] + size[other] > low:
            if n > _EJECTED:
                more = _NO
                break
            more -= overlap(other, off[other], _ALL, begin, end, active, count, pending, off, size)
            pending[other] = True
            moved[n], before[n] = other, off[other]
            n += 1
    if more != _NO:
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
            more = _NO
    for k in range(n):
        pending[moved[k]] = False
        if more == _NO:
            off[moved[k]] = before[k]
    return more


@njit(cache=True)
def place_all(random, flat, slots, sequence, ids, length, limit, align, off, size):
    """Offsets for all stays, those of the largest area first; bytes that they share."""
    total = len(size)
    begin, end, stop, active, near = _five(total)
    count = find_stays(flat, slots, sequence, ids, length, begin, end, stop, active)
    pending = np.ones(total, np.bool_)
    area = np.empty(count, np.float64)
    for k in range(count):
        slot = active[k]
        area[k] = -float(size[slot]) * (end[slot] - begin[slot] + 1)
    shared = 0
    for k in np.argsort(area):
        slot = active[k]
        off[slot], more = place(
            random, slot, limit, 1 << 60, align, begin, end, active, count, pending, off, size, near
        )
        pending[slot] = False
        shared += more
    return shared


@njit(cache=True)
def _five(total):
    return (
        np.zeros(total, np.int64),
        np.full(total, -1, np.int64),
        np.zeros(total, np.int64),
        np.zeros(total, np.int64),
        np.zeros(total, np.int64),
    )


@njit(cache=True)
def anneal_packed(
    flat, slots, limit, align, sequence, ids, length, off, size, best, result, moves, weight,
    hot, cold, reach, joint, random,
):  # fmt: skip
    """Random moves of runs and of stays, judged by cost plus ``weight`` for every byte shared.

    What is worse by ``d`` is accepted with probability ``exp(-d / temperature)``.

    Parameters
    ----------
    flat
        A :class:`~cpplan.remat.flat_problem.FlatProblem`; ``extra`` and ``entry`` are block sizes.
    slots
        Of every run: its written storages, and one more if any unit has a block.
    limit
        Bytes; no stay ends above.
    sequence, ids, length
        Units, and the number of each run, unique; overwritten with where the walk ends, whose
        length is returned.
    off, align, size
        Of every slot: first the storages (what is there from the start, or written in parts), then
        ``slots`` for each run, last what is handed in for nobody.
    best
        ``(sequence, ids, off)``, filled with the best: what shares least, the cheapest of those.
    result
        ``[length, bytes shared, cost]`` of ``best``, on entry too.
    moves, weight, hot, cold
        How many; see above; temperatures at the first and at the last move.
    reach
        Positions that a unit moves at most; if negative, only offsets change.
    joint
        Whether first runs may change their order.
    random
        A ``numpy.random.Generator``.
    """
    units, storages, room = len(flat.extra), len(flat.size), len(sequence)
    given, given_ids = sequence, ids
    best_sequence, best_ids, best_off = best
    total = len(size)
    middle, other = np.empty(room, np.int64), np.empty(room, np.int64)
    middle_ids, other_ids = np.empty(room, np.int64), np.empty(room, np.int64)
    begin, end, stop, active, near = _five(total)
    begin2, end2, stop2, active2, conflicts = _five(total)
    conflict_count = 0
    pending = np.zeros(total, np.bool_)
    changed, old_off = np.empty(total, np.int64), np.empty(total, np.int64)
    moved = np.zeros(room, np.int64)
    stamp = 0
    count = np.zeros(units, np.int64)
    first = np.full(units, room, np.int64)
    rank = np.empty(units, np.int64)
    rank[flat.topological] = np.arange(units)
    cost = 0.0
    used = np.zeros(room, np.bool_)
    for position in range(length - 1, -1, -1):
        unit = sequence[position]
        cost += flat.cost[unit]
        count[unit] += 1
        first[unit] = position
        used[ids[position]] = True
    free, left = np.empty(room, np.int64), 0
    for run in range(room - 1, -1, -1):
        if not used[run]:
            free[left] = run
            left += 1
    seen = np.zeros(units, np.int64)
    n_active = find_stays(flat, slots, sequence, ids, length, begin, end, stop, active)
    shared = _all_shared(begin, end, active, n_active, off, size, pending)
    fall = (cold / hot) ** (1.0 / max(1, moves))
    temperature = hot
    for move in range(moves):
        temperature *= fall
        if move % 500 == 0:
            conflict_count = 0
            for k in range(n_active):
                slot = active[k]
                if overlap(slot, off[slot], 0, begin, end, active, n_active, pending, off, size):
                    conflicts[conflict_count] = slot
                    conflict_count += 1
        # What may become worse is drawn first, so that most moves are given up halfway.
        allowed = -temperature * np.log(1.0 - random.random())
        kind = random.random() if reach > 0 else 0.99
        if kind >= _INSERT + _REMOVE + _EXCHANGE + _MOVE:
            # Another offset for one stay.
            if conflict_count > 0 and random.random() < 0.7:
                slot = conflicts[random.integers(0, conflict_count)]
                if end[slot] < 0:
                    continue
            else:
                slot = active[random.integers(0, n_active)]
            more = shift(
                random, slot, limit, int(min(allowed / weight, 1e12)), align, begin, end, active,
                n_active, pending, off, size, near, changed, old_off,
            )  # fmt: skip
            if more != _NO:
                shared += more
                if (shared == 0 and (result[1] > 0 or cost < result[2])) or (
                    0 < shared < result[1]
                ):
                    best_sequence[:length], best_ids[:length] = sequence[:length], ids[:length]
                    best_off[:] = off
                    result[0], result[1], result[2] = length, shared, cost
            continue
        stamp += 1
        taken = 0
        if kind < _INSERT:
            n = _insert(random, flat, rank, sequence, length, other)
            if n >= 0:
                taken = _name_inserted(
                    sequence, ids, length, other, other_ids, n, free, left, moved, stamp
                )
        elif kind < _INSERT + _REMOVE:
            n = _remove(random, flat, sequence, length, other, count, first)
            if n >= 0:
                _name_removed(sequence, ids, length, other, other_ids, n, moved, stamp)
        elif kind < _INSERT + _REMOVE + _EXCHANGE:
            n = _remove(random, flat, sequence, length, middle, count, first)
            if n >= 0:
                _name_removed(sequence, ids, length, middle, middle_ids, n, moved, stamp)
                m = n
                n = _insert(random, flat, rank, middle, m, other)
                if n >= 0:
                    taken = _name_inserted(
                        middle, middle_ids, m, other, other_ids, n, free, left, moved, stamp
                    )
        else:
            n = _move(random, flat, sequence, length, other, first, reach)
            if n >= 0 and not _name_moved(sequence, ids, other, other_ids, n, moved, stamp):
                continue
        if n < 0 or taken < 0:
            continue
        if not joint and not _same_order(sequence, first, other, n, seen, stamp):
            continue
        judged = 0.0
        for position in range(n):
            judged += flat.cost[other[position]]
        if judged - cost - weight * shared > allowed:
            continue
        for k in range(taken):
            _measure_slots(flat, slots, other, other_ids, n, free[left - 1 - k], align, size)
        n_active2 = find_stays(flat, slots, other, other_ids, n, begin2, end2, stop2, active2)
        # Stays that begin or end at other runs than before.
        k_changed = 0
        for k in range(n_active):
            slot = active[k]
            if end2[slot] < 0 or _differs(
                slot, storages, slots, begin, begin2, ids, other_ids, stop, stop2, moved, stamp
            ):
                changed[k_changed] = slot
                k_changed += 1
        gone = k_changed
        after = shared
        for k in range(k_changed):
            slot = changed[k]
            after -= overlap(
                slot, off[slot], 1 << 60, begin, end, active, n_active, pending, off, size
            )
            pending[slot] = True
        most = shared + int(np.floor((allowed - judged + cost) / weight))
        if after > most:
            for k in range(gone):
                pending[changed[k]] = False
            continue
        for k in range(n_active2):
            slot = active2[k]
            if end[slot] < 0:
                changed[k_changed] = slot
                pending[slot] = True
                k_changed += 1
        for k in range(k_changed):
            old_off[k] = off[changed[k]]
        for k in range(k_changed - 1, -1, -1):
            slot = changed[k]
            if end2[slot] < 0:
                continue
            more = np.int64(1) << 60
            if k < gone:
                more = overlap(
                    slot, off[slot], 1 << 60, begin2, end2, active2, n_active2, pending, off, size
                )
            if more > 0 and (k >= gone or random.random() < _PLACE):
                cap = min(most - after, more)
                at, less = place(
                    random, slot, limit, cap, align, begin2, end2, active2, n_active2, pending,
                    off, size, near,
                )  # fmt: skip
                off[slot], more = at, min(less, more)
            after += more
            pending[slot] = False
            if after > most:
                break
        for k in range(k_changed):
            pending[changed[k]] = False
        if after > most:
            for k in range(k_changed):
                off[changed[k]] = old_off[k]
            continue
        left -= taken
        # Runs that are no longer there.
        for position in range(length):
            used[ids[position]] = False
        for position in range(n):
            used[other_ids[position]] = True
        for position in range(length):
            if not used[ids[position]]:
                free[left] = ids[position]
                left += 1
        sequence, other = other, sequence
        ids, other_ids = other_ids, ids
        begin, begin2 = begin2, begin
        end, end2 = end2, end
        stop, stop2 = stop2, stop
        active, active2 = active2, active
        n_active, length, cost, shared = n_active2, n, judged, after
        for unit in range(units):
            count[unit] = 0
        for position in range(length - 1, -1, -1):
            count[sequence[position]] += 1
            first[sequence[position]] = position
        if (shared == 0 and (result[1] > 0 or cost < result[2])) or (
            shared > 0 and shared < result[1]
        ):
            best_sequence[:length], best_ids[:length] = sequence[:length], ids[:length]
            best_off[:] = off
            result[0], result[1], result[2] = length, shared, cost
    given[:length] = sequence[:length]
    given_ids[:length] = ids[:length]
    return length


@njit(cache=True)
def _all_shared(begin, end, active, count, off, size, pending):
    shared = 0
    for k in range(count):
        shared += overlap(
            active[k], off[active[k]], 1 << 60, begin, end, active, k, pending, off, size
        )
    return shared


@njit(cache=True)
def _measure_slots(flat, slots, sequence, ids, length, run, align, size):
    for position in range(length):
        if ids[position] == run:
            measure_run(flat, slots, sequence[position], run, align, size)


@njit(cache=True)
def measure_run(flat, slots, unit, run, align, size):
    """Sizes and alignments of what a run writes."""
    storages = len(flat.size)
    slot = storages + run * slots
    for t in range(flat.write_start[unit], flat.write_start[unit + 1]):
        size[slot], align[slot] = flat.size[flat.writes[t]], align[flat.writes[t]]
        slot += 1
    slot = storages + (run + 1) * slots - 1
    if flat.extra[unit] > 0:
        size[slot], align[slot] = flat.extra[unit], align[len(align) - 1]


@njit(cache=True)
def _differs(slot, storages, slots, begin, begin2, ids, other_ids, stop, stop2, moved, stamp):
    if stop[slot] != stop2[slot] or ids[begin[slot]] != other_ids[begin2[slot]]:
        return True
    if moved[ids[begin[slot]]] == stamp:
        return True
    return stop[slot] >= 0 and moved[stop[slot]] == stamp


@njit(cache=True)
def _name_inserted(sequence, ids, length, other, other_ids, n, free, left, moved, stamp):
    """Runs of a sequence with some in a row inserted; how many, or -1 if there is no room."""
    more, place = n - length, 0
    if more > left:
        return -1
    while place < length and sequence[place] == other[place]:
        place += 1
    other_ids[:place] = ids[:place]
    for k in range(more):
        other_ids[place + k] = free[left - 1 - k]
        moved[free[left - 1 - k]] = stamp
    other_ids[place + more : n] = ids[place:length]
    return more


@njit(cache=True)
def _name_removed(sequence, ids, length, other, other_ids, n, moved, stamp):
    less, place = length - n, 0
    while place < n and sequence[place] == other[place]:
        place += 1
    other_ids[:place] = ids[:place]
    other_ids[place:n] = ids[place + less : length]


@njit(cache=True)
def _name_moved(sequence, ids, other, other_ids, n, moved, stamp):
    """Runs of a sequence in which some in a row have moved."""
    low, high = 0, n
    while low < n and sequence[low] == other[low]:
        low += 1
    while high > low and sequence[high - 1] == other[high - 1]:
        high -= 1
    if low == high:
        return False
    other_ids[:n] = ids[:n]
    wide = high - low
    for block in range(1, min(9, wide)):
        for way in range(2):
            turn = block if way == 0 else wide - block
            same = True
            for k in range(wide):
                if other[low + k] != sequence[low + (k + turn) % wide]:
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


@njit(cache=True)
def _same_order(sequence, first, other, n, seen, stamp):
    """Whether units run first in the same order."""
    k = 0
    for position in range(n):
        unit = other[position]
        if seen[unit] != stamp:
            seen[unit] = stamp
            while first[sequence[k]] != k:
                k += 1
            if sequence[k] != unit:
                return False
            k += 1
    return True
