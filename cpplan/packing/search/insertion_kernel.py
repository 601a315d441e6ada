"""Compiled part of the insertion search; see ``insertion_search`` for the method.

``order`` and ``by_latest`` list the placed buffers by lowest end and by latest offset. ``cursor``
keeps three numbers between calls: buffers placed, moves made, and the tenure. ``scratch`` has one
word for each section and four for each buffer.
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
def _resort(rows, count, key):
    """Sort rows by key, by insertion: a move hardly changes the order."""
    for k in range(1, count):
        row = rows[k]
        value = key[row]
        at = k
        while at > 0 and key[rows[at - 1]] > value:
            rows[at] = rows[at - 1]
            at -= 1
        rows[at] = row


@compiled_loop
def _without_ejected(rows, count, placed):
    kept = 0
    for k in range(count):
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
def _best_offset(
    limit, room, grid, ends, starts, count, lowest_end, latest, weight, pinned, held, now, random
):
    """The offset with the least weight of ejected buffers; -1 if all offsets eject a fixed one.

    ``ends`` and ``starts`` are the neighbours that may conflict, by lowest end and by latest
    offset. A neighbour is ejected if it can lie neither below the offset nor above the end.
    """
    last = (limit - room) // grid * grid
    best, best_held, offset, ties = 0.0, 0, -1, 0
    cost, cost_held, cost_fixed = 0.0, 0, 0
    gone, back = 0, 0
    above, below = 0, 0
    while above <= count or below <= count:
        # Candidates in ascending order: zero, on top of a neighbour, below a neighbour, the last.
        on_top, beneath = _NEVER, _NEVER
        if above == 0:
            on_top = 0
        elif above <= count:
            on_top = (lowest_end[ends[above - 1]] + grid - 1) // grid * grid
        if below < count:
            beneath = (latest[starts[below]] - room) // grid * grid
        elif below == count:
            beneath = last
        if on_top <= beneath:
            tried = on_top
            above += 1
        else:
            tried = beneath
            below += 1
        if tried < 0 or tried > last:
            continue
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
    skyline, waiting, ends, starts, weight = scratch
    left = 0
    for row in range(len(size)):
        weight[row] = difficulty[row] * penalty[row]
        if not placed[row]:
            waiting[left] = row
            left += 1
    count = cursor[PLACED]
    _push_down(order, 0, count, spans, step, pinned, size, skyline, lowest_end)
    _push_up(order, count, count, limit, spans, step, pinned, size, skyline, latest)
    _resort(order, count, lowest_end)
    _resort(by_latest, count, latest)
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
        between = 0
        for k in range(count):
            other = by_latest[k]
            if meets[row, other] and latest[other] - size[row] < lowest_end[other]:
                starts[between] = other
                between += 1
        between = 0
        for k in range(count):
            other = order[k]
            if meets[row, other] and latest[other] - size[row] < lowest_end[other]:
                ends[between] = other
                between += 1
        offset = _best_offset(
            limit, size[row], step[row], ends, starts, between, lowest_end, latest, weight, pinned,
            held, now, random,
        )  # fmt: skip
        if offset < 0:
            continue
        waiting[chosen] = waiting[left - 1]
        left -= 1
        ejected = 0
        for k in range(between):
            other = starts[k]
            if latest[other] < offset + size[row] and lowest_end[other] > offset:
                placed[other] = False
                waiting[left] = other
                left += 1
                ejected += 1
                penalty[other] += learning
                weight[other] = difficulty[other] * penalty[other]
        at = 0
        while at < count and lowest_end[order[at]] <= offset:
            at += 1
        # Ejected buffers end above the offset: lowest ends before ``at`` stay valid, and so do
        # latest offsets after the last ejected buffer.
        last = at
        for k in range(at, count):
            if not placed[order[k]]:
                last = k
        last -= max(0, ejected - 1)
        kept = _without_ejected(order, count, placed)
        _without_ejected(by_latest, count, placed)
        for k in range(kept, at, -1):
            order[k] = order[k - 1]
        order[at] = row
        by_latest[kept] = row
        count = kept + 1
        placed[row] = True
        _push_down(order, at, count, spans, step, pinned, size, skyline, lowest_end)
        _push_up(order, last, count, limit, spans, step, pinned, size, skyline, latest)
        _resort(order, count, lowest_end)
        _resort(by_latest, count, latest)
        held[row] = now + cursor[TENURE] + _draw(random, cursor[TENURE] + 1)
    cursor[PLACED] = count
    return left == 0
