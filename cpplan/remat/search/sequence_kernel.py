"""The compiled loop of the search over sequences; imports numba, so import it only to search."""

# Arrays are described in ``anneal``; the compiler infers their types.
# mypy: disable-error-code="no-untyped-def,no-any-return,untyped-decorator"

from __future__ import annotations

import numpy as np
from numba import njit

from cpplan.runtime.inner_loop import inner_loop

# Units that one move removes or carries along at most, and those that it inserts.
_BLOCK, _INSERTED = 8, 24
# How often what is computed again is chosen anywhere, comes earlier, ends with this value, and is
# a tree instead of a chain.
_ANYWHERE, _EARLIER, _ENOUGH, _TREE = 0.05, 0.2, 0.6, 0.3


@njit(cache=True)
def measure(flat, sequence, length, scratch, limit):
    """``(peak, bytes beyond the limit added up over all positions)`` of a sequence."""
    began, ended, change = scratch
    for s in range(len(flat.size)):
        began[s] = 0 if flat.present[s] else -1
        ended[s] = 1
    for position in range(length + 1):
        change[position] = 0
    for position in range(length):
        unit = sequence[position]
        for t in range(flat.read_start[unit], flat.read_start[unit + 1]):
            ended[flat.reads[t]] = position + 1 - flat.spared[t]
        for t in range(flat.write_start[unit], flat.write_start[unit + 1]):
            s = flat.writes[t]
            if began[s] >= 0 and not flat.in_parts[s]:
                change[began[s]] += flat.size[s]
                change[ended[s]] -= flat.size[s]
                began[s] = -1
            if began[s] < 0:
                began[s] = position
            ended[s] = position + 1
    for s in range(len(flat.size)):
        if began[s] >= 0:
            change[began[s]] += flat.size[s]
            if not flat.kept[s]:
                change[ended[s]] -= flat.size[s]
    live, peak, beyond = flat.base, flat.base, 0.0
    for position in range(length):
        live += change[position]
        pressure = live + flat.extra[sequence[position]]
        if position == 0:
            pressure += flat.entry
        peak = max(peak, pressure)
        if pressure > limit:
            beyond += pressure - limit
    return peak, beyond


@njit(cache=True)
def anneal(
    flat, limit, sequence, length, best, result, moves, weight, hot, cold, reach, fixed, random
):
    """Random moves: compute a value again, compute it once less, move units.

    A sequence is judged by its cost, plus ``weight`` for every ``limit`` bytes beyond the limit at
    some position. A move worse by ``d`` is accepted with probability ``exp(-d / temperature)``.

    Parameters
    ----------
    flat
        A :class:`~cpplan.remat.search.flat_problem.FlatProblem`.
    limit
        Bytes.
    sequence, length
        The start; overwritten with where the walk ends, whose length is returned.
    best
        Filled with the best sequence: within the limit the cheapest, else that of least peak.
    result
        ``[length, peak, cost]`` of ``best``, on entry too.
    moves
        How many are tried.
    weight
        See above.
    hot, cold
        Temperatures at the first and at the last move.
    reach
        Positions that a unit moves at most.
    fixed
        Whether first runs keep the order that they have in ``sequence``.
    random
        A ``numpy.random.Generator``.
    """
    given = sequence
    units = len(flat.extra)
    room = len(sequence)
    other = np.empty(room, np.int64)
    scratch = (
        np.empty(len(flat.size), np.int64),
        np.empty(len(flat.size), np.int64),
        np.empty(room + 1, np.int64),
    )
    count = np.zeros(units, np.int64)
    first = np.full(units, room, np.int64)
    rank = np.empty(units, np.int64)
    for place in range(units):
        rank[flat.topological[place]] = place
    cost = 0.0
    for position in range(length):
        unit = sequence[position]
        cost += flat.cost[unit]
        count[unit] += 1
        first[unit] = min(first[unit], position)
    _, beyond = measure(flat, sequence, length, scratch, limit)
    scale = weight / max(1.0, limit)
    value = cost + scale * beyond
    turn = np.zeros(units, np.int64)
    count_first = 0
    for position in range(length):
        if first[sequence[position]] == position:
            turn[sequence[position]] = count_first
            count_first += 1
    fall = (cold / hot) ** (1.0 / max(1, moves))
    temperature = hot
    for _ in range(moves):
        temperature *= fall
        kind = random.random()
        size = length
        if kind < 0.35:
            size = _insert(random, flat, rank, sequence, length, other)
        elif kind < 0.65:
            size = _remove(random, flat, sequence, length, other, count, first)
        elif kind < 0.75:
            size = _exchange(random, flat, rank, sequence, length, other, count, first)
        else:
            size = _move(random, flat, sequence, length, other, first, reach)
        if size < 0 or (fixed and not _keeps_order(other, size, turn)):
            continue
        total = cost
        if size != length or kind < 0.75:
            total = 0.0
            for position in range(size):
                total += flat.cost[other[position]]
        if total - value > 40.0 * temperature:
            continue
        peak, over = measure(flat, other, size, scratch, limit)
        judged = total + scale * over
        worse = judged - value
        if worse > 0 and random.random() >= np.exp(-worse / temperature):
            continue
        sequence, other = other, sequence
        length, cost, value = size, total, judged
        for unit in range(units):
            count[unit] = 0
        for position in range(length - 1, -1, -1):
            count[sequence[position]] += 1
            first[sequence[position]] = position
        fits = peak <= limit
        if (fits and (result[1] > limit or cost < result[2])) or (not fits and peak < result[1]):
            _copy(sequence, 0, length, best, 0)
            result[0], result[1], result[2] = length, peak, cost
    _copy(sequence, 0, length, given, 0)
    return length


