"""Compiled loops that choose gaps and offsets together, step by step."""

# Arrays are described in ``Addresses``; the compiler infers their types.
# mypy: disable-error-code="no-untyped-def,no-any-return,untyped-decorator"

from __future__ import annotations

import numpy as np

from cpplan.runtime.loop_compiler import compiled_loop

_NEVER = 1 << 60
_PINNED = 1e30


@compiled_loop
def paid_of(flat, storage, drop):
    """Cost of the moves of a storage with these gaps dropped."""
    total = np.int64(0)
    first, last = flat.first_access[storage], flat.first_access[storage + 1]
    any_dropped, begins_slow = False, False
    for gap in range(flat.first_gap[storage], flat.first_gap[storage + 1]):
        if not drop[gap]:
            continue
        any_dropped = True
        if flat.gap_before[gap] < 0:
            begins_slow = True
        after = flat.gap_after[gap]
        if after >= 0:
            near = flat.near[after]
            following = flat.after[after]
            if following >= 0 and not drop[following]:
                near = True
            total += flat.reload[storage] if near else flat.cross[after]
    if flat.written[storage]:
        following = flat.after[first] if last > first else np.int64(-1)
        away = not flat.near[first] and (following < 0 or drop[following])
        if any_dropped or away:
            total += flat.spill[storage]
    elif any_dropped and not begins_slow:
        total += flat.spill[storage]
    return total


@compiled_loop
def loss_of(flat, state, storage, gap, step, power):
    """Cost of dropping a gap at a step, lower for a far next access; infinite if forbidden."""
    if gap < 0 or flat.fixed[gap] == 1 or flat.stay[storage]:
        return _PINNED
    cost, after = 0.0, flat.gap_after[gap]
    if after >= 0:
        cost = float(flat.reload[storage])
        if not flat.near[after] and flat.cross[after] < cost:
            cost = float(flat.cross[after])
    if state.drops[storage] == 0 and not state.slow[storage]:
        cost += flat.spill[storage]
    return cost / float(flat.gap_upper[gap] - step + 1) ** power


