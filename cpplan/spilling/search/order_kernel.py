"""Compiled loops that estimate the cost of moves of an order, and climb over orders."""

# Arrays are described in ``FlatOrders``; the compiler infers their types.
# mypy: disable-error-code="no-untyped-def,no-any-return,untyped-decorator"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpplan.model.problem import Ints
from cpplan.runtime.loop_compiler import compiled_loop

_NEVER = 1 << 60
Flags = NDArray[np.bool_]


class Scratch(NamedTuple):
    """Scratch arrays for estimates.

    Attributes
    ----------
    start, uses
        Steps that access each storage, ascending: ``uses[start[s] : start[s + 1]]``.
    following
        For each storage, the place in ``uses`` of its next use.
    held, valid, begun, fresh
        Flags of each storage: it lies in the fast pool; the slow pool has its bytes; it has been
        written or provided; no op has accessed it yet.
    pinned
        Last step that accessed each storage, or ``-2 - step`` if it lay in the slow pool.
    position
        Step of each op.
    """

    start: Ints
    uses: Ints
    following: Ints
    held: Flags
    valid: Flags
    begun: Flags
    fresh: Flags
    pinned: Ints
    position: Ints


def scratch_for(storages: int, accesses: int, ops: int) -> Scratch:
    """Scratch arrays for a graph with these numbers of storages, accesses and ops."""
    return Scratch(
        start=np.empty(storages + 1, np.int64),
        uses=np.empty(accesses, np.int64),
        following=np.empty(storages, np.int64),
        held=np.empty(storages, bool),
        valid=np.empty(storages, bool),
        begun=np.empty(storages, bool),
        fresh=np.empty(storages, bool),
        pinned=np.empty(storages, np.int64),
        position=np.empty(ops, np.int64),
    )


@compiled_loop
def _estimate(flat, order, rule, cutoff, scratch):
    """Cost of moves by one eviction rule; ``_NEVER`` above the cutoff or if an op does not fit."""
    ops, storages = len(flat.extra), len(flat.room)
    start, following = scratch.start, scratch.following
    held, valid, pinned, fresh = scratch.held, scratch.valid, scratch.pinned, scratch.fresh
    begun, uses = scratch.begun, scratch.uses
    for storage in range(storages + 1):
        start[storage] = 0
    for entry in range(len(flat.op_storage)):
        start[flat.op_storage[entry] + 1] += 1
    for storage in range(storages):
        start[storage + 1] += start[storage]
        following[storage] = start[storage]
    for step in range(ops):
        op = order[step]
        for entry in range(flat.op_start[op], flat.op_start[op + 1]):
            storage = flat.op_storage[entry]
            uses[following[storage]] = step
            following[storage] += 1
    room_held, moved = 0, 0
    for storage in range(storages):
        following[storage], pinned[storage] = start[storage], -1
        begun[storage] = not flat.written[storage]
        valid[storage] = begun[storage] and flat.slow_start[storage]
        held[storage] = begun[storage] and not flat.slow_start[storage]
        fresh[storage] = held[storage]
        if held[storage]:
            room_held += flat.room[storage]
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
            if flat.op_near[entry] or not _gone(flat, storage, following, start, held, begun):
                need += flat.room[storage]
        for entry in range(flat.over_start[op], flat.over_start[op + 1]):
            source = flat.over_input[entry]
            if following[source] == start[source + 1] and not flat.kept[source]:
                need -= flat.over_room[entry]
        # Operands that the op accesses in the slow pool for want of room.
        away = 0
        while others + need > flat.capacity:
            victim, best = -1, -1.0
            for storage in range(storages):
                free = held[storage] and not flat.fixed[storage]
                if free and pinned[storage] != step and flat.room[storage] > 0:
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
                gone = _gone(flat, storage, following, start, held, begun)
                if flat.op_near[entry] or gone or pinned[storage] == -2 - step:
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
            near = flat.op_near[entry] or not _gone(flat, storage, following, start, held, begun)
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
            ends = following[storage] == start[storage + 1] and not flat.kept[storage]
            if held[storage] and ends:
                held[storage] = False
                room_held -= flat.room[storage]
        if moved >= cutoff:
            return _NEVER
    return moved


@compiled_loop
def _gone(flat, storage, following, start, held, begun):
    """True if an op need only read a storage in the slow pool: no later op needs it."""
    ends = following[storage] == start[storage + 1] and not flat.kept[storage]
    return ends and begun[storage] and not held[storage]


@compiled_loop
def _score(flat, storage, step, following, start, uses, valid, fresh, rule):
    """Score of an eviction: the distance of the next use, or the room freed per cost."""
    again = following[storage] < start[storage + 1]
    distance = uses[following[storage]] - step if again else len(flat.extra) - step
    if rule == 0:
        return float(distance)
    cost = flat.reload[storage] if again else 0
    if not valid[storage] and not fresh[storage]:
        cost += flat.spill[storage]
    return flat.room[storage] * max(distance, 1) / max(float(cost), 0.5)


@compiled_loop
def estimate(flat, order, scratch):
    """Cost of moves by the better of two eviction rules; ``_NEVER`` if an op does not fit."""
    best = _estimate(flat, order, 0, _NEVER, scratch)
    return min(best, _estimate(flat, order, 1, best, scratch))


@compiled_loop
def climb(flat, order, value, draws, scratch):
    """Move ops to other places, keep changes that are no worse, and return the cost of moves.

    Parameters
    ----------
    flat
        A :class:`~cpplan.spilling.search.orders.FlatOrders`.
    order
        The ops in order; changed in place.
    value
        The estimate of ``order``.
    draws
        Random numbers from 0 to 1, three for each neighbour tried.
    scratch
        A :class:`Scratch`.
    """
    ops, position = len(order), scratch.position
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
        # Most moves are short.
        reach = ops if draws[turn, 1] < 0.3 else 8
        low, high = max(low, at - reach), min(high, at + reach)
        to = low + int(draws[turn, 2] * (high + 1 - low))
        if to == at:
            continue
        _shift(order, position, at, to)
        found = _estimate(flat, order, 1, value + 1, scratch)
        if found > value:
            found = _estimate(flat, order, 0, value + 1, scratch)
        if found <= value:
            value = found
        else:
            _shift(order, position, to, at)
    return value


@compiled_loop
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
