"""Compiled loops that change a packing of gaps and offsets, simulating only the steps that differ.

A simulation that starts from the gaps and offsets of a valid packing gives the same packing,
without evictions. So after a change, the simulation begins at a saved state of the pool before the
first step that changes, and ends once the pool is in its saved state again.
"""

# Arrays are described in ``Addresses`` and ``Packing``; the compiler infers their types.
# mypy: disable-error-code="no-untyped-def,no-any-return,untyped-decorator"

from __future__ import annotations

import math

import numpy as np

from cpplan.runtime.loop_compiler import compiled_loop
from cpplan.spilling.search.address_kernel import (
    advance,
    begin,
    count_drops,
    empty_pool,
    insert,
    loss_of,
    paid_of,
)

_NEVER = 1 << 60
_PINNED = 1e30


@compiled_loop
def _remember(state, trail, row):
    """Save the state of the pool: its blocks, in a row of the trail."""
    trail.filled[row] = state.filled[0]
    for number in range(state.filled[0]):
        block = state.blocks[number]
        trail.block[row, number] = block
        trail.offset[row, number] = state.offset[block]
        trail.gap[row, number] = state.gap[block]


@compiled_loop
def _recall(flat, state, trail, row):
    """Restore a saved state of the pool."""
    empty_pool(state)
    for number in range(trail.filled[row]):
        block = trail.block[row, number]
        insert(state, block, trail.offset[row, number], flat.room[block])
        state.gap[block] = trail.gap[row, number]


@compiled_loop
def _as_before(state, trail, row):
    """True if the state of the pool equals a saved state."""
    if state.filled[0] != trail.filled[row]:
        return False
    for number in range(trail.filled[row]):
        block = trail.block[row, number]
        if state.blocks[number] != block or state.offset[block] != trail.offset[row, number]:
            return False
        if state.gap[block] != trail.gap[row, number]:
            return False
    return True


@compiled_loop
def _steps_of(flat, gap):
    """First and last step at which a kept gap takes room."""
    low = flat.gap_lower[gap] - (flat.gap_before[gap] >= 0)
    return low, min(flat.gap_upper[gap], len(flat.step_start) - 2)


@compiled_loop
def _pay(flat, packing, gap):
    """Difference in the cost of moves that a changed gap makes, after the changes before it."""
    storage = flat.gap_storage[gap]
    before = packing.next_paid[storage]
    packing.next_paid[storage] = paid_of(flat, storage, packing.trial)
    return packing.next_paid[storage] - before


@compiled_loop
def _follow(flat, state, packing, low, high, most, power):
    """Cost of the moves after changes between two steps, and the range of steps simulated.

    The cost is ``_NEVER`` once it exceeds ``most``: further evictions only add to it.
    """
    steps = len(flat.step_start) - 1
    never = np.int64(_NEVER), np.int64(0), np.int64(0)
    for storage in range(len(packing.paid)):
        packing.next_paid[storage] = packing.paid[storage]
    value = packing.cost[0]
    for gap in range(len(packing.trial)):
        if packing.trial[gap] != packing.drop[gap]:
            value += _pay(flat, packing, gap)
    if value > most:
        return never
    count_drops(flat, state, packing.trial)
    row = low // packing.every
    if row == 0:
        if not begin(flat, state, packing.trial, packing.next_wanted):
            return never
    else:
        _recall(flat, state, packing.trail, row)
        state.filled[1] = 0
    first = row * packing.every
    step, paid = first, 0
    while step < steps:
        if step % packing.every == 0:
            at = step // packing.every
            if step > high and _as_before(state, packing.trail, at):
                break
            _remember(state, packing.next_trail, at)
        if not advance(
            flat, state, step, packing.trial, packing.next_wanted, power, packing.places
        ):
            return never
        while paid < state.filled[1]:
            value += _pay(flat, packing, state.dropped[paid])
            paid += 1
        if value > most:
            return never
        step += 1
    return value, first, step


