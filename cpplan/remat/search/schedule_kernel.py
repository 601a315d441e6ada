"""The compiled loops of the search over schedules."""

# Arrays are described in ``anneal``; the compiler infers their types.
# mypy: disable-error-code="no-untyped-def,no-any-return,untyped-decorator"

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cpplan.model.problem import Ints
from cpplan.remat.search.flat_problem import FlatProblem
from cpplan.remat.search.moves_kernel import (
    MOST_AGAIN,
    again,
    copy_runs,
    exchange,
    freed_until,
    insert,
    keeps_order,
    move_units,
    put,
    relieve,
    remove,
    remove_with_needs,
)
from cpplan.remat.search.profile_kernel import (
    Profile,
    beyond_after,
    blank_profile,
    follow,
    follow_window,
)
from cpplan.runtime.loop_compiler import compiled_loop

# Shares of the moves; the rest move units.
_INSERT, _REMOVE, _EXCHANGE = 0.35, 0.30, 0.10
# Probability that an insertion frees a value where bytes are beyond the limit, if there are any,
# and that a removal also removes the runs that were needed only for it.
_RELIEVE, _WITH_NEEDS = 0.8, 0.5
# Approximate seconds of a move; and, for each access of a unit, of judging a move for each position
# of its window, and of following a schedule for each position.
_MOVE_WORK, _JUDGE_WORK, _FOLLOW_WORK = 7.5e-8, 2.3e-8, 8.5e-9
# The same where values are freed: of judging one for each position of its window and of the
# schedule, and of following the schedule for each position.
_DROP_WORK, _RANGE_WORK, _DROPPED_WORK = 1.5e-7, 1e-9, 6e-8
# The same of listing a storage that may be freed, of looking for the one to judge next, and of
# trying to keep what a unit reads for each position.
_LISTED_WORK, _CHOSEN_WORK, _KEPT_WORK = 2e-8, 1e-9, 2e-10
# Values freed until one is judged again in any case.
_REFRESH = 8


class Space(NamedTuple):
    """Space for walks over schedules, one after another.

    Attributes
    ----------
    profile
        Of the schedule under way.
    rank
        Place of every unit in a topological order.
    new, chosen
        Units that a move, and the best one, puts into a window.
    """

    profile: Profile
    rank: Ints
    new: Ints
    chosen: Ints


class Judged(NamedTuple):
    """Bytes that values saved when they were judged last, and space for the next choice.

    Attributes
    ----------
    ratio
        Bytes beyond the limit saved by each storage, for its cost; infinite if it is not known.
    reader
        Unit that would have read the storage next.
    age
        Values freed since.
    listed, stops
        Storages that may be freed, and the places of their readers.
    """

    ratio: np.ndarray
    reader: Ints
    age: Ints
    listed: Ints
    stops: Ints


def none_judged(flat: FlatProblem) -> Judged:
    """Space in which no value has been judged."""
    count = len(flat.size)
    blank = (np.zeros(count, np.int64) for _ in range(4))
    return Judged(np.full(count, np.inf), *blank)


def space_for(flat: FlatProblem, room: int) -> Space:
    """Space for schedules of at most ``room`` runs."""
    rank = np.empty(len(flat.topological), np.int64)
    rank[flat.topological] = np.arange(len(rank))
    new, chosen = np.empty(room + 2 * MOST_AGAIN, np.int64), np.empty(2 * MOST_AGAIN, np.int64)
    return Space(blank_profile(flat, room), rank, new, chosen)


