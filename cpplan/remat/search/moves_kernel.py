"""Random changes of a schedule, each of one window of it.

A move returns ``(low, high, size)``: ``new[:size]`` is to replace ``schedule[low:high]``. ``low``
is -1 if no change was found.
"""

# Arrays are described in ``schedule_kernel``; the compiler infers their types.
# mypy: disable-error-code="no-untyped-def,no-any-return,untyped-decorator"

from __future__ import annotations

import numpy as np

from cpplan.remat.search.profile_kernel import access_from, read_next
from cpplan.runtime.loop_compiler import compiled_loop

# Most units that one move removes or takes along, and most that it inserts.
_BLOCK, _INSERTED = 8, 24
# Probabilities that the value to compute again is any value, that it is computed earlier than
# needed, that no further value is added, and that a tree is computed instead of a chain.
_ANYWHERE, _EARLIER, _ENOUGH, _TREE = 0.05, 0.2, 0.6, 0.3
# Probability that a value is computed right before its reader; probabilities that a missing input
# is kept instead of computed again, if it fits and if it does not.
_LATEST, _KEPT, _KEPT_BEYOND = 0.7, 0.9, 0.3
# Most units computed again together to free one value, and tries to find such a value.
MOST_AGAIN, _LOOKS = 250, 12
# Most runs searched for those that were needed only for a removed run.
_FAR = 100


@compiled_loop
def copy_runs(source, begin, end, target, at):
    """Copy ``source[begin:end]`` to ``target`` from ``at`` on."""
    for k in range(end - begin):
        target[at + k] = source[begin + k]


@compiled_loop
def joined(schedule, length, low, high, new, size, other):
    """Fill ``other`` with the changed schedule; return its length, -1 for no move or no room."""
    if low < 0 or length - (high - low) + size > len(other):
        return -1
    copy_runs(schedule, 0, low, other, 0)
    copy_runs(new, 0, size, other, low)
    copy_runs(schedule, high, length, other, low + size)
    return length - (high - low) + size


@compiled_loop
def keeps_order(profile, schedule, low, high, new, size):
    """True if first runs keep their order. O(window²) at worst, as windows are short."""
    at = low
    for k in range(size):
        unit = new[k]
        if profile.first[unit] < low:
            continue
        for j in range(k):
            if new[j] == unit:
                unit = -1
                break
        if unit < 0:
            continue
        while at < high and profile.first[schedule[at]] != at:
            at += 1
        if at >= high or schedule[at] != unit:
            return False
        at += 1
    while at < high:
        if profile.first[schedule[at]] == at:
            return False
        at += 1
    return True


@compiled_loop
def insert(random, flat, rank, first, schedule, length, new):
    """Compute a value again before one of its readers, perhaps with the values that it needs."""
    place, count = _block(random, flat, rank, first, schedule, length, new)
    if count == 0:
        return -1, 0, 0
    return put(schedule, length, place, new, count)