@compiled_loop
def _hole(flat, state, room, align, wanted):
    """Offset in the hole nearest to a wanted address, or -1 if no hole is large enough."""
    where, least, below = np.int64(-1), np.int64(_NEVER), np.int64(0)
    aligned = wanted // align * align
    count = state.filled[0]
    for number in range(count + 1):
        above = flat.capacity
        if number < count:
            above = state.offset[state.blocks[number]]
        low = (below + align - 1) // align * align
        if low + room <= above:
            offset = min(max(aligned, low), (above - room) // align * align)
            if abs(offset - wanted) < least:
                least, where = abs(offset - wanted), offset
        if number < count:
            block = state.blocks[number]
            below = max(below, state.offset[block] + state.length[block])
    return where


@compiled_loop
def _weigh(flat, state, step, power):
    """Compute the cost of evicting each block; infinite for the operands of the step."""
    for number in range(state.filled[0]):
        block = state.blocks[number]
        state.losses[block] = _PINNED
        if state.pinned[block] != step:
            state.losses[block] = loss_of(flat, state, block, state.gap[block], step, power)


@compiled_loop
def _find(flat, state, room, align, wanted):
    """Least cost of evictions that make room, and the offset; -1 if there is none."""
    best, where = _PINNED, np.int64(-1)
    count = state.filled[0]
    for number in range(-2, 2 * count + 1):
        if number == -2:
            offset = wanted // align * align
        elif number == -1:
            offset = np.int64(0)
        elif number < count:
            block = state.blocks[number]
            offset = state.offset[block] + state.length[block]
            offset = (offset + align - 1) // align * align
        else:
            top = flat.capacity
            if number < 2 * count:
                top = state.offset[state.blocks[number - count]]
            if top < room:
                continue
            offset = (top - room) // align * align
        end = offset + room
        if offset < 0 or end > flat.capacity:
            continue
        # The first block that ends above the offset.
        low, high = 0, count
        while low < high:
            middle = (low + high) // 2
            block = state.blocks[middle]
            if state.offset[block] + state.length[block] <= offset:
                low = middle + 1
            else:
                high = middle
        cost, position = 0.0, low
        while position < count and state.offset[state.blocks[position]] < end:
            cost += state.losses[state.blocks[position]]
            if cost > best:
                break
            position += 1
        if cost > best or cost >= _PINNED:
            continue
        if cost < best or where < 0 or abs(offset - wanted) < abs(where - wanted):
            best, where = cost, offset
    return best, where


@compiled_loop
def _remove(state, storage):
    """Remove a block from the pool."""
    count, position = state.filled[0], 0
    while state.blocks[position] != storage:
        position += 1
    for number in range(position, count - 1):
        state.blocks[number] = state.blocks[number + 1]
    state.filled[0] = count - 1
    state.there[storage] = False


@compiled_loop
def insert(state, storage, offset, length):
    """Insert a block into the pool, in order of offsets."""
    position = state.filled[0]
    while position > 0 and state.offset[state.blocks[position - 1]] > offset:
        state.blocks[position] = state.blocks[position - 1]
        position -= 1
    state.blocks[position] = storage
    state.filled[0] += 1
    state.there[storage] = True
    state.offset[storage], state.length[storage] = offset, length


@compiled_loop
def _drop(state, drop, storage, gap):
    """Drop a gap of a storage and add it to the dropped ones, unless it is dropped already."""
    if not drop[gap]:
        drop[gap] = True
        state.drops[storage] += 1
        state.dropped[state.filled[1]] = gap
        state.filled[1] += 1


@compiled_loop
def _clear(state, drop, offset, end):
    """Drop the gaps of all blocks between two addresses."""
    number = 0
    while number < state.filled[0]:
        block = state.blocks[number]
        begin = state.offset[block]
        if begin < end and begin + state.length[block] > offset:
            _drop(state, drop, block, state.gap[block])
            _remove(state, block)
        else:
            number += 1


@compiled_loop
def _put(flat, state, drop, access, step, power, wanted):
    """Place the storage of an access where that costs least; false if there is no place."""
    storage = flat.access_storage[access]
    room = flat.room[storage]
    where = _hole(flat, state, room, flat.align[storage], wanted)
    if where < 0:
        _weigh(flat, state, step, power)
        _, where = _find(flat, state, room, flat.align[storage], wanted)
        if where < 0:
            return False
        _clear(state, drop, where, where + room)
    insert(state, storage, where, room)
    return True


@compiled_loop
def _free_but(state, below, offset, end):
    """True if no block but the given one lies between two addresses."""
    for number in range(state.filled[0]):
        block = state.blocks[number]
        begin = state.offset[block]
        if block != below and begin < end and begin + state.length[block] > offset:
            return False
    return True


@compiled_loop
def _over(flat, state, drop, step, output, wanted):
    """Place an output over an input that is dropped there; false if that is impossible."""
    credit = flat.credit_of[output]
    if credit < 0:
        return False
    storage = flat.access_storage[output]
    room = flat.room[storage]
    if wanted >= 0 and _hole(flat, state, room, flat.align[storage], wanted) == wanted:
        return False
    for turn in range(2):
        for row in range(flat.over_start[credit], flat.over_start[credit + 1]):
            source = flat.over_access[row]
            gap = flat.over_gap[row]
            below = flat.access_storage[source]
            if state.used[below] == step or not state.there[below] or (gap >= 0 and not drop[gap]):
                continue
            offset = state.offset[below]
            # First the input at the wanted address, then any other input.
            if (offset == wanted) != (turn == 0):
                continue
            if offset % flat.align[storage] or offset + room > flat.capacity:
                continue
            length = max(room, state.length[below])
            if not _free_but(state, below, offset, offset + length):
                continue
            state.used[below] = step
            _remove(state, below)
            insert(state, storage, offset, length)
            return True
    return False


@compiled_loop
def _empty(flat, state, drop, step):
    """Evict all blocks that may be evicted, and drop their gaps; false if a gap is fixed."""
    number = 0
    while number < state.filled[0]:
        block = state.blocks[number]
        gap = state.gap[block]
        if state.pinned[block] != step and flat.fixed[gap] != 1 and not flat.stay[block]:
            _drop(state, drop, block, gap)
            _remove(state, block)
        else:
            number += 1
    for row in range(flat.step_start[step], flat.step_start[step + 1]):
        access = flat.step_access[row]
        storage = flat.access_storage[access]
        gap = flat.before[access]
        if gap < 0 or drop[gap]:
            if state.there[storage]:
                _remove(state, storage)
        elif flat.fixed[gap] != 1 and not flat.stay[storage]:
            _drop(state, drop, storage, gap)
            if state.there[storage]:
                _remove(state, storage)
        elif not state.there[storage]:
            return False
    return True


@compiled_loop
def _place(flat, state, drop, step, power, wanted, emptied):
    """Place a step's operands that must be in the fast pool, inputs first; false if one fails."""
    first, last = flat.step_start[step], flat.step_start[step + 1]
    for turn in range(2):
        for row in range(first, last):
            access = flat.step_access[row]
            storage = flat.access_storage[access]
            output = flat.written[storage] and access == flat.first_access[storage]
            if state.there[storage] or not flat.near[access] or output != (turn == 1):
                continue
            if not (output and _over(flat, state, drop, step, access, wanted[access])):
                where = np.int64(0) if emptied else wanted[access]
                if not _put(flat, state, drop, access, step, power, where):
                    return False
            state.pinned[storage] = step
    return True


@compiled_loop
def count_drops(flat, state, drop):
    """Count the dropped gaps of each storage, and flag storages that begin in the slow pool."""
    for storage in range(len(flat.room)):
        state.drops[storage] = 0
        state.slow[storage] = False
        for gap in range(flat.first_gap[storage], flat.first_gap[storage + 1]):
            if drop[gap]:
                state.drops[storage] += 1
                if flat.gap_before[gap] < 0:
                    state.slow[storage] = True


@compiled_loop
def empty_pool(state):
    """Remove all blocks from the pool."""
    for number in range(state.filled[0]):
        state.there[state.blocks[number]] = False
    state.filled[0] = 0


@compiled_loop
def begin(flat, state, drop, wanted):
    """Place kept inputs and constants in the empty pool; false if there is no room."""
    empty_pool(state)
    state.filled[1] = 0
    for number in range(len(flat.room)):
        storage = flat.by_end[number]
        gap = flat.first_gap[storage]
        if flat.written[storage] or gap == flat.first_gap[storage + 1] or drop[gap]:
            continue
        access = flat.first_access[storage]
        where = _hole(flat, state, flat.room[storage], flat.align[storage], wanted[access])
        if where < 0:
            if flat.fixed[gap] == 1:
                return False
            for one in range(gap, flat.first_gap[storage + 1]):
                if flat.stay[storage] or one == gap:
                    _drop(state, drop, storage, one)
            state.slow[storage] = True
            continue
        insert(state, storage, where, flat.room[storage])
        state.gap[storage] = gap
    return True


@compiled_loop
def advance(flat, state, step, drop, wanted, power, places):
    """Place the operands of a step and remove the storages it drops; false if one has no room."""
    first, last = flat.step_start[step], flat.step_start[step + 1]
    for row in range(first, last):
        access = flat.step_access[row]
        storage = flat.access_storage[access]
        places[access] = -1
        state.used[storage] = -1
        if state.there[storage]:
            state.pinned[storage] = step
    if not _place(flat, state, drop, step, power, wanted, False):
        for row in range(first, last):
            state.used[flat.access_storage[flat.step_access[row]]] = -1
        if not _empty(flat, state, drop, step):
            return False
        if not _place(flat, state, drop, step, power, wanted, True):
            return False
    # Place operands that may lie in the slow pool only if their next gap is kept.
    for row in range(first, last):
        access = flat.step_access[row]
        storage = flat.access_storage[access]
        gap = flat.after[access]
        if state.there[storage] or flat.near[access] or gap < 0 or drop[gap]:
            continue
        output = flat.written[storage] and access == flat.first_access[storage]
        if output and _over(flat, state, drop, step, access, wanted[access]):
            state.pinned[storage] = step
            continue
        room = flat.room[storage]
        worth = loss_of(flat, state, storage, gap, step, power)
        if not output:
            worth -= float(flat.reload[storage] - min(flat.cross[access], flat.reload[storage]))
        cost, where = 0.0, _hole(flat, state, room, flat.align[storage], wanted[access])
        if where < 0:
            _weigh(flat, state, step, power)
            cost, where = _find(flat, state, room, flat.align[storage], wanted[access])
        if where < 0 or (cost > 0.0 and cost >= worth):
            if flat.fixed[gap] == 1:
                return False
            _drop(state, drop, storage, gap)
            continue
        _clear(state, drop, where, where + room)
        insert(state, storage, where, room)
        state.pinned[storage] = step
    for row in range(first, last):
        access = flat.step_access[row]
        storage = flat.access_storage[access]
        if not state.there[storage]:
            continue
        places[access] = state.offset[storage]
        gap = flat.after[access]
        if gap < 0 or drop[gap] or (flat.gap_after[gap] < 0 and flat.gap_upper[gap] == step + 1):
            _remove(state, storage)
        else:
            state.gap[storage] = gap
            state.length[storage] = flat.room[storage]
    # An overwritten input has left the pool, but its access had an offset.
    for row in range(first, last):
        access = flat.step_access[row]
        storage = flat.access_storage[access]
        if state.used[storage] == step:
            places[access] = state.offset[storage]
    return True


@compiled_loop
def simulate(flat, drop, wanted, power, places):
    """Cost of the moves if the given gaps are dropped, and more wherever room is needed.

    ``drop`` receives all gaps dropped, and ``places`` the offset of each access in the fast pool.
    The cost is ``_NEVER`` if an op has no room.
    """
    count_drops(flat, flat.state, drop)
    if not begin(flat, flat.state, drop, wanted):
        return np.int64(_NEVER)
    for step in range(len(flat.step_start) - 1):
        if not advance(flat, flat.state, step, drop, wanted, power, places):
            return np.int64(_NEVER)
    total = np.int64(0)
    for storage in range(len(flat.room)):
        total += paid_of(flat, storage, drop)
    return total