@compiled_loop
def anneal(
    flat, limit, schedule, length, best, result, moves, weight, hot, cold, reach, fixed, random,
    space,
):  # fmt: skip
    """Random moves: compute a value again, compute it once less, move units.

    A schedule is judged by its cost, plus ``weight`` for every ``limit`` bytes beyond the limit at
    some position. A move worse by ``d`` is accepted with probability ``exp(-d / temperature)``.

    Parameters
    ----------
    flat
        A :class:`~cpplan.remat.search.flat_problem.FlatProblem`.
    limit
        Bytes.
    schedule, length
        The start; overwritten with the end of the walk, whose length is returned.
    best
        Filled with the best schedule: the cheapest within the limit, else the one of least peak.
    result
        ``[length, peak, cost, work, fitted, beyond]``: the first three are those of ``best``, on
        entry too; then the sum of the work done, seconds; the number of times that the walk was
        within the limit; and the bytes beyond the limit at its end, added up over all positions.
    moves
        Number of moves to try.
    weight
        Price of bytes beyond the limit, see above.
    hot, cold
        Temperatures at the first and at the last move.
    reach
        Most positions by which a unit moves.
    fixed
        True if first runs keep their order in ``schedule``.
    random
        A ``numpy.random.Generator``.
    space
        A :class:`Space` for schedules as long as ``schedule``.
    """
    room = len(schedule)
    profile, rank, new = space.profile, space.rank, space.new
    cost = 0.0
    for position in range(length):
        cost += flat.cost[schedule[position]]
    _, beyond = follow(flat, schedule, length, limit, profile)
    scale = weight / max(1.0, limit)
    accesses = (len(flat.reads) + len(flat.writes)) / max(1, len(flat.cost))
    fall = (cold / hot) ** (1.0 / max(1, moves))
    temperature, work, fitted = hot, 0.0, 0
    for _ in range(moves):
        temperature *= fall
        work += _MOVE_WORK
        kind = random.random()
        low, high, size = -1, 0, 0
        if kind < _INSERT:
            if beyond > 0 and random.random() < _RELIEVE:
                low, high, size = relieve(random, flat, limit, rank, profile, schedule, length, new)
            else:
                low, high, size = insert(random, flat, rank, profile.first, schedule, length, new)
        elif kind < _INSERT + _REMOVE + _EXCHANGE:
            if profile.total[0] == 0:
                continue
            position = profile.again[random.integers(0, profile.total[0])]
            if kind >= _INSERT + _REMOVE:
                low, high, size = exchange(
                    random, flat, rank, profile.first, position, schedule, length, new
                )
            elif random.random() < _WITH_NEEDS:
                low, high, size = remove_with_needs(flat, profile, position, schedule, length, new)
            else:
                low, high, size = remove(
                    random, flat, profile.first, profile.times, position, schedule, length, new
                )
        else:
            low, high, size = move_units(random, flat, profile.first, schedule, length, new, reach)
        if low < 0 or length - (high - low) + size > room:
            continue
        if fixed and not keeps_order(profile, schedule, low, high, new, size):
            continue
        more = 0.0
        if size != high - low or kind < _INSERT + _REMOVE + _EXCHANGE:
            for k in range(size):
                more += flat.cost[new[k]]
            for position in range(low, high):
                more -= flat.cost[schedule[position]]
        # Draw the accepted increase first: most moves are then rejected by their cost alone.
        allowed = -temperature * math.log(1.0 - random.random())
        if more - scale * beyond > allowed:
            continue
        over = beyond_after(flat, limit, schedule, profile, low, high, new, size)
        work += _JUDGE_WORK * accesses * (1 + high - low + size)
        if more + scale * over > allowed:
            continue
        cost += more
        beyond += over
        fitted += beyond == 0
        if kind >= _INSERT + _REMOVE + _EXCHANGE:
            follow_window(flat, schedule, profile, low, high, new)
            if beyond > 0 or (result[1] <= limit and cost >= result[2]):
                continue
            peak = 0
            for position in range(length):
                peak = max(peak, profile.live[position])
        else:
            work += _FOLLOW_WORK * accesses * length
            length = _take(schedule, length, low, high, new, size)
            peak, _ = follow(flat, schedule, length, limit, profile)
        fits = beyond == 0
        if (fits and (result[1] > limit or cost < result[2])) or (not fits and peak < result[1]):
            copy_runs(schedule, 0, length, best, 0)
            result[0], result[1], result[2] = length, peak, cost
    result[3] += work
    result[4], result[5] = fitted, beyond
    return length


