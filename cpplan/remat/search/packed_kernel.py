"""The compiled loop of the search over packed schedules."""

# Arrays are described in ``anneal_packed``; the compiler infers their types.
# mypy: disable-error-code="no-untyped-def,no-any-return,untyped-decorator"

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpplan.model.problem import Ints
from cpplan.remat.search.flat_problem import FlatProblem
from cpplan.remat.search.moves_kernel import (
    MOST_AGAIN,
    copy_runs,
    insert,
    joined,
    move_units,
    pick_repeated,
    remove,
)
from cpplan.remat.search.retention_kernel import (
    NO,
    all_shared,
    find_retentions,
    measure_slots,
    overlap,
    place,
    shift,
)  # fmt: skip
from cpplan.remat.search.run_names_kernel import (
    differs,
    name_inserted,
    name_moved,
    name_removed,
    same_order,
)
from cpplan.runtime.loop_compiler import compiled_loop

Flags = NDArray[np.bool_]

# Shares of the moves.
_INSERT, _REMOVE, _EXCHANGE, _MOVE = 0.20, 0.25, 0.10, 0.15
# Probability that a retention that changed and overlaps another gets another offset.
_PLACE = 0.7


class Found(NamedTuple):
    """Retentions of a schedule, as :func:`~cpplan.remat.search.retention_kernel.find_retentions`.

    Attributes
    ----------
    begin, end, stop
        First and last position of every slot, and the run that ends it.
    active
        Slots that are in use.
    """

    begin: Ints
    end: Ints
    stop: Ints
    active: Ints


class Space(NamedTuple):
    """Space for one walk.

    Attributes
    ----------
    middle, other, middle_ids, other_ids
        Schedules that a move makes, and the numbers of their runs.
    new
        Units that a move puts into a window.
    found, found2
        Retentions of the schedule and of the one that a move makes.
    near, conflicts, changed, old_off, pending
        Of every slot: lists of slots, the offsets of some, and flags.
    moved, used, free
        Of every run: the last move that moved it, a flag, and a list of numbers not in use.
    times, first, rank, seen
        Of every unit: its runs, the first one, its place in a topological order, and the last move
        that saw it.
    latest
        Of every storage, its latest slot.
    """

    middle: Ints
    other: Ints
    middle_ids: Ints
    other_ids: Ints
    new: Ints
    found: Found
    found2: Found
    near: Ints
    conflicts: Ints
    changed: Ints
    old_off: Ints
    pending: Flags
    moved: Ints
    used: Flags
    free: Ints
    times: Ints
    first: Ints
    rank: Ints
    seen: Ints
    latest: Ints


def space_for(flat: FlatProblem, room: int, slots: int) -> Space:
    """Space for a walk over schedules of at most ``room`` runs that have ``slots`` slots."""

    def blank(length: int) -> Ints:
        return np.zeros(length, np.int64)

    units = len(flat.extra)
    rank = np.empty(units, np.int64)
    rank[flat.topological] = np.arange(units)
    return Space(
        middle=blank(room),
        other=blank(room),
        middle_ids=blank(room),
        other_ids=blank(room),
        new=blank(room + 2 * MOST_AGAIN),
        found=Found(*(blank(slots) for _ in range(4))),
        found2=Found(*(blank(slots) for _ in range(4))),
        near=blank(slots),
        conflicts=blank(slots),
        changed=blank(slots),
        old_off=blank(slots),
        pending=np.zeros(slots, bool),
        moved=blank(room),
        used=np.zeros(room, bool),
        free=blank(room),
        times=blank(units),
        first=np.full(units, room, np.int64),
        rank=rank,
        seen=blank(units),
        latest=blank(len(flat.size)),
    )


