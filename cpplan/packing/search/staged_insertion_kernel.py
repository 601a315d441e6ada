"""Compiled insertion that updates only the buffers a move affects; see ``staged_insertion``.

A move raises the lowest ends of buffers above the inserted one as far as necessary, and lowers the
latest offsets of buffers below it. Both stay valid, but may not be tight. Every call begins with a
push of all buffers down and up.

Rows are sorted by length class, then by first section: the neighbours of a row in one class lie in
a range of rows, with few others between. ``near`` holds these ranges, two lines a class: first and
last row for every row. Ranges are read in blocks; the first, branchless look at a block tells
whether it has any row of interest, and mostly it has none.

``scratch`` has one word for each section and seven for each buffer. An unplaced buffer has the
lowest end 0 and the latest offset ``_NEVER``, so that it conflicts with no other.
"""

# The compiler gives these functions their types.
# mypy: ignore-errors

from __future__ import annotations

from cpplan.packing.search.insertion_kernel import _best_offset, _draw, _push_down, _push_up
from cpplan.runtime.loop_compiler import compiled_loop

# Above every address, and small enough to be shifted by ``_BITS``.
_NEVER = 1 << 42
# A sort key is one word: the row in its low bits, the address in the others.
_BITS = 20
# Bits of a digit by which many words are sorted, and its values.
_DIGIT_BITS = 10
DIGITS = 1 << _DIGIT_BITS
# Words that are sorted by insertion; rows of a block.
_FEW, _BLOCK = 48, 64
# Looks at rows that take as long as sorting a word twice.
_LOOKS_OF_SORTING = 20


@compiled_loop
def _sort(words, count, spare, digits, limit):
    """Sort ``count`` words by the address in their high bits, at most ``limit``; ties by row.

    Few words are sorted by insertion, many by their digits from the last to the first.
    """
    if count < _FEW:
        for k in range(1, count):
            word = words[k]
            at = k
            while at > 0 and words[at - 1] > word:
                words[at] = words[at - 1]
                at -= 1
            words[at] = word
        return
    shift = _BITS
    while limit > 0:
        for digit in range(DIGITS + 1):
            digits[digit] = 0
        for k in range(count):
            digits[((words[k] >> shift) & (DIGITS - 1)) + 1] += 1
        for digit in range(DIGITS):
            digits[digit + 1] += digits[digit]
        for k in range(count):
            digit = (words[k] >> shift) & (DIGITS - 1)
            spare[digits[digit]] = words[k]
            digits[digit] += 1
        for k in range(count):
            words[k] = spare[k]
        shift += _DIGIT_BITS
        limit >>= _DIGIT_BITS