@compiled_loop
def _block(random, flat, rank, first, schedule, length, block):
    """Choose a place and write units to run there again to ``block``; returns both, or no units."""
    place, count = random.integers(0, length), 0
    unit = schedule[place]
    if random.random() < _ANYWHERE:
        # A kept value need not be read later: it may be computed again near the end.
        unit = random.integers(0, len(flat.extra))
        place = length - int((length + 1) ** random.random()) + 1
        if not flat.repeatable[unit]:
            return 0, 0
        block[0], count = unit, 1
    tree = random.random() < _TREE
    while count < (1 if tree else _BLOCK):
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
        count = _grow(random, flat, block, rank)
    if count == 0 or (place > 0 and schedule[place - 1] == block[0]):
        return 0, 0
    # A value may also be computed somewhat before its reader.
    if random.random() < _EARLIER:
        for _ in range(random.integers(1, _BLOCK)):
            if place > 0 and schedule[place - 1] != block[0]:
                place -= 1
    for k in range(count):
        if first[block[k]] >= place:
            return 0, 0
    for k in range(count // 2):
        block[k], block[count - 1 - k] = block[count - 1 - k], block[k]
    return place, count


@compiled_loop
def put(schedule, length, place, new, count):
    """The window of an insertion of ``new[:count]`` before a place; completes ``new``."""
    if place < length:
        new[count] = schedule[place]
        return place, place + 1, count + 1
    for k in range(count, 0, -1):
        new[k] = new[k - 1]
    new[0] = schedule[length - 1]
    return length - 1, length, count + 1


@compiled_loop
def _grow(random, flat, block, rank):
    """Add the units that the first of a block needs, directly or not; the last in order first."""
    count, part, k = 1, random.random(), 0
    while k < count:
        for t in range(flat.read_start[block[k]], flat.read_start[block[k] + 1]):
            writer = flat.writer[flat.reads[t]]
            if writer < 0 or not flat.repeatable[writer] or random.random() > part:
                continue
            if count < _INSERTED and not _among(block, count, writer):
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


@compiled_loop
def _among(block, count, unit):
    for k in range(count):
        if block[k] == unit:
            return True
    return False


@compiled_loop
def relieve(random, flat, limit, rank, profile, schedule, length, new):
    """Free a value at a position beyond the limit, and compute it again for its next reader."""
    if len(flat.size) == 0:
        return -1, 0, 0
    place = random.integers(0, length)
    for _ in range(length):
        if profile.live[place] > limit:
            break
        place = place + 1 if place + 1 < length else 0
    for _ in range(_LOOKS):
        s = random.integers(0, len(flat.size))
        stop = freed_until(flat, profile, s, place, length)
        if stop < 0:
            continue
        if random.random() > _LATEST:
            stop = place + 1 + int((stop - place) * random.random())
        count = again(
            random, flat, limit, rank, profile, flat.writer[s], stop, _KEPT, _KEPT_BEYOND, new
        )
        if count > 0:
            return put(schedule, length, stop, new, count)
        return -1, 0, 0
    return -1, 0, 0


@compiled_loop
def freed_until(flat, profile, storage, place, length):
    """The position of the next reader of a value that may be freed at a place; -1 if it may not."""
    writer = flat.writer[storage]
    if writer < 0 or not flat.repeatable[writer] or profile.first[writer] >= place:
        return -1
    k = access_from(profile, storage, place)
    if not read_next(flat, profile, storage, k):
        return -1
    stop = length
    if k < profile.start[storage + 1]:
        stop = (profile.access[k] >> 2) - 1
    return -1 if stop == place else stop


@compiled_loop
def again(random, flat, limit, rank, profile, unit, place, kept, kept_beyond, new):
    """Write the units to run before a place to compute a unit's values; returns their number or -1.

    A missing input is kept from its last use on with probability ``kept`` if that stays within the
    limit, and with ``kept_beyond`` if not. Else it is computed again too.
    """
    profile.stamp[len(flat.size)] += 1
    stamp = profile.stamp[len(flat.size)]
    new[0], count, k = unit, 1, 0
    while k < count:
        for t in range(flat.read_start[new[k]], flat.read_start[new[k] + 1]):
            s = flat.reads[t]
            if profile.stamp[s] == stamp:
                continue
            profile.stamp[s] = stamp
            index = access_from(profile, s, place)
            if index > profile.start[s] and read_next(flat, profile, s, index):
                continue
            writer = flat.writer[s]
            if writer < 0 or not flat.repeatable[writer]:
                continue
            fits, begin = True, 0
            if index > profile.start[s]:
                begin = profile.access[index - 1] >> 2
            for position in range(begin, place):
                if profile.live[position] + flat.size[s] > limit:
                    fits = False
                    break
            if random.random() < (kept if fits else kept_beyond):
                continue
            if not _among(new, count, writer):
                if count == MOST_AGAIN or profile.first[writer] >= place:
                    return -1
                new[count] = writer
                count += 1
        k += 1
    for k in range(1, count):
        unit, at = new[k], k
        while at > 0 and rank[new[at - 1]] > rank[unit]:
            new[at] = new[at - 1]
            at -= 1
        new[at] = unit
    return count


@compiled_loop
def removable(flat, first, schedule, length, position):
    """True if the units that wait for this one still run after it without this run."""
    unit = schedule[position]
    if first[unit] != position:
        return True
    second = position + 1
    while second < length and schedule[second] != unit:
        second += 1
    if second == length:
        return False
    for t in range(flat.after_start[unit], flat.after_start[unit + 1]):
        if first[flat.after[t]] < second:
            return False
    return True


@compiled_loop
def remove(random, flat, first, count, position, schedule, length, new):
    """Remove a repetition, and perhaps those beside it."""
    if not removable(flat, first, schedule, length, position):
        return -1, 0, 0
    end = position + 1
    while (
        end < length
        and end - position < _BLOCK
        and random.random() < 0.3
        and count[schedule[end]] > 1
        and first[schedule[end]] < position
    ):
        end += 1
    if end == length or position > 0:
        return position, end, 0
    new[0] = schedule[end]
    return position, end + 1, 1


@compiled_loop
def remove_with_needs(flat, profile, position, schedule, length, new):
    """Remove a repetition, and nearby runs that were repeated only for it."""
    first, access = profile.first, profile.access
    if first[schedule[position]] == position:
        return -1, 0, 0
    begin = max(1, position - _FAR)
    low, size = position, 0
    at = position - begin
    # Set a flag for each removed run, from the end of ``new`` to its begin.
    room = at + 1
    for place in range(position - 1, begin - 1, -1):
        unit = schedule[place]
        removed = first[unit] != place
        if removed:
            for t in range(flat.write_start[unit], flat.write_start[unit + 1]):
                s = flat.writes[t]
                k = access_from(profile, s, place) + 1
                while removed and read_next(flat, profile, s, k):
                    reader = length
                    if k < profile.start[s + 1]:
                        reader = (access[k] >> 2) - 1
                    if reader > position:
                        removed = False
                    elif reader < position:
                        # The run stays if this reader stays, by its flag in ``new``.
                        removed = new[room + position - reader] == 1
                    k += 1
                if not removed:
                    break
        new[room + position - place] = np.int64(removed)
        if removed:
            low = place
    for place in range(low, position):
        if new[room + position - place] == 0:
            new[size] = schedule[place]
            size += 1
    return low, position + 1, size


@compiled_loop
def exchange(random, flat, rank, first, position, schedule, length, new):
    """Remove a repetition, and compute another value again."""
    if first[schedule[position]] == position:
        return -1, 0, 0
    place, count = _block(random, flat, rank, first, schedule, length, new)
    if count == 0 or place == position or place == position + 1:
        return -1, 0, 0
    if place < position:
        copy_runs(schedule, place, position, new, count)
        return place, position + 1, count + position - place
    span = place - position - 1
    for k in range(count - 1, -1, -1):
        new[span + k] = new[k]
    copy_runs(schedule, position + 1, place, new, 0)
    return position, place, span + count


@compiled_loop
def move_units(random, flat, first, schedule, length, new, reach):
    """Move some consecutive units to an earlier or a later place."""
    size = 1
    while size < _BLOCK and random.random() < 0.4:
        size += 1
    if length <= size:
        return -1, 0, 0
    far = 1 + int(reach ** random.random())
    begin = random.integers(0, length - size)
    place = begin - far if random.random() < 0.5 else begin + far
    place = min(max(place, 0), length - size)
    if place == begin:
        return -1, 0, 0
    high = place + size
    for position in range(begin, begin + size):
        unit = schedule[position]
        if first[unit] != position:
            # The run may become the first of its unit, so all predecessors must have run.
            moves_ahead = place < begin and first[unit] >= place and first[unit] < begin
            if moves_ahead and not _ready(flat, unit, first, place):
                return -1, 0, 0
            continue
        if place < begin:
            if not _ready_before(flat, unit, first, place, begin):
                return -1, 0, 0
        else:
            for t in range(flat.after_start[unit], flat.after_start[unit + 1]):
                if first[flat.after[t]] >= begin + size and first[flat.after[t]] < high:
                    return -1, 0, 0
    if place > begin:
        for position in range(begin + size, high):
            unit = schedule[position]
            moves_ahead = first[unit] >= begin and first[unit] < begin + size
            if moves_ahead and not _ready(flat, unit, first, begin):
                return -1, 0, 0
    if place < begin:
        copy_runs(schedule, begin, begin + size, new, 0)
        copy_runs(schedule, place, begin, new, size)
        return place, begin + size, begin + size - place
    copy_runs(schedule, begin + size, high, new, 0)
    copy_runs(schedule, begin, begin + size, new, high - begin - size)
    return begin, high, high - begin


@compiled_loop
def _ready(flat, unit, first, place):
    """True if all predecessors of the unit run before a place."""
    for t in range(flat.before_start[unit], flat.before_start[unit + 1]):
        if first[flat.before[t]] >= place:
            return False
    return True


@compiled_loop
def _ready_before(flat, unit, first, place, begin):
    """True if no predecessor of the unit has its first run from ``place`` to before ``begin``."""
    for t in range(flat.before_start[unit], flat.before_start[unit + 1]):
        before = first[flat.before[t]]
        if before >= place and before < begin:
            return False
    return True
