"""The compiled inner loop of the beam search."""

# Arrays are described in ``extend_beam``; the compiler infers their types.
# mypy: disable-error-code="no-untyped-def,no-any-return,untyped-decorator"

from __future__ import annotations

import numpy as np

from cpplan.runtime.loop_compiler import compiled_loop


@compiled_loop
def extend_beam(
    steps,
    width,
    problem,
    beam,
    other,
    trace,
    candidates,
    table,
    cursor,
):
    """Extend every state of the beam by one op, up to ``steps`` times.

    Parameters
    ----------
    steps, width
        Number of steps, and number of states to keep after each.
    problem
        ``(before_start, before, after_start, after, access_start, accesses, size, users, present,
        kept, extra, code)``: the edges and accesses as ranges of flat arrays, and a random code for
        every op; the codes of the ops that have run, combined by exclusive or, stand for the set.
    beam, other
        ``(done, left, ready, ready_count, live, peak, code)``, one row a state: the beam, and the
        rows that the next one is written to. They change places at every step.
    trace
        ``(parent, ran)``: for every step and state, the row it was made from and the op it ran.
    candidates
        ``(live, peak, code, parent, ran, heap)``.
    table
        Hash table to remove doubles; a power of two long, -1 where empty.
    cursor
        ``[step, states, extensions by one op in this call]``; the first two carry over to the next.
    """
    before_start, before, after_start, after = problem[0], problem[1], problem[2], problem[3]
    access_start, accesses, size, users = problem[4], problem[5], problem[6], problem[7]
    present, kept, extra, codes = problem[8], problem[9], problem[10], problem[11]
    cand_live, cand_peak, cand_code, cand_parent, cand_ran, heap = candidates
    ops = len(extra)
    cursor[2] = 0
    for _ in range(steps):
        if cursor[0] == ops:
            return
        done, left, ready, ready_count, live, peak, code = beam
        count = 0
        for state in range(cursor[1]):
            start = count
            cursor[2] += ready_count[state]
            for k in range(ready_count[state]):
                op = ready[state, k]
                allocated = 0
                freed = 0
                for t in range(access_start[op], access_start[op + 1]):
                    storage = accesses[t]
                    if left[state, storage] == users[storage] and not present[storage]:
                        allocated += size[storage]
                    if left[state, storage] == 1 and not kept[storage]:
                        freed += size[storage]
                pressure = live[state] + allocated + extra[op]
                free = freed >= allocated and pressure <= peak[state]
                if free:
                    count = start
                cand_live[count] = live[state] + allocated - freed
                cand_peak[count] = max(peak[state], pressure)
                cand_code[count] = code[state] ^ codes[op]
                cand_parent[count] = state
                cand_ran[count] = op
                count += 1
                if free:
                    break  # It never raises the peak and may free bytes: no other choice is needed.
        count = _without_doubles(count, candidates, table)
        chosen = 0
        for candidate in range(count):
            if chosen < width:
                heap[chosen] = candidate
                chosen += 1
                _up(heap, chosen - 1, cand_peak, cand_live, cand_code)
            elif _worse(heap[0], candidate, cand_peak, cand_live, cand_code):
                heap[0] = candidate
                _down(heap, chosen, cand_peak, cand_live, cand_code)
        done2, left2, ready2, ready_count2, live2, peak2, code2 = other
        for row in range(chosen):
            candidate = heap[row]
            state, op = cand_parent[candidate], cand_ran[candidate]
            for item in range(ops):
                done2[row, item] = done[state, item]
            for storage in range(len(size)):
                left2[row, storage] = left[state, storage]
            done2[row, op] = True
            for t in range(access_start[op], access_start[op + 1]):
                left2[row, accesses[t]] -= 1
            many = 0
            for k in range(ready_count[state]):
                if ready[state, k] != op:
                    ready2[row, many] = ready[state, k]
                    many += 1
            for k in range(after_start[op], after_start[op + 1]):
                waits = False
                for j in range(before_start[after[k]], before_start[after[k] + 1]):
                    if not done2[row, before[j]]:
                        waits = True
                        break
                if not waits:
                    ready2[row, many] = after[k]
                    many += 1
            ready_count2[row] = many
            live2[row], peak2[row] = cand_live[candidate], cand_peak[candidate]
            code2[row] = cand_code[candidate]
            trace[0][cursor[0], row], trace[1][cursor[0], row] = state, op
        beam, other = other, beam
        cursor[0] += 1
        cursor[1] = chosen


@compiled_loop
def _without_doubles(count, candidates, table):
    """Keep the least peak among candidates with the same ops done; return the number kept.

    The candidates kept are moved to the front.
    """
    cand_live, cand_peak, cand_code, cand_parent, cand_ran, _ = candidates
    mask = 1
    while mask < 2 * count:
        mask *= 2
    for slot in range(mask):
        table[slot] = -1
    mask -= 1
    unique = 0
    for candidate in range(count):
        slot = np.int64(cand_code[candidate] & np.uint64(mask))
        while table[slot] >= 0 and cand_code[table[slot]] != cand_code[candidate]:
            slot = (slot + 1) & mask
        place = table[slot]
        if place >= 0 and cand_peak[place] <= cand_peak[candidate]:
            continue
        if place < 0:
            place = unique
            table[slot] = unique
            unique += 1
        cand_live[place], cand_peak[place] = cand_live[candidate], cand_peak[candidate]
        cand_code[place] = cand_code[candidate]
        cand_parent[place], cand_ran[place] = cand_parent[candidate], cand_ran[candidate]
    return unique


@compiled_loop
def _worse(one, two, peak, live, code):
    """True if candidate ``one`` ranks behind ``two``: by peak, live bytes, then random code."""
    if peak[one] != peak[two]:
        return peak[one] > peak[two]
    if live[one] != live[two]:
        return live[one] > live[two]
    return code[one] > code[two]


@compiled_loop
def _up(heap, place, peak, live, code):
    while place > 0:
        above = (place - 1) // 2
        if not _worse(heap[place], heap[above], peak, live, code):
            return
        heap[place], heap[above] = heap[above], heap[place]
        place = above


@compiled_loop
def _down(heap, count, peak, live, code):
    place = 0
    while True:
        below = 2 * place + 1
        if below >= count:
            return
        if below + 1 < count and _worse(heap[below + 1], heap[below], peak, live, code):
            below += 1
        if not _worse(heap[below], heap[place], peak, live, code):
            return
        heap[place], heap[below] = heap[below], heap[place]
        place = below