@compiled_loop
def anneal_packed(
    flat, slots, limit, align, schedule, ids, length, off, size, best, result, moves, weight,
    hot, cold, reach, joint, random, space,
):  # fmt: skip
    """Random moves of runs and of retentions, judged by cost plus ``weight`` for every byte shared.

    A move that is worse by ``d`` is accepted with probability ``exp(-d / temperature)``.

    Parameters
    ----------
    flat
        A :class:`~cpplan.remat.search.flat_problem.FlatProblem`; ``extra`` and ``entry`` are block
        sizes.
    slots
        Slots of every run: its written storages, and one more if any unit has a block.
    limit
        Bytes; no retention ends above.
    schedule, ids, length
        Units, and the unique number of each run; overwritten with those at the end of the walk,
        whose length is returned.
    off, align, size
        Offset, alignment and size of every slot: first the storages (those there from the start, or
        written in parts), then ``slots`` for each run, last the inputs that no op reads.
    best
        ``(schedule, ids, off)``, filled with the cheapest schedule among the fewest shared bytes.
    result
        ``[length, bytes shared, cost]`` of ``best``, on entry too.
    moves, weight, hot, cold
        Number of moves; the price of a byte; temperatures at the first and at the last move.
    reach
        Most positions by which a unit moves; if negative, only offsets change.
    joint
        True if first runs may change their order.
    random
        A ``numpy.random.Generator``.
    space
        A new :class:`Space`.
    """
    units, storages, room = len(flat.extra), len(flat.size), len(schedule)
    given, given_ids = schedule, ids
    best_schedule, best_ids, best_off = best
    middle, other, middle_ids, other_ids = (
        space.middle, space.other, space.middle_ids, space.other_ids,
    )  # fmt: skip
    begin, end, stop, active = space.found
    begin2, end2, stop2, active2 = space.found2
    new, near, conflicts, changed = space.new, space.near, space.conflicts, space.changed
    old_off, pending, latest = space.old_off, space.pending, space.latest
    moved, used, free, seen = space.moved, space.used, space.free, space.seen
    count, first, rank = space.times, space.first, space.rank
    conflict_count, stamp, left = 0, 0, 0
    cost = 0.0
    for position in range(length - 1, -1, -1):
        unit = schedule[position]
        cost += flat.cost[unit]
        count[unit] += 1
        first[unit] = position
        used[ids[position]] = True
    for run in range(room - 1, -1, -1):
        if not used[run]:
            free[left] = run
            left += 1
    n_active = find_retentions(flat, slots, schedule, ids, length, begin, end, stop, active, latest)
    shared = all_shared(begin, end, active, n_active, off, size, pending)
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
        # Draw the accepted increase first, so that most moves are rejected early.
        allowed = -temperature * math.log(1.0 - random.random())
        kind = random.random() if reach > 0 else 0.99
        if kind >= _INSERT + _REMOVE + _EXCHANGE + _MOVE:
            # Another offset for one retention.
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
            if more != NO:
                shared += more
                if (shared == 0 and (result[1] > 0 or cost < result[2])) or (
                    0 < shared < result[1]
                ):
                    copy_runs(schedule, 0, length, best_schedule, 0)
                    copy_runs(ids, 0, length, best_ids, 0)
                    copy_runs(off, 0, len(off), best_off, 0)
                    result[0], result[1], result[2] = length, shared, cost
            continue
        stamp += 1
        taken = 0
        low, high, more, n = -1, 0, 0, -1
        if kind < _INSERT:
            low, high, more = insert(random, flat, rank, first, schedule, length, new)
            n = joined(schedule, length, low, high, new, more, other)
            if n >= 0:
                taken = name_inserted(
                    schedule, ids, length, other, other_ids, n, free, left, moved, stamp
                )
        elif kind < _INSERT + _REMOVE + _EXCHANGE:
            position = pick_repeated(random, schedule, length, count)
            if position < 0:
                continue
            low, high, more = remove(
                random, flat, first, count, position, schedule, length, new
            )  # fmt: skip
            if kind < _INSERT + _REMOVE:
                n = joined(schedule, length, low, high, new, more, other)
                if n >= 0:
                    name_removed(schedule, ids, length, other, other_ids, n, moved, stamp)
            elif low >= 0 and first[schedule[position]] != position:
                m = joined(schedule, length, low, high, new, more, middle)
                name_removed(schedule, ids, length, middle, middle_ids, m, moved, stamp)
                low, high, more = insert(random, flat, rank, first, middle, m, new)
                n = joined(middle, m, low, high, new, more, other)
                if n >= 0:
                    taken = name_inserted(
                        middle, middle_ids, m, other, other_ids, n, free, left, moved, stamp
                    )
        else:
            low, high, more = move_units(random, flat, first, schedule, length, new, reach)
            n = joined(schedule, length, low, high, new, more, other)
            if n >= 0 and not name_moved(schedule, ids, other, other_ids, n, moved, stamp):
                continue
        if n < 0 or taken < 0:
            continue
        if not joint and not same_order(schedule, first, other, n, seen, stamp):
            continue
        judged = 0.0
        for position in range(n):
            judged += flat.cost[other[position]]
        if judged - cost - weight * shared > allowed:
            continue
        for k in range(taken):
            measure_slots(flat, slots, other, other_ids, n, free[left - 1 - k], align, size)
        n_active2 = find_retentions(
            flat, slots, other, other_ids, n, begin2, end2, stop2, active2, latest
        )
        # Retentions that now begin or end at other runs.
        k_changed = 0
        for k in range(n_active):
            slot = active[k]
            if end2[slot] < 0 or differs(
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
        most = shared + math.floor((allowed - judged + cost) / weight)
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
        schedule, other = other, schedule
        ids, other_ids = other_ids, ids
        begin, begin2 = begin2, begin
        end, end2 = end2, end
        stop, stop2 = stop2, stop
        active, active2 = active2, active
        n_active, length, cost, shared = n_active2, n, judged, after
        for unit in range(units):
            count[unit] = 0
        for position in range(length - 1, -1, -1):
            count[schedule[position]] += 1
            first[schedule[position]] = position
        if (shared == 0 and (result[1] > 0 or cost < result[2])) or (
            shared > 0 and shared < result[1]
        ):
            copy_runs(schedule, 0, length, best_schedule, 0)
            copy_runs(ids, 0, length, best_ids, 0)
            copy_runs(off, 0, len(off), best_off, 0)
            result[0], result[1], result[2] = length, shared, cost
    copy_runs(schedule, 0, length, given, 0)
    copy_runs(ids, 0, length, given_ids, 0)
    return length
