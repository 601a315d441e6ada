"""Compiled loops that estimate the bytes moved at an order, and climb over orders; import numba."""

# Arrays are described in ``FlatOrders``; the compiler infers their types.
# mypy: disable-error-code="no-untyped-def,no-any-return,untyped-decorator"

from __future__ import annotations

import numpy as np
from numba import njit

from cpplan.runtime.inner_loop import inner_loop

_NEVER = 1 << 60


@inner_loop
def _estimate(flat, order, rule, cutoff):
    """Bytes moved by evictions at an order, or ``_NEVER`` if they exceed the cutoff or an op."""
    ops, storages = len(flat.extra), len(flat.room)
    start = np.zeros(storages + 1, np.int64)
    for entry in range(len(flat.op_storage)):
        start[flat.op_storage[entry] + 1] += 1
    for storage in range(storages):
        start[storage + 1] += start[storage]
    uses = np.empty(len(flat.op_storage), np.int64)
    fill = start[:-1].copy()
    for step in range(ops):
        op = order[step]
        for entry in range(flat.op_start[op], flat.op_start[op + 1]):
            storage = flat.op_storage[entry]
            uses[fill[storage]] = step
            fill[storage] += 1
    following = start[:-1].copy()
    held = np.zeros(storages, np.bool_)
    valid = np.zeros(storages, np.bool_)
    begun = np.zeros(storages, np.bool_)
    pinned = np.full(storages, -1, np.int64)
    room_held, moved = np.int64(0), np.int64(0)
    for storage in range(storages):
        if not flat.written[storage]:
            begun[storage] = True
            if flat.slow_start[storage]:
                valid[storage] = True
            else:
                held[storage] = True
                room_held += flat.room[storage]
    fresh = held.copy()
    for step in range(ops):
        op = order[step]
        need = flat.extra[op]
        first, last = flat.op_start[op], flat.op_start[op + 1]
        others = room_held
        for entry in range(first, last):
            storage = flat.op_storage[entry]
            pinned[storage] = step
            following[storage] += 1
            if held[storage]:
                others -= flat.room[storage]
            ends = following[storage] == start[storage + 1] and not flat.kept[storage]
            if flat.op_near[entry] or held[storage] or not ends:
                need += flat.room[storage]
        for entry in range(flat.over_start[op], flat.over_start[op + 1]):
            source = flat.over_input[entry]
            if following[source] == start[source + 1] and not flat.kept[source]:
                need -= flat.over_room[entry]
        # Optional operands that must lie in the slow pool after all.
        away = 0
        while others + need > flat.capacity:
            victim, best = -1, -1.0
            for storage in range(storages):
                if held[storage] and pinned[storage] != step and flat.room[storage] > 0:
                    score = _score(flat, storage, step, following, start, uses, valid, fresh, rule)
                    if score > best:
                        victim, best = storage, score
            if victim >= 0:
                held[victim] = False
                others -= flat.room[victim]
                room_held -= flat.room[victim]
                if not valid[victim]:
                    if not fresh[victim]:
                        moved += flat.spill[victim]
                    valid[victim] = True
                continue
            largest = -1
            for entry in range(first, last):
                storage = flat.op_storage[entry]
                ends = following[storage] == start[storage + 1] and not flat.kept[storage]
                taken = held[storage] or not ends
                if flat.op_near[entry] or not taken or pinned[storage] == -2 - step:
                    continue
                if largest < 0 or flat.room[storage] > flat.room[flat.op_storage[largest]]:
                    largest = entry
            if largest < 0:
                return _NEVER
            storage = flat.op_storage[largest]
            need -= flat.room[storage]
            pinned[storage] = -2 - step
            away += 1
            if held[storage]:
                held[storage] = False
                room_held -= flat.room[storage]
                if not valid[storage]:
                    if not fresh[storage]:
                        moved += flat.spill[storage]
                    valid[storage] = True
        for entry in range(first, last):
            storage = flat.op_storage[entry]
            ends = following[storage] == start[storage + 1] and not flat.kept[storage]
            near = flat.op_near[entry] or held[storage] or not ends
            if pinned[storage] == -2 - step:
                near = False
            if not begun[storage]:
                begun[storage] = True
                if not near:
                    moved += flat.spill[storage]
                    valid[storage] = True
            elif not held[storage]:
                moved += flat.reload[storage] if near else flat.op_bytes[entry]
            fresh[storage] = False
            if near and not held[storage]:
                held[storage] = True
                room_held += flat.room[storage]
            if held[storage] and ends:
                held[storage] = False
                room_held -= flat.room[storage]
        if moved >= cutoff:
            return _NEVER
    return moved


@inner_loop
def _score(flat, storage, step, following, start, uses, valid, fresh, rule):
    """Score of an eviction: the distance of the next use, or the room freed per byte moved."""
    again = following[storage] < start[storage + 1]
    distance = uses[following[storage]] - step if again else len(flat.extra) - step
    if rule == 0:
        return float(distance)
    cost = flat.reload[storage] if again else 0
    if not valid[storage] and not fresh[storage]:
        cost += flat.spill[storage]
    return flat.room[storage] * max(distance, 1) / max(float(cost), 0.5)


@njit(cache=True)
def estimate(flat, order):
    """Bytes moved by the better of two rules of eviction; beyond all counts if an op does not fit.

    Parameters
    ----------
    flat
        A :class:`~cpplan.spilling.search.orders.FlatOrders`.
    order
        Ops, each once.
    """
    best = _estimate(flat, order, np.int64(0), np.int64(_NEVER))
    return min(best, _estimate(flat, order, np.int64(1), best))


@njit(cache=True)
def climb(flat, order, value, draws):
    """Move one op at a time to another place, and keep what is no worse; the bytes moved then.

    Parameters
    ----------
    flat
        A :class:`~cpplan.spilling.search.orders.FlatOrders`.
    order
        Changed in place.
    value
        The estimate of ``order``.
    draws
        Random numbers from 0 to 1, three for each neighbour tried.
    """
    ops = len(order)
    position = np.empty(ops, np.int64)
    for k in range(ops):
        position[order[k]] = k
    for turn in range(len(draws)):
        at = int(draws[turn, 0] * ops)
        op = order[at]
        low, high = 0, ops - 1
        for entry in range(flat.before_start[op], flat.before_start[op + 1]):
            low = max(low, position[flat.before[entry]] + 1)
        for entry in range(flat.after_start[op], flat.after_start[op + 1]):
            high = min(high, position[flat.after[entry]] - 1)
        if low >= high:
            continue
        # Mostly not far away.
        reach = ops if draws[turn, 1] < 0.3 else 8
        low, high = max(low, at - reach), min(high, at + reach)
        to = low + int(draws[turn, 2] * (high + 1 - low))
        if to == at:
            continue
        _shift(order, position, at, to)
        found = _estimate(flat, order, np.int64(1), value + 1)
        if found > value:
            found = _estimate(flat, order, np.int64(0), value + 1)
        if found <= value:
            value = found
        else:
            _shift(order, position, to, at)
    return value


@inner_loop
def _shift(order, position, at, to):
    """Move the op at one position to another."""
    op = order[at]
    step = 1 if to > at else -1
    k = at
    while k != to:
        order[k] = order[k + step]
        position[order[k]] = k
        k += step
    order[to] = op
    position[op] = to
