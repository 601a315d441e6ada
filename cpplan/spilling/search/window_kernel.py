"""Compiled loops that pack the retentions in a window of steps again, for other gaps.

Retentions that cross the ends of the window stay where they are. The others are *rows* of the
insertion search of the packing room, which places those that wait.
"""

# Arrays are described in ``gap_arrays``; the compiler infers their types.
# mypy: disable-error-code="no-untyped-def,no-any-return,untyped-decorator"

from __future__ import annotations

from cpplan.packing.search.insertion_kernel import MOVES, PLACED, search
from cpplan.runtime.loop_compiler import compiled_loop
from cpplan.spilling.search.gap_kernel import (
    change,
    is_free,
    is_near,
    keep_one,
    take_changes,
    undo,
)


@compiled_loop
def _pin_of(flat, state, first, last, low, high):
    """Place of a retention, by its accesses, that crosses the ends of the window.

    The retention may be longer than it was, but in the window only. Returns -1 if its parts outside
    have several places.
    """
    pin = -1
    for access in range(first, last + 2):
        gap = flat.before[access] if access <= last else flat.after[last]
        crosses = gap >= 0 and not state.drop[gap]
        crosses = crosses and (flat.gap_lower[gap] < low or flat.gap_upper[gap] > high)
        if crosses and state.fresh[gap]:
            return -1
        step = flat.access_step[min(access, last)]
        if not crosses and (access > last or (step >= low and step < high)):
            continue
        place = state.places[min(access, last)]
        if place < 0 or (pin >= 0 and place != pin):
            return -1
        pin = place
    return pin


@compiled_loop
def _add_row(flat, state, rows, first, last, low, high, count):
    """Add a retention, by its accesses, to the rows if it lies in the window.

    Returns how many rows there are; -1 if they are too many, or it crosses the window's ends and
    has no place.
    """
    storage = flat.access_storage[first]
    begin, end = flat.access_step[first], flat.access_step[last] + 1
    head, tail = flat.before[first], flat.after[last]
    if head >= 0 and not state.drop[head]:
        begin = 0
    if tail >= 0 and not state.drop[tail]:
        end = flat.gap_upper[tail]
    if begin >= high or end <= low:
        return count
    if count >= len(rows.size):
        return -1
    place, there = state.places[first], True
    if head >= 0 and not state.drop[head] and state.fresh[head]:
        there = False
    if tail >= 0 and not state.drop[tail] and state.fresh[tail]:
        there = False
    for access in range(first, last + 1):
        if state.places[access] != place or place < 0:
            there = False
        if access < last and state.fresh[flat.after[access]]:
            there = False
    crosses = begin < low or end > high
    longer = crosses and not there
    if longer:
        place = _pin_of(flat, state, first, last, low, high)
        if place < 0:
            return -1
    rows.first[count], rows.last[count] = first, last
    rows.size[count], rows.step[count] = flat.room[storage], flat.align[storage]
    rows.lower[count], rows.upper[count] = max(begin, low) - low, min(end, high) - low
    rows.pinned[count] = place if crosses else -1
    rows.placed[count] = there or crosses
    rows.lowest_end[count] = place + flat.room[storage]
    rows.penalty[count] = 1.0
    rows.held[count] = 1 if longer else 0
    length = float(min(end, high) - max(begin, low))
    rows.difficulty[count] = float(flat.room[storage]) * length**0.5
    return count + 1


@compiled_loop
def _clear_longer(rows, count):
    """Let rows wait that overlap a pinned one that is longer now; false if these are pinned."""
    for row in range(count):
        if rows.held[row] == 0:
            continue
        rows.held[row] = 0
        begin, end = rows.lowest_end[row] - rows.size[row], rows.lowest_end[row]
        for other in range(count):
            if other == row or not rows.placed[other]:
                continue
            if rows.lower[row] >= rows.upper[other] or rows.upper[row] <= rows.lower[other]:
                continue
            if rows.lowest_end[other] > begin and rows.lowest_end[other] - rows.size[other] < end:
                if rows.pinned[other] >= 0:
                    return False
                rows.placed[other] = False
    return True


@compiled_loop
def _collect(flat, state, rows, low, high):
    """Fill the rows with the retentions of a window; returns their number, -1 if that fails."""
    count = 0
    for storage in range(len(flat.room)):
        if state.begin[storage] >= high or state.end[storage] <= low:
            continue
        first = -1
        for access in range(flat.first_access[storage], flat.first_access[storage + 1]):
            if not is_near(flat, state.drop, access):
                continue
            if first < 0:
                first = access
            after = flat.after[access]
            inner = after >= 0 and flat.gap_after[after] >= 0 and not state.drop[after]
            if not inner:
                count = _add_row(flat, state, rows, first, access, low, high, count)
                if count < 0:
                    return -1
                first = -1
    return count


@compiled_loop
def _merge_steps(state, rows, low, high, count):
    """Number runs of steps at which the same rows meet, and let the rows span these sections."""
    for step in range(high - low + 1):
        state.upto[step] = 0
    # 1 if a row begins at a step, 2 if one ends before it, 3 if both.
    for row in range(count):
        step = rows.lower[row]
        if state.upto[step] % 2 == 0:
            state.upto[step] += 1
        step = rows.upper[row]
        if state.upto[step] < 2:
            state.upto[step] += 2
    section, ended = 0, False
    for step in range(high - low + 1):
        mark = state.upto[step]
        if mark >= 2:
            ended = True
        if mark % 2 == 1 and ended:
            section += 1
            ended = False
        state.upto[step] = section
    for row in range(count):
        rows.lower[row] = state.upto[rows.lower[row]]
        rows.upper[row] = state.upto[rows.upper[row] - 1] + 1