@compiled_loop
def _push(heap, count, key, row):
    """Add a row to a heap whose smallest key is on top."""
    word = (key << _BITS) | row
    at = count
    while at > 0 and heap[(at - 1) // 2] > word:
        heap[at] = heap[(at - 1) // 2]
        at = (at - 1) // 2
    heap[at] = word


@compiled_loop
def _pop(heap, count):
    """Remove the top of a heap of ``count`` words; returns its row."""
    row = heap[0] & ((1 << _BITS) - 1)
    word = heap[count - 1]
    at, child = 0, 1
    while child < count - 1:
        if child + 1 < count - 1 and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= word:
            break
        heap[at] = heap[child]
        at, child = child, 2 * child + 1
    heap[at] = word
    return row


@compiled_loop
def _raise_above(row, offset, near, lower, upper, size, step, heap, moved, old, lowest_end):
    """Raise the buffers above a buffer just placed, directly or indirectly.

    Of two neighbours, the one that ended higher before lies above. Rows are taken in the order of
    these former ends, so that a row is final before the rows above it are raised. ``old`` is the
    former end of a row that has moved, else -1. Returns how many rows were looked at.
    """
    count, total, changed, below, looked = 0, 0, row, offset, 0
    while True:
        end, low, up = lowest_end[changed], lower[changed], upper[changed]
        for group in range(0, len(near), 2):
            block, last = near[group, changed], near[group + 1, changed]
            looked += last - block
            while block < last:
                stop = min(block + _BLOCK, last)
                hit = 0
                for other in range(block, stop):
                    hit |= (
                        (lowest_end[other] - size[other] < end)
                        & (lowest_end[other] > below)
                        & (lower[other] < up)
                        & (upper[other] > low)
                    )
                first = block if hit else stop
                block = stop
                for other in range(first, stop):
                    if lowest_end[other] - size[other] >= end or lowest_end[other] <= below:
                        continue
                    if lower[other] >= up or upper[other] <= low or other == row:
                        continue
                    if old[other] < 0:
                        old[other] = lowest_end[other]
                        moved[total] = other
                        _push(heap, count, lowest_end[other], other)
                        count += 1
                        total += 1
                    elif old[other] <= below:
                        continue
                    offset_above = (end + step[other] - 1) // step[other] * step[other]
                    lowest_end[other] = offset_above + size[other]
        if count == 0:
            break
        changed = _pop(heap, count)
        count -= 1
        below = old[changed]
    for k in range(total):
        old[moved[k]] = -1
    return looked


@compiled_loop
def _lower_below(row, offset, near, lower, upper, size, step, heap, moved, old, lowest_end, latest):
    """Lower the latest offsets of buffers below a buffer just placed, directly or indirectly.

    The mirror image of ``_raise_above``. A buffer lies below the placed one if its lowest end is at
    most ``offset``.
    """
    count, total, changed, above, highest, looked = 0, 0, row, _NEVER, offset, 0
    while True:
        start, low, up = latest[changed], lower[changed], upper[changed]
        for group in range(0, len(near), 2):
            block, last = near[group, changed], near[group + 1, changed]
            looked += last - block
            while block < last:
                stop = min(block + _BLOCK, last)
                hit = 0
                for other in range(block, stop):
                    hit |= (
                        (latest[other] + size[other] > start)
                        & (latest[other] < above)
                        & (lowest_end[other] <= highest)
                        & (lower[other] < up)
                        & (upper[other] > low)
                    )
                first = block if hit else stop
                block = stop
                for other in range(first, stop):
                    if latest[other] + size[other] <= start or latest[other] >= above:
                        continue
                    if lower[other] >= up or upper[other] <= low or other == row:
                        continue
                    if lowest_end[other] > highest:
                        continue
                    if old[other] < 0:
                        old[other] = latest[other]
                        moved[total] = other
                        _push(heap, count, _NEVER - latest[other], other)
                        count += 1
                        total += 1
                    elif old[other] >= above:
                        continue
                    latest[other] = (start - size[other]) // step[other] * step[other]
        if count == 0:
            break
        changed = _pop(heap, count)
        count -= 1
        above, highest = old[changed], _NEVER
    for k in range(total):
        old[moved[k]] = -1
    return looked


@compiled_loop
def insert(
    moves,
    looks,
    limit,
    learning,
    spans,
    near,
    scratch,
    size,
    step,
    pinned,
    difficulty,
    penalty,
    held,
    placed,
    order,
    lowest_end,
    latest,
    cursor,
    random,
):
    """Make moves until all buffers are placed below ``limit``; returns the number waiting.

    It ends after ``moves`` moves, or when they have looked at ``looks`` rows: moves that push many
    buffers take long. ``order`` lists the placed buffers by lowest end; ``cursor`` holds the number
    of moves made, the tenure, and the number of rows looked at.
    """
    _first, lower, upper = spans
    skyline, digits, waiting, ends, starts, heap, old, spare, weight = scratch
    left = 0
    for row in range(len(size)):
        weight[row] = difficulty[row] * penalty[row]
        old[row] = -1
        if not placed[row]:
            lowest_end[row], latest[row] = 0, _NEVER
            waiting[left] = row
            left += 1
    count = len(size) - left
    _push_down(order, 0, count, spans, step, pinned, size, skyline, lowest_end)
    _push_up(order, count, count, limit, spans, step, pinned, size, skyline, latest)
    enough = cursor[2] + looks
    for _ in range(moves):
        if left == 0 or cursor[2] >= enough:
            break
        now = cursor[0]
        cursor[0] += 1
        # Take the heavier of two random buffers.
        chosen, drawn = _draw(random, left), _draw(random, left)
        if weight[waiting[drawn]] > weight[waiting[chosen]]:
            chosen = drawn
        row = waiting[chosen]
        low, up, room, grid = lower[row], upper[row], size[row], step[row]
        between = 0
        for group in range(0, len(near), 2):
            cursor[2] += 2 * (near[group + 1, row] - near[group, row])
            for other in range(near[group, row], near[group + 1, row]):
                starts[between] = (latest[other] << _BITS) | other
                ends[between] = (lowest_end[other] << _BITS) | other
                between += (
                    (lower[other] < up)
                    & (upper[other] > low)
                    & (latest[other] - room < lowest_end[other])
                )
        _sort(starts, between, spare, digits, limit)
        _sort(ends, between, spare, digits, limit)
        for k in range(between):
            starts[k] &= (1 << _BITS) - 1
            ends[k] &= (1 << _BITS) - 1
        offset = _best_offset(
            limit, room, grid, ends, starts, between, lowest_end, latest, weight, pinned,
            held, now, random,
        )  # fmt: skip
        if offset < 0:
            continue
        waiting[chosen] = waiting[left - 1]
        left -= 1
        for k in range(between):
            other = starts[k]
            if latest[other] < offset + room and lowest_end[other] > offset:
                placed[other] = False
                lowest_end[other], latest[other] = 0, _NEVER
                waiting[left] = other
                left += 1
                penalty[other] += learning
                weight[other] = difficulty[other] * penalty[other]
        floor, ceiling = 0, limit
        for group in range(0, len(near), 2):
            for other in range(near[group, row], near[group + 1, row]):
                end = lowest_end[other] * ((lower[other] < up) & (upper[other] > low))
                floor = max(floor, end * (end <= offset))
                ceiling = min(ceiling, latest[other] if end > offset else limit)
        placed[row] = True
        lowest_end[row] = (floor + grid - 1) // grid * grid + room
        latest[row] = (ceiling - room) // grid * grid
        cursor[2] += _lower_below(
            row, offset, near, lower, upper, size, step, heap, ends, old, lowest_end, latest
        )
        cursor[2] += _raise_above(
            row, offset, near, lower, upper, size, step, heap, ends, old, lowest_end
        )
        cursor[2] += _LOOKS_OF_SORTING * between
        held[row] = now + cursor[1] + _draw(random, cursor[1] + 1)
    return left