@inner_loop
def _copy(source, begin, end, target, at):
    """Copy ``source[begin:end]`` to ``target`` from ``at`` on: slices take seconds to compile."""
    for k in range(end - begin):
        target[at + k] = source[begin + k]


@inner_loop
def _keeps_order(sequence, length, turn):
    """True if first runs keep the order given by ``turn``."""
    ahead = 0
    for position in range(length):
        if turn[sequence[position]] > ahead:
            return False
        if turn[sequence[position]] == ahead:
            ahead += 1
    return True


@inner_loop
def _insert(random, flat, rank, sequence, length, other):
    """Compute a value again before one of its readers, and perhaps the values that needs."""
    block = np.empty(_INSERTED, np.int64)
    place, count = random.integers(0, length), 0
    unit = sequence[place]
    if random.random() < _ANYWHERE:
        # What nobody reads later is kept: it may be computed again near the end.
        unit = random.integers(0, len(flat.extra))
        place = length - int((length + 1) ** random.random()) + 1
        if not flat.repeatable[unit] or length == len(other):
            return -1
        block[0], count = unit, 1
    tree = random.random() < _TREE
    while count < (1 if tree else _BLOCK) and length + count < len(other):
        reads = flat.read_start[unit + 1] - flat.read_start[unit]
        if reads == 0 or (count > 0 and random.random() < _ENOUGH):
            break
        s = flat.reads[flat.read_start[unit] + random.integers(0, reads)]
        writer = flat.writer[s]
        if writer < 0 or not flat.repeatable[writer]:
            break
        block[count] = writer
        count += 1
        unit = writer
    if tree and count == 1:
        count = _grow(random, flat, block, min(_INSERTED, len(other) - length), rank)
    if count == 0 or (place > 0 and sequence[place - 1] == block[0]):
        return -1
    # A value may also be computed somewhat before its reader.
    if random.random() < _EARLIER:
        for _ in range(random.integers(1, _BLOCK)):
            if place > 0 and sequence[place - 1] != block[0]:
                place -= 1
    for k in range(count):
        if not _ran(sequence, place, block[k]):
            return -1
    _copy(sequence, 0, place, other, 0)
    for k in range(count):
        other[place + k] = block[count - 1 - k]
    _copy(sequence, place, length, other, place + count)
    return length + count


@inner_loop
def _grow(random, flat, block, most, rank):
    """Add units that the first of a block needs, and what they need; the last in order first."""
    count, part, k = 1, random.random(), 0
    while k < count:
        for t in range(flat.read_start[block[k]], flat.read_start[block[k] + 1]):
            writer = flat.writer[flat.reads[t]]
            if writer < 0 or not flat.repeatable[writer] or random.random() > part:
                continue
            if count < most and not _ran(block, count, writer):
                block[count] = writer
                count += 1
        k += 1
    for k in range(1, count):
        unit, at = block[k], k
        while at > 0 and rank[block[at - 1]] < rank[unit]:
            block[at] = block[at - 1]
            at -= 1
        block[at] = unit
    return count