@compiled_loop
def _arrange(rows, count):
    """Order the placed rows by lowest end; compute which rows meet, and scale difficulties."""
    placed = 0
    total = 0.0
    for row in range(count):
        total += rows.difficulty[row]
        if rows.placed[row]:
            rows.order[placed] = row
            placed += 1
    stride = 1
    while stride < placed // 3:
        stride = 3 * stride + 1
    while stride > 0:
        for number in range(stride, placed):
            row, at = rows.order[number], number
            while at >= stride and rows.lowest_end[rows.order[at - stride]] > rows.lowest_end[row]:
                rows.order[at] = rows.order[at - stride]
                at -= stride
            rows.order[at] = row
        stride //= 3
    for number in range(placed):
        rows.by_latest[number] = rows.order[number]
    mean = max(total / float(max(1, count)), 1e-9)
    for row in range(count):
        rows.difficulty[row] /= mean
        for other in range(count):
            rows.meets[row, other] = (
                row != other
                and rows.lower[row] < rows.upper[other]
                and rows.upper[row] > rows.lower[other]
            )
    for row in range(count, len(rows.size)):
        rows.placed[row] = True
    rows.cursor[PLACED] = placed
    rows.cursor[MOVES] = 0


@compiled_loop
def gather(flat, state, rows, low, high):
    """Fill the rows with the retentions at the steps ``[low, high)``.

    Returns their number, -1 if that fails, and the number of their sections.
    """
    count = _collect(flat, state, rows, low, high)
    if count < 0 or not _clear_longer(rows, count):
        return -1, 0
    _merge_steps(state, rows, low, high, count)
    _arrange(rows, count)
    cells = 0
    for row in range(count):
        cells += rows.upper[row] - rows.lower[row]
    return count, cells


@compiled_loop
def insert_rows(flat, rows, moves, learning, random):
    """Make some moves of the insertion search; true if no row waits."""
    spans = rows.first_span, rows.lower, rows.upper
    scratch = rows.skyline, rows.stale, rows.waiting, rows.ends, rows.starts, rows.weight
    return search(
        moves, flat.capacity, learning, spans, scratch, rows.size, rows.step, rows.pinned,
        rows.meets, rows.difficulty, rows.penalty, rows.held, rows.placed, rows.order,
        rows.by_latest, rows.lowest_end, rows.latest, rows.cursor, random,
    )  # fmt: skip


@compiled_loop
def drop_waiting(flat, state, rows, count, most):
    """Drop all gaps of rows that wait; takes that back and returns false if it costs too much."""
    changes = state.filled[0]
    for row in range(count):
        if rows.placed[row]:
            continue
        first, last = rows.first[row], rows.last[row]
        for access in range(first, last + 1):
            if flat.near[access]:
                undo(flat, state, changes)
                return False
            before, after = flat.before[access], flat.after[access]
            if before >= 0 and not state.drop[before]:
                if not is_free(flat, before):
                    undo(flat, state, changes)
                    return False
                change(flat, state, before)
            if after >= 0 and not state.drop[after]:
                if not is_free(flat, after):
                    undo(flat, state, changes)
                    return False
                change(flat, state, after)
        if state.cost[0] >= most:
            undo(flat, state, changes)
            return False
    return True


@compiled_loop
def accept(flat, state, rows, count):
    """Take the changes of gaps and the places of the rows."""
    for row in range(count):
        place = rows.lowest_end[row] - rows.size[row]
        for access in range(rows.first[row], rows.last[row] + 1):
            state.places[access] = -1
            if rows.placed[row]:
                state.places[access] = place
    for number in range(state.filled[0]):
        gap = state.changed[number]
        before, after = flat.gap_before[gap], flat.gap_after[gap]
        if before >= 0 and not is_near(flat, state.drop, before):
            state.places[before] = -1
        if after >= 0 and not is_near(flat, state.drop, after):
            state.places[after] = -1
    take_changes(state)


@compiled_loop
def settle_rows(flat, state, rows, count, most):
    """Drop the gaps of rows that wait, and take the places of the others.

    Returns false, and changes nothing, if that costs too much.
    """
    if not drop_waiting(flat, state, rows, count, most):
        return False
    accept(flat, state, rows, count)
    return True


@compiled_loop
def _place(flat, state, rows, count, most, tuned, random):
    """Place waiting rows by insertion, or drop them; returns moves made, negative if it fails."""
    moves, patience, learning = tuned
    made, waited, least = 0, 0, -1
    while True:
        found = insert_rows(flat, rows, moves, learning, random)
        made += moves
        waited += moves
        if found:
            return made
        left = 0
        for row in range(count):
            if not rows.placed[row]:
                left += rows.size[row] * (rows.upper[row] - rows.lower[row])
        if least < 0 or left < least:
            least, waited = left, 0
        if drop_waiting(flat, state, rows, count, most):
            return made
        if waited >= patience:
            return -made


@compiled_loop
def change_window(flat, state, rows, gap, low, most_dropped, noise, tuned, rng, random):
    """Keep a gap and pack the window that begins at a step again, if that costs less.

    Returns the number of moves made, negative if they fail, and the number of rows and sections.
    """
    high = min(len(state.load), low + len(rows.skyline))
    most = state.cost[0]
    if not keep_one(flat, state, gap, low, high, most_dropped, noise, most, rng):
        return 0, 0, 0
    count, cells = gather(flat, state, rows, low, high)
    if count < 0:
        undo(flat, state, 0)
        return 0, 0, 0
    made = _place(flat, state, rows, count, most, tuned, random)
    if made < 0:
        undo(flat, state, 0)
    else:
        accept(flat, state, rows, count)
    return made, count, cells
