"""Compiled loop of the search over downsets, which ``downset_search`` describes.

Sets of ops are rows of 64-bit words. States are rows of flat arrays: the set of ops that have run,
the bytes live after them, the largest pressure on the way, and the state and op it was reached by.
A hash table of row numbers finds the state of a set; a binary heap yields the state to extend next.
"""

# The compiler gives these functions their types.
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from cpplan.runtime.loop_compiler import compiled_loop

ORDER_FOUND, PROVED, STATES_SPENT, SLICE_SPENT = 0, 1, 2, 3


@compiled_loop
def _has(words, k):
    return (words[k >> 6] >> np.uint64(k & 63)) & np.uint64(1) == np.uint64(1)


@compiled_loop
def _hash(words):
    value = np.uint64(0x9E3779B97F4A7C15)
    for word in words:
        value ^= word
        value *= np.uint64(0xBF58476D1CE4E5B9)
        value ^= value >> np.uint64(29)
    return value


@compiled_loop
def _copy(words, others):
    for k in range(len(words)):
        others[k] = words[k]


@compiled_loop
def _subset(inner, outer):
    for k in range(len(inner)):
        if inner[k] & ~outer[k] != np.uint64(0):
            return False
    return True


@compiled_loop
def _meets(one, other):
    for k in range(len(one)):
        if one[k] & other[k] != np.uint64(0):
            return True
    return False


@compiled_loop
def _step(op, done, first, accesses, size, users, present, kept):
    """Bytes allocated by running ``op`` after ``done``, and bytes freed after it."""
    allocated, freed = 0, 0
    word, bit = op >> 6, np.uint64(1) << np.uint64(op & 63)
    for at in range(first[op], first[op + 1]):
        storage = accesses[at]
        if not present[storage] and not _meets(users[storage], done):
            allocated += size[storage]
        if not kept[storage]:
            left = False
            for k in range(len(done)):
                rest = users[storage, k] & ~done[k]
                if k == word:
                    rest &= ~bit
                if rest != np.uint64(0):
                    left = True
                    break
            if not left:
                freed += size[storage]
    return allocated, freed


@compiled_loop
def _before(one, other, peak, count):
    """True if one state goes before another: less pressure, then more ops done, then the later."""
    if peak[one] != peak[other]:
        return peak[one] < peak[other]
    if count[one] != count[other]:
        return count[one] > count[other]
    return one > other


@compiled_loop
def _push(heap, length, item, peak, count):
    k = length
    heap[k] = item
    while k > 0:
        parent = (k - 1) >> 1
        if not _before(heap[k], heap[parent], peak, count):
            break
        heap[k], heap[parent] = heap[parent], heap[k]
        k = parent
    return length + 1


@compiled_loop
def _pop(heap, length, peak, count):
    top = heap[0]
    length -= 1
    heap[0] = heap[length]
    k = 0
    while True:
        child = 2 * k + 1
        if child >= length:
            break
        if child + 1 < length and _before(heap[child + 1], heap[child], peak, count):
            child += 1
        if not _before(heap[child], heap[k], peak, count):
            break
        heap[k], heap[child] = heap[child], heap[k]
        k = child
    return top, length


@compiled_loop
def find(words, done, table):
    """Slot of the table that holds this set, or the free slot for it."""
    slots = np.uint64(len(table))
    slot = np.int64(_hash(words) % slots)
    while table[slot] >= 0:
        same = True
        for k in range(len(words)):
            if done[table[slot], k] != words[k]:
                same = False
                break
        if same:
            break
        slot += 1
        if slot == len(table):
            slot = 0
    return slot


@compiled_loop
def extend(
    pops,
    below,
    entry,
    before,
    extra,
    first,
    accesses,
    size,
    users,
    present,
    kept,
    done,
    live,
    peak,
    count,
    parent,
    ran,
    table,
    heap,
    cursor,
    scratch,
):
    """Extend up to ``pops`` states and return the reason for stopping.

    States that reach a pressure of ``below`` are dropped. ``cursor`` keeps four numbers between
    calls: states used, heap length, the level, and the row of the complete state once there is one.
    ``scratch`` has room for one set.
    """
    ops, capacity = len(extra), len(live)
    for _ in range(pops):
        if cursor[1] == 0:
            return PROVED
        row, cursor[1] = _pop(heap, cursor[1], peak, count)
        if table[find(done[row], done, table)] != row:
            continue  # a later entry has reached this set with less pressure
        cursor[2] = max(cursor[2], peak[row])
        if count[row] == ops:
            cursor[3] = row
            return ORDER_FOUND
        level = cursor[2]
        for op in range(ops):
            if _has(done[row], op) or not _subset(before[op], done[row]):
                continue
            if cursor[0] + ops >= capacity:
                cursor[1] = _push(heap, cursor[1], row, peak, count)
                return STATES_SPENT
            _copy(done[row], scratch)
            at, bytes_live, highest, steps = row, live[row], peak[row], count[row]
            nxt = op
            start = cursor[0]
            used = start
            dropped = False
            # Run op; then at once every op that frees at least what it allocates and whose step
            # fits below the level, which every order must reach.
            while nxt >= 0:
                allocated, freed = _step(nxt, scratch, first, accesses, size, users, present, kept)
                pressure = bytes_live + allocated + extra[nxt]
                if steps == 0:
                    pressure += entry
                if pressure >= below:
                    dropped = True
                    break
                highest = max(highest, pressure)
                bytes_live += allocated - freed
                scratch[nxt >> 6] |= np.uint64(1) << np.uint64(nxt & 63)
                steps += 1
                _copy(scratch, done[used])
                live[used] = bytes_live
                peak[used] = highest
                count[used] = steps
                parent[used] = at
                ran[used] = nxt
                at = used
                used += 1
                nxt = -1
                for other in range(ops):
                    if _has(scratch, other) or not _subset(before[other], scratch):
                        continue
                    allocated, freed = _step(
                        other, scratch, first, accesses, size, users, present, kept
                    )
                    if freed >= allocated and bytes_live + allocated + extra[other] <= level:
                        nxt = other
                        break
            if dropped:
                continue
            slot = find(scratch, done, table)
            if table[slot] >= 0 and peak[table[slot]] <= highest:
                continue
            table[slot] = at
            cursor[0] = used
            cursor[1] = _push(heap, cursor[1], at, peak, count)
    return SLICE_SPENT