@compiled_loop
def _forget(flat, packing, gap):
    """Remove the block of a gap that is now dropped from the saved states."""
    trail = packing.trail
    begun = (flat.gap_lower[gap] + packing.every - 1) // packing.every
    for row in range(begun, flat.gap_upper[gap] // packing.every + 1):
        kept = 0
        for number in range(trail.filled[row]):
            if trail.gap[row, number] != gap:
                trail.block[row, kept] = trail.block[row, number]
                trail.offset[row, kept] = trail.offset[row, number]
                trail.gap[row, kept] = trail.gap[row, number]
                kept += 1
        trail.filled[row] = kept


@compiled_loop
def _accept(flat, packing, value, first, last):
    """Accept a change: the results of the steps simulated become the packing."""
    packing.cost[0] = value
    for row in range(flat.step_start[first], flat.step_start[last]):
        access = flat.step_access[row]
        place = packing.places[access]
        packing.wanted[access] = place if place >= 0 else packing.next_wanted[access]
        packing.found[access] = place
    for row in range(first // packing.every, (last + packing.every - 1) // packing.every):
        packing.trail.filled[row] = packing.next_trail.filled[row]
        for number in range(packing.next_trail.filled[row]):
            packing.trail.block[row, number] = packing.next_trail.block[row, number]
            packing.trail.offset[row, number] = packing.next_trail.offset[row, number]
            packing.trail.gap[row, number] = packing.next_trail.gap[row, number]
    for gap in range(len(packing.trial)):
        if packing.trial[gap] != packing.drop[gap]:
            packing.drop[gap] = packing.trial[gap]
            if packing.drop[gap]:
                _forget(flat, packing, gap)
    for storage in range(len(packing.paid)):
        packing.paid[storage] = packing.next_paid[storage]


@compiled_loop
def _try_all_again(packing):
    """Reset the trial of a change to the packing itself."""
    for gap in range(len(packing.drop)):
        packing.trial[gap] = packing.drop[gap]
    for access in range(len(packing.wanted)):
        packing.next_wanted[access] = packing.wanted[access]


@compiled_loop
def _chosen(flat, packing, middle, width, dropped, draw):
    """Random gap near a step that is dropped (or kept, as asked); -1 if there is none."""
    count = 0
    for gap in range(len(packing.drop)):
        if (
            packing.drop[gap] == dropped
            and flat.fixed[gap] < 0
            and flat.gap_lower[gap] <= middle + width
            and flat.gap_upper[gap] >= middle - width
        ):
            packing.listed[count] = gap
            count += 1
    return packing.listed[int(draw * count)] if count else np.int64(-1)


@compiled_loop
def _turn(flat, packing, gap, dropped):
    """Drop or keep a gap, or all gaps of an input kept to the end; return the steps touched."""
    low, high = _steps_of(flat, gap)
    storage = flat.gap_storage[gap]
    if not flat.stay[storage]:
        packing.trial[gap] = dropped
        return low, high
    for one in range(flat.first_gap[storage], flat.first_gap[storage + 1]):
        packing.trial[one] = dropped
        begun, ended = _steps_of(flat, one)
        low, high = min(low, begun), max(high, ended)
    return low, high


@compiled_loop
def _sort_ends(packing, count):
    """Sort the addresses at which the cost changes, together with the changes."""
    key, change = packing.key, packing.change
    stride = 1
    while stride < count // 3:
        stride = 3 * stride + 1
    while stride > 0:
        for number in range(stride, count):
            one, other = key[number], change[number]
            at = number
            while at >= stride and key[at - stride] > one:
                key[at], change[at] = key[at - stride], change[at - stride]
                at -= stride
            key[at], change[at] = one, other
        stride //= 3


@compiled_loop
def _cheapest(flat, packing, count, room, align, draw):
    """Least cost of dropping the listed gaps that are in the way, and an offset of that cost.

    Ties are broken at random. The offset is the lowest or the highest address of its hole.
    """
    for number in range(count):
        begun = packing.at[number]
        packing.key[2 * number], packing.change[2 * number] = begun - room + 1, packing.loss[number]
        end = begun + flat.room[flat.gap_storage[packing.listed[number]]]
        packing.key[2 * number + 1], packing.change[2 * number + 1] = end, -packing.loss[number]
    _sort_ends(packing, 2 * count)
    most = flat.capacity - room
    best, where, cost, ties = _PINNED, np.int64(-1), 0.0, 1.0
    low = np.int64(0)
    for number in range(2 * count + 1):
        high = most
        if number < 2 * count:
            high = min(most, packing.key[number] - 1)
        offset = (low + align - 1) // align * align
        if offset <= high and cost < best * (1.0 + 1e-9):
            same = cost > best * (1.0 - 1e-9)
            ties = ties + 1.0 if same else 1.0
            if not same or draw * ties < 1.0:
                best = min(best, cost)
                where = offset if draw < 0.7 else high // align * align
        if number < 2 * count:
            low = max(low, packing.key[number])
            cost = max(0.0, cost + packing.change[number])
    return best, where


@compiled_loop
def _keep(flat, state, packing, gap, slack, draw):
    """Keep a gap at the address where the gaps in its way cost least; return the steps touched.

    The storage lies there for its whole retention. The first step is -1 if every address costs too
    much.
    """
    storage = flat.gap_storage[gap]
    room, align = flat.room[storage], flat.align[storage]
    first = gap
    while first > flat.first_gap[storage] and not packing.drop[first - 1]:
        first -= 1
    last = gap
    while last + 1 < flat.first_gap[storage + 1] and not packing.drop[last + 1]:
        last += 1
    low, high = _steps_of(flat, first)[0], _steps_of(flat, last)[1]
    packing.trial[gap] = False
    count_drops(flat, state, packing.trial)
    count = 0
    for one in range(len(packing.drop)):
        begun, ended = _steps_of(flat, one)
        if packing.drop[one] or begun >= high or ended <= low or flat.gap_storage[one] == storage:
            continue
        side = flat.gap_before[one] if flat.gap_before[one] >= 0 else flat.gap_after[one]
        packing.listed[count] = one
        packing.at[count] = packing.found[side]
        packing.loss[count] = loss_of(
            flat, state, flat.gap_storage[one], one, flat.gap_upper[one], 0.0
        )
        count += 1
    best, where = _cheapest(flat, packing, count, room, align, draw)
    gain = loss_of(flat, state, storage, gap, flat.gap_upper[gap], 0.0)
    if where < 0 or best > gain + slack:
        return np.int64(-1), np.int64(-1)
    for one in range(first, last + 1):
        for side in range(2):
            access = flat.gap_before[one] if side == 0 else flat.gap_after[one]
            if access >= 0:
                packing.next_wanted[access] = where
    for number in range(count):
        one = packing.listed[number]
        begun = packing.at[number]
        if begun < where + room and begun + flat.room[flat.gap_storage[one]] > where:
            packing.trial[one] = True
            begun, ended = _steps_of(flat, one)
            low, high = min(low, begun), max(high, ended)
    return low, high


@compiled_loop
def _aim(flat, packing, middle, width, draws, row):
    """Change the wanted addresses of some accesses near a step; return the steps touched."""
    steps = len(flat.step_start) - 1
    begun = flat.step_start[max(0, middle - width)]
    ended = flat.step_start[min(steps, middle + width + 1)]
    low, high = np.int64(steps), np.int64(-1)
    if ended <= begun:
        return np.int64(-1), np.int64(-1)
    draw = draws[row, 5]
    for number in range(1 + int(draws[row, 3] * 3)):
        at = begun + int(draws[row, 4] * (ended - begun) * (number + 1)) % (ended - begun)
        access = flat.step_access[at]
        if draw < 0.3:
            packing.next_wanted[access] = -1
        elif draw < 0.5:
            packing.next_wanted[access] = flat.capacity
        else:
            packing.next_wanted[access] = int((draw * 2 - 1) * flat.capacity)
        gap, step = flat.before[access], flat.access_step[access]
        if gap >= 0 and flat.gap_before[gap] < 0:
            step = np.int64(0)
        low, high = min(low, step), max(high, flat.access_step[access])
    return low, high


@compiled_loop
def settle(flat, packing, power):
    """Simulate the gaps and addresses of ``packing``, store the result there, and return its cost.

    The cost is ``_NEVER`` if an op has no room.
    """
    steps = len(flat.step_start) - 1
    for storage in range(len(flat.room)):
        packing.paid[storage] = paid_of(flat, storage, packing.drop)
    packing.cost[0] = 0
    for storage in range(len(flat.room)):
        packing.cost[0] += packing.paid[storage]
    # The second simulation evicts nothing.
    for _ in range(2):
        _try_all_again(packing)
        value, _, _ = _follow(
            flat, flat.state, packing, np.int64(0), np.int64(steps), np.int64(_NEVER), power
        )
        if value >= _NEVER:
            return value
        _accept(flat, packing, value, np.int64(0), np.int64(steps))
    return packing.cost[0]


@compiled_loop
def improve(flat, packing, power, draws, heat, best, kept, found):
    """Change gaps and addresses one after another, and accept those that cost little more.

    Returns the cost of the best packing. ``packing`` receives the last one accepted. If the best
    one costs less than ``best``, ``kept`` and ``found`` receive its gaps and offsets.
    """
    steps = len(flat.step_start) - 1
    state = flat.state
    for row in range(len(draws)):
        _try_all_again(packing)
        middle = int(draws[row, 0] * steps)
        width = 1 + int(draws[row, 1] ** 3 * steps / 4)
        kind = draws[row, 2]
        allowed = -heat * math.log(1.0 - draws[row, 6])
        low, high = np.int64(-1), np.int64(-1)
        if kind < 0.8:
            gap = _chosen(flat, packing, middle, width, True, draws[row, 4])
            if gap < 0:
                continue
            if kind < 0.6 and not flat.stay[flat.gap_storage[gap]]:
                low, high = _keep(flat, state, packing, gap, allowed, draws[row, 5])
            else:
                low, high = _turn(flat, packing, gap, False)
        if kind >= 0.7 and kind < 0.9:
            gap = _chosen(flat, packing, middle, width, False, draws[row, 5])
            if gap >= 0:
                begun, ended = _turn(flat, packing, gap, True)
                low = begun if low < 0 else min(low, begun)
                high = max(high, ended)
        elif kind >= 0.9:
            low, high = _aim(flat, packing, middle, width, draws, row)
        if low < 0:
            continue
        most = packing.cost[0] + int(allowed)
        value, first, last = _follow(flat, state, packing, low, high, most, power)
        if value >= _NEVER:
            continue
        _accept(flat, packing, value, first, last)
        if value < best:
            best = value
            for gap in range(len(kept)):
                kept[gap] = not packing.drop[gap]
            for access in range(len(found)):
                found[access] = packing.found[access]
    return best