@inner_loop
def _ran(sequence, place, unit):
    """True if the unit runs before a place."""
    for position in range(place):
        if sequence[position] == unit:
            return True
    return False


@inner_loop
def _pick_copy(random, sequence, length, count):
    """The position of a unit that runs more than once, or -1."""
    start = random.integers(0, length)
    for k in range(length):
        position = (start + k) % length
        if count[sequence[position]] > 1:
            return position
    return -1


@inner_loop
def _removable(flat, sequence, length, first, position):
    """True if the units that wait for this one still run after it without this run."""
    unit = sequence[position]
    if first[unit] != position:
        return True
    second = position + 1
    while second < length and sequence[second] != unit:
        second += 1
    if second == length:
        return False
    for t in range(flat.after_start[unit], flat.after_start[unit + 1]):
        if first[flat.after[t]] < second:
            return False
    return True


@inner_loop
def _remove(random, flat, sequence, length, other, count, first):
    """Run some unit once less, and perhaps its neighbours."""
    position = _pick_copy(random, sequence, length, count)
    if position < 0 or not _removable(flat, sequence, length, first, position):
        return -1
    end = position + 1
    while (
        end < length
        and end - position < _BLOCK
        and random.random() < 0.3
        and count[sequence[end]] > 1
        and first[sequence[end]] < position
    ):
        end += 1
    _copy(sequence, 0, position, other, 0)
    _copy(sequence, end, length, other, position)
    return length - (end - position)


@inner_loop
def _exchange(random, flat, rank, sequence, length, other, count, first):
    """Run some unit once less, and compute another value again."""
    position = _pick_copy(random, sequence, length, count)
    if position < 0 or not _removable(flat, sequence, length, first, position):
        return -1
    shorter = np.empty(length - 1, np.int64)
    _copy(sequence, 0, position, shorter, 0)
    _copy(sequence, position + 1, length, shorter, position)
    return _insert(random, flat, rank, shorter, length - 1, other)


@inner_loop
def _move(random, flat, sequence, length, other, first, reach):
    """Move some units in a row to an earlier or a later place."""
    size = 1
    while size < _BLOCK and random.random() < 0.4:
        size += 1
    if length <= size:
        return -1
    far = 1 + int(reach ** random.random())
    begin = random.integers(0, length - size)
    place = begin - far if random.random() < 0.5 else begin + far
    place = min(max(place, 0), length - size)
    if place == begin:
        return -1
    high = place + size
    for position in range(begin, begin + size):
        unit = sequence[position]
        if first[unit] != position:
            # It may become the first: all it waits for must have run.
            moves_ahead = place < begin and first[unit] >= place and first[unit] < begin
            if moves_ahead and not _ready(flat, unit, first, place):
                return -1
            continue
        if place < begin:
            if not _ready_before(flat, unit, first, place, begin):
                return -1
        else:
            for t in range(flat.after_start[unit], flat.after_start[unit + 1]):
                if first[flat.after[t]] >= begin + size and first[flat.after[t]] < high:
                    return -1
    if place > begin:
        for position in range(begin + size, high):
            unit = sequence[position]
            moves_ahead = first[unit] >= begin and first[unit] < begin + size
            if moves_ahead and not _ready(flat, unit, first, begin):
                return -1
    _copy(sequence, 0, length, other, 0)
    if place < begin:
        _copy(sequence, place, begin, other, place + size)
    else:
        _copy(sequence, begin + size, place + size, other, begin)
    _copy(sequence, begin, begin + size, other, place)
    return length


@inner_loop
def _ready(flat, unit, first, place):
    """True if all predecessors of the unit run before a place."""
    for t in range(flat.before_start[unit], flat.before_start[unit + 1]):
        if first[flat.before[t]] >= place:
            return False
    return True


@inner_loop
def _ready_before(flat, unit, first, place, begin):
    """True if no predecessor of the unit has its first run from ``place`` to before ``begin``."""
    for t in range(flat.before_start[unit], flat.before_start[unit + 1]):
        before = first[flat.before[t]]
        if before >= place and before < begin:
            return False
    return True