@compiled_loop
def drop_values(flat, limit, schedule, length, steps, progress, random, space, judged):
    """Free values where most bytes are live and compute them again when read; returns the length.

    The value that saves the most bytes beyond the limit for its cost is taken. Values are judged
    again in the order of what they saved last, until none may save more than the best one.

    Parameters
    ----------
    flat, limit, schedule, length
        See :func:`anneal`; ``schedule`` is changed.
    steps
        Most values to free.
    progress
        Set to 1 if another call may free more, else to 0; and to the work done, seconds.
    random
        A ``numpy.random.Generator``; it does not affect the result.
    space
        As in :func:`anneal`.
    judged
        A :class:`Judged`.
    """
    room = len(schedule)
    profile, rank, new, chosen = space
    ratio, reader, age, listed, stops = judged
    free = 0.0
    for unit in range(len(flat.cost)):
        free += flat.cost[unit]
    free = 1e-9 * (free / len(flat.cost)) + 1e-12
    progress[0], progress[1] = 0.0, 0.0
    for _ in range(steps):
        progress[1] += _DROPPED_WORK * length + _LISTED_WORK * len(flat.size)
        peak, beyond = follow(flat, schedule, length, limit, profile)
        if beyond == 0:
            return length
        place = 0
        while profile.live[place] != peak:
            place += 1
        count = 0
        for s in range(len(flat.size)):
            age[s] += 1
            stop = freed_until(flat, profile, s, place, length)
            if stop < 0:
                continue
            unit = schedule[stop] if stop < length else -1
            if reader[s] != unit or age[s] > _REFRESH:
                reader[s], ratio[s] = unit, math.inf
            listed[count], stops[count] = s, stop
            count += 1
        best, best_low, best_high, best_size = 0.0, -1, 0, 0
        while count > 0:
            at = 0
            for k in range(1, count):
                if ratio[listed[k]] > ratio[listed[at]]:
                    at = k
            progress[1] += _CHOSEN_WORK * count
            s, stop = listed[at], stops[at]
            if ratio[s] <= best:
                break
            count -= 1
            listed[at], stops[at] = listed[count], stops[count]
            ratio[s], age[s] = 0.0, 0
            before = -1
            for kept in range(2):
                size = again(
                    random, flat, limit, rank, profile, flat.writer[s], stop,
                    1.0, float(kept), new,
                )  # fmt: skip
                # Too many units take the longest to find.
                work = 2 + size if size >= 0 else MOST_AGAIN
                progress[1] += (_DROP_WORK + _KEPT_WORK * length) * work + _RANGE_WORK * length
                # Where nothing could be kept, the units are the same.
                if size < 0 or size == before or length + size > room:
                    continue
                before = size
                low, high, size = put(schedule, length, stop, new, size)
                less = -beyond_after(flat, limit, schedule, profile, low, high, new, size)
                if less <= 0:
                    continue
                cost = free - flat.cost[schedule[low]]
                for k in range(size):
                    cost += flat.cost[new[k]]
                ratio[s] = max(ratio[s], less / cost)
                if less / cost > best:
                    best, best_low, best_high, best_size = less / cost, low, high, size
                    copy_runs(new, 0, size, chosen, 0)
        if best_low < 0:
            return length
        length = _take(schedule, length, best_low, best_high, chosen, best_size)
    progress[0] = 1.0
    return length


@compiled_loop
def retain_values(flat, limit, least, schedule, length, steps, progress, space):
    """Retain values instead of computing them again, within a limit; returns the length.

    Repetitions are left out from the last one on, with those that were needed only for them.

    Parameters
    ----------
    flat, limit, schedule, length, space
        See :func:`anneal`; ``schedule`` is changed, and must be within the limit.
    least
        Least cost that leaving out a repetition must save.
    steps
        Most repetitions to leave out.
    progress
        ``progress[0]`` is the position before which to begin, and then the one before which another
        call continues, 0 if there is none; ``progress[1]`` is set to the work done, seconds.
    """
    profile, _, new, _ = space
    progress[1] = _DROPPED_WORK * length
    follow(flat, schedule, length, limit, profile)
    k, left = profile.total[0] - 1, steps
    while k >= 0 and left > 0:
        position = profile.again[k]
        k -= 1
        if position >= progress[0]:
            continue
        low, high, size = remove_with_needs(flat, profile, position, schedule, length, new)
        if low < 0:
            continue
        cost = 0.0
        for at in range(low, high):
            cost += flat.cost[schedule[at]]
        for at in range(size):
            cost -= flat.cost[new[at]]
        progress[1] += _DROP_WORK * (2 + size)
        if cost < least:
            continue
        progress[1] += _RANGE_WORK * length
        if beyond_after(flat, limit, schedule, profile, low, high, new, size) > 0:
            continue
        length = _take(schedule, length, low, high, new, size)
        progress[0] = position
        follow(flat, schedule, length, limit, profile)
        progress[1] += _DROPPED_WORK * length
        k, left = min(k, profile.total[0] - 1), left - 1
    if k < 0:
        progress[0] = 0.0
    return length


@compiled_loop
def _take(schedule, length, low, high, new, size):
    """Replace a window of a schedule; return its length."""
    more = size - (high - low)
    if more > 0:
        for k in range(length - 1, high - 1, -1):
            schedule[k + more] = schedule[k]
    elif more < 0:
        for k in range(high, length):
            schedule[k + more] = schedule[k]
    copy_runs(new, 0, size, schedule, low)
    return length + more
