"""Compiled part of the insertion search; see ``insertion_search`` for the method.

``order`` and ``by_latest`` list the placed buffers by lowest end and by latest offset. ``cursor``
keeps three numbers between calls: buffers placed, moves made, and the tenure. ``scratch`` has two
words for each section and four for each buffer.

A move changes few lowest ends and latest offsets. So a push after a move ends early: a section is
stale while the buffer last met there has moved, and once no section is, all further buffers stay.
"""

# The compiler gives these functions their types.
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from cpplan.runtime.loop_compiler import compiled_loop

PLACED, MOVES, TENURE = 0, 1, 2
_NEVER = np.iinfo(np.int64).max
# Sums of weights that differ by less count as equal: the order of addition may differ.
_EQUAL = 1e-9


@compiled_loop
def _draw(random, below):
    """A number in ``[0, below)`` (xorshift*); ``random`` is the state, shape ``(1,)``."""
    word = random[0]
    word ^= word >> np.uint64(12)
    word ^= word << np.uint64(25)
    word ^= word >> np.uint64(27)
    random[0] = word
    return np.int64((word * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(33)) % below


@compiled_loop
def _resort(rows, first, last, count, key):
    """Sort rows by key, by insertion; only those from ``first`` to ``last`` are out of order."""
    for k in range(max(1, first), count):
        row = rows[k]
        value = key[row]
        if k > last and key[rows[k - 1]] <= value:
            break
        at = k
        while at > 0 and key[rows[at - 1]] > value:
            rows[at] = rows[at - 1]
            at -= 1
        rows[at] = row


@compiled_loop
def _without_ejected(rows, first, count, placed):
    """Remove rows that are not placed, from position ``first`` on; returns how many are left."""
    kept = first
    for k in range(first, count):
        if placed[rows[k]]:
            rows[kept] = rows[k]
            kept += 1
    return kept


@compiled_loop
def _push_down(order, first, count, spans, step, pinned, size, floor, lowest_end):
    """Compute lowest ends in this order; those before position ``first`` are up to date."""
    first_span, lower, upper = spans
    for section in range(len(floor)):
        floor[section] = 0
    for k in range(count):
        row = order[k]
        if k >= first:
            offset = 0
            for span in range(first_span[row], first_span[row + 1]):
                for section in range(lower[span], upper[span]):
                    offset = max(offset, floor[section])
            if step[row] > 1:
                offset = (offset + step[row] - 1) // step[row] * step[row]
            if pinned[row] >= 0:
                offset = pinned[row]
            lowest_end[row] = offset + size[row]
        end = lowest_end[row]
        for span in range(first_span[row], first_span[row + 1]):
            for section in range(lower[span], upper[span]):
                floor[section] = end


@compiled_loop
def _push_up(order, last, count, limit, spans, step, pinned, size, skyline, latest):
    """Compute latest offsets below ``limit``; those after position ``last`` are up to date."""
    first_span, lower, upper = spans
    for section in range(len(skyline)):
        skyline[section] = limit
    for k in range(count - 1, -1, -1):
        row = order[k]
        if k <= last:
            offset = limit
            for span in range(first_span[row], first_span[row + 1]):
                for section in range(lower[span], upper[span]):
                    offset = min(offset, skyline[section])
            offset -= size[row]
            if step[row] > 1:
                offset = offset // step[row] * step[row]
            if pinned[row] >= 0:
                offset = pinned[row]
            latest[row] = offset
        offset = latest[row]
        for span in range(first_span[row], first_span[row + 1]):
            for section in range(lower[span], upper[span]):
                skyline[section] = offset


@compiled_loop
def _highest(row, spans, floor):
    """Highest floor over the spans of a row."""
    first_span, lower, upper = spans
    highest = 0
    for span in range(first_span[row], first_span[row + 1]):
        for section in range(lower[span], upper[span]):
            highest = max(highest, floor[section])
    return highest


@compiled_loop
def _lowest(row, limit, spans, skyline):
    """Lowest skyline over the spans of a row, at most ``limit``."""
    first_span, lower, upper = spans
    lowest = limit
    for span in range(first_span[row], first_span[row + 1]):
        for section in range(lower[span], upper[span]):
            lowest = min(lowest, skyline[section])
    return lowest


@compiled_loop
def _fill(row, spans, value, sections):
    """Set the sections of a row to a value."""
    first_span, lower, upper = spans
    for span in range(first_span[row], first_span[row + 1]):
        for section in range(lower[span], upper[span]):
            sections[section] = value


@compiled_loop
def _mark(row, spans, value, stale):
    """Mark the sections of a row as stale (1) or not (0); returns how many more are stale."""
    first_span, lower, upper = spans
    more = 0
    for span in range(first_span[row], first_span[row + 1]):
        for section in range(lower[span], upper[span]):
            more += value - stale[section]
            stale[section] = value
    return more


@compiled_loop
def _end_on(row, floor, spans, step, pinned, size):
    """The lowest end of a row that lies on the floor."""
    offset = _highest(row, spans, floor)
    if step[row] > 1:
        offset = (offset + step[row] - 1) // step[row] * step[row]
    if pinned[row] >= 0:
        offset = pinned[row]
    return offset + size[row]


@compiled_loop
def _offset_below(row, limit, skyline, spans, step, pinned, size):
    """The latest offset of a row that hangs from the skyline."""
    offset = _lowest(row, limit, spans, skyline) - size[row]
    if step[row] > 1:
        offset = offset // step[row] * step[row]
    if pinned[row] >= 0:
        offset = pinned[row]
    return offset


@compiled_loop
def _push_down_after(
    inserted, at, last_out, order, count, placed, spans, step, pinned, size, floor, stale,
    lowest_end,
):  # fmt: skip
    """Compute lowest ends after a move; returns the position before which rows have changed.

    The inserted row comes before position ``at``; rows that are not placed were ejected, the last
    one at position ``last_out``.
    """
    for section in range(len(floor)):
        floor[section], stale[section] = 0, 0
    for k in range(at):
        _fill(order[k], spans, lowest_end[order[k]], floor)
    lowest_end[inserted] = _end_on(inserted, floor, spans, step, pinned, size)
    _fill(inserted, spans, lowest_end[inserted], floor)
    left = _mark(inserted, spans, 1, stale)
    for k in range(at, count):
        row = order[k]
        if not placed[row]:
            left += _mark(row, spans, 1, stale)
            continue
        if left > 0:
            end = _end_on(row, floor, spans, step, pinned, size)
            left += _mark(row, spans, np.int64(end != lowest_end[row]), stale)
            lowest_end[row] = end
        elif k > last_out:
            return k
        _fill(row, spans, lowest_end[row], floor)
    return count


@compiled_loop
def _push_up_after(
    inserted, at, limit, order, count, placed, spans, step, pinned, size, skyline, stale, latest
):
    """Compute latest offsets below ``limit`` after a move; the mirror of ``_push_down_after``."""
    for section in range(len(skyline)):
        skyline[section], stale[section] = limit, 0
    left = 0
    for k in range(count - 1, at - 1, -1):
        row = order[k]
        if not placed[row]:
            left += _mark(row, spans, 1, stale)
            continue
        if left > 0:
            offset = _offset_below(row, limit, skyline, spans, step, pinned, size)
            left += _mark(row, spans, np.int64(offset != latest[row]), stale)
            latest[row] = offset
        _fill(row, spans, latest[row], skyline)
    latest[inserted] = _offset_below(inserted, limit, skyline, spans, step, pinned, size)
    _fill(inserted, spans, latest[inserted], skyline)
    left += _mark(inserted, spans, 1, stale)
    for k in range(at - 1, -1, -1):
        if left == 0:
            break
        row = order[k]
        offset = _offset_below(row, limit, skyline, spans, step, pinned, size)
        left += _mark(row, spans, np.int64(offset != latest[row]), stale)
        latest[row] = offset
        _fill(row, spans, offset, skyline)


@compiled_loop
def _first_above(order, count, lowest_end, offset):
    """Position of the first row that ends above an offset."""
    first, last = 0, count
    while first < last:
        middle = (first + last) // 2
        if lowest_end[order[middle]] <= offset:
            first = middle + 1
        else:
            last = middle
    return first


@compiled_loop
def _best_offset(
    limit, room, grid, ends, starts, count, lowest_end, latest, weight, pinned, held, now, random
):
    """The offset with the least weight of ejected buffers; -1 if all offsets eject a fixed one.

    ``ends`` and ``starts`` are the neighbours that may conflict, by lowest end and by latest
    offset. A neighbour is ejected if it can lie neither below the offset nor above the end.
    """
    # Beyond the end of a neighbour, offsets eject more and more until the end of the next one: only
    # zero and the offsets on top of neighbours are tried.
    best, best_held, offset, ties = 0.0, 0, -1, 0
    cost, cost_held, cost_fixed = 0.0, 0, 0
    gone, back, tried = 0, 0, 0
    for above in range(-1, count):
        if above >= 0:
            tried = lowest_end[ends[above]]
            if grid > 1:
                tried = (tried + grid - 1) // grid * grid
        if tried > limit - room:
            break
        while gone < count and latest[starts[gone]] < tried + room:
            other = starts[gone]
            cost += weight[other]
            cost_held += held[other] > now
            cost_fixed += pinned[other] >= 0
            gone += 1
        while back < count and lowest_end[ends[back]] <= tried:
            other = ends[back]
            cost -= weight[other]
            cost_held -= held[other] > now
            cost_fixed -= pinned[other] >= 0
            back += 1
        if cost_fixed > 0:
            continue
        better = cost_held < best_held or (cost_held == best_held and cost < best - _EQUAL)
        if offset < 0 or better:
            best, best_held, offset, ties = cost, cost_held, tried, 1
        elif cost_held == best_held and cost < best + _EQUAL:
            ties += 1
            if _draw(random, ties) == 0:
                offset = tried
    return offset


@compiled_loop
def search(
    moves,
    limit,
    learning,
    spans,
    scratch,
    size,
    step,
    pinned,
    meets,
    difficulty,
    penalty,
    held,
    placed,
    order,
    by_latest,
    lowest_end,
    latest,
    cursor,
    random,
):
    """Make ``moves`` moves, or fewer if all buffers are placed below ``limit``: then true."""
    skyline, stale, waiting, ends, starts, weight = scratch
    left = 0
    for row in range(len(size)):
        weight[row] = difficulty[row] * penalty[row]
        if not placed[row]:
            waiting[left] = row
            left += 1
    count = cursor[PLACED]
    _push_down(order, 0, count, spans, step, pinned, size, skyline, lowest_end)
    _push_up(order, count, count, limit, spans, step, pinned, size, skyline, latest)
    _resort(order, 0, count, count, lowest_end)
    _resort(by_latest, 0, count, count, latest)
    for _ in range(moves):
        if left == 0:
            break
        now = cursor[MOVES]
        cursor[MOVES] += 1
        # Take the heavier of two random buffers.
        chosen, drawn = _draw(random, left), _draw(random, left)
        if weight[waiting[drawn]] > weight[waiting[chosen]]:
            chosen = drawn
        row = waiting[chosen]
        room, grid = size[row], step[row]
        between = 0
        for k in range(count):
            other = by_latest[k]
            starts[between] = other
            between += meets[row, other] & (latest[other] - room < lowest_end[other])
        between = 0
        for k in range(count):
            other = order[k]
            ends[between] = other
            between += meets[row, other] & (latest[other] - room < lowest_end[other])
        offset = _best_offset(
            limit, room, grid, ends, starts, between, lowest_end, latest, weight, pinned,
            held, now, random,
        )  # fmt: skip
        if offset < 0:
            continue
        waiting[chosen] = waiting[left - 1]
        left -= 1
        ejected = 0
        for k in range(between):
            other = starts[k]
            if latest[other] < offset + room and lowest_end[other] > offset:
                placed[other] = False
                waiting[left] = other
                left += 1
                ejected += 1
                penalty[other] += learning
                weight[other] = difficulty[other] * penalty[other]
        # Ejected buffers end above the offset.
        at = last_out = _first_above(order, count, lowest_end, offset)
        if ejected > 0:
            for k in range(at, count):
                if not placed[order[k]]:
                    last_out = k
        changed = _push_down_after(
            row, at, last_out, order, count, placed, spans, step, pinned, size, skyline, stale,
            lowest_end,
        )  # fmt: skip
        _push_up_after(
            row, at, limit, order, count, placed, spans, step, pinned, size, skyline, stale, latest
        )
        kept = count
        if ejected > 0:
            kept = _without_ejected(order, at, count, placed)
            _without_ejected(by_latest, 0, count, placed)
        for k in range(kept, at, -1):
            order[k] = order[k - 1]
        order[at] = row
        by_latest[kept] = row
        count = kept + 1
        placed[row] = True
        _resort(order, at, changed, count, lowest_end)
        _resort(by_latest, 0, count, count, latest)
        held[row] = now + cursor[TENURE] + _draw(random, cursor[TENURE] + 1)
    cursor[PLACED] = count
    return left == 0
