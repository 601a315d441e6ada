"""Compiled part of guided ejection; see :mod:`cpplan.packing.search.ejection_search`.

The placed buffers are in two lists, sorted by lowest and by highest address. One walk along both
lists meets all conflicting buffers in order, without a list of conflicts and without sorting.
"""

# The compiler gives these functions their types.
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from cpplan.runtime.loop_compiler import compiled_loop

# The columns of a list.
_ADDRESS, _LOWER, _UPPER, _ROW = 0, 1, 2, 3
_LEAST = 1e-300


@compiled_loop
def insert_waiting(
    lower, upper, size, alignment, worth, limit, moves, relocations, layout, waiting, left, random
):
    """Place waiting buffers for ``moves`` moves, and eject the buffers they overlap.

    Parameters
    ----------
    worth
        Cost of ejecting each buffer the first time; shape ``(n,)``.
    relocations
        Other buffers to try to move after each placement.
    layout
        ``offset``, ``placed`` and ``failures`` (times that a buffer found no room), shape ``(n,)``;
        ``by_bottom`` and ``by_top``, lists of placed buffers, shape ``(4, n)``. All are updated.
    waiting
        The first ``left`` rows are not placed; the last of these comes next. Shape ``(n,)``.
    random
        The state of the generator, shape ``(1,)``.

    Returns
    -------
    left, made
        Number of waiting buffers, and number of moves made.
    """
    offset, placed, failures, by_bottom, by_top = layout
    count = len(size) - left
    made = 0
    while left > 0 and made < moves:
        made += 1
        left -= 1
        row = waiting[left]
        at, blocking = _least_blocked(
            row,
            lower,
            upper,
            size,
            alignment,
            worth,
            failures,
            limit,
            by_bottom,
            by_top,
            count,
            random,
        )
        if blocking > 0:
            failures[row] += 1
            first_out = left
            top = at + size[row]
            k = 0
            while k < count and by_bottom[_ADDRESS, k] < top:
                other = by_bottom[_ROW, k]
                if (
                    by_bottom[_LOWER, k] < upper[row]
                    and by_bottom[_UPPER, k] > lower[row]
                    and offset[other] + size[other] > at
                ):
                    _remove(by_bottom, count, offset[other], other)
                    _remove(by_top, count, offset[other] + size[other], other)
                    count -= 1
                    placed[other] = False
                    # The buffer of most worth comes next, while there is most room.
                    k_out = left
                    while k_out > first_out and worth[waiting[k_out - 1]] > worth[other]:
                        waiting[k_out] = waiting[k_out - 1]
                        k_out -= 1
                    waiting[k_out] = other
                    left += 1
                else:
                    k += 1
        _add(by_bottom, count, at, lower[row], upper[row], row)
        _add(by_top, count, at + size[row], lower[row], upper[row], row)
        count += 1
        offset[row], placed[row] = at, True
        for _ in range(relocations):
            other = by_bottom[_ROW, _below(random, count)]
            if lower[other] >= upper[row] or upper[other] <= lower[row]:
                continue
            _remove(by_bottom, count, offset[other], other)
            _remove(by_top, count, offset[other] + size[other], other)
            count -= 1
            at, blocking = _least_blocked(
                other,
                lower,
                upper,
                size,
                alignment,
                worth,
                failures,
                limit,
                by_bottom,
                by_top,
                count,
                random,
            )
            if blocking == 0:
                offset[other] = at
            at = offset[other]
            _add(by_bottom, count, at, lower[other], upper[other], other)
            _add(by_top, count, at + size[other], lower[other], upper[other], other)
            count += 1
    return left, made


@compiled_loop
def _least_blocked(
    row, lower, upper, size, alignment, worth, failures, limit, by_bottom, by_top, count, random
):
    """Offset at which the overlapped buffers have the least total worth, and that worth.

    The overlap changes only at the edges of buffers. So each stretch of offsets is represented by
    its lower end, at zero or on top of a buffer. Ties are broken at random, and an offset without
    overlap may be at either end of its stretch.
    """
    low, up, step = lower[row], upper[row], alignment[row]
    highest = (limit - size[row]) // step * step
    best, best_worth, equals = 0, np.inf, 0
    opened, closed, active, blocking = 0, 0, 0, 0.0
    candidate = 0
    while candidate <= highest:
        # Add buffers that start below the candidate's top, then remove those that end below it.
        beyond = highest
        while opened < count:
            if by_bottom[_LOWER, opened] < up and by_bottom[_UPPER, opened] > low:
                start = by_bottom[_ADDRESS, opened] - size[row]
                if start >= candidate:
                    beyond = min(beyond, start // step * step)
                    break
                other = by_bottom[_ROW, opened]
                blocking += worth[other] * (1 + failures[other])
                active += 1
            opened += 1
        following = -1
        while closed < count:
            if by_top[_LOWER, closed] < up and by_top[_UPPER, closed] > low:
                if by_top[_ADDRESS, closed] > candidate:
                    following = by_top[_ADDRESS, closed]
                    break
                other = by_top[_ROW, closed]
                blocking -= worth[other] * (1 + failures[other])
                active -= 1
            closed += 1
        # Rounding may lose a small worth; an overlapped buffer must cost more than none.
        blocking = max(blocking, _LEAST) if active > 0 else 0.0
        if blocking <= best_worth:
            equals = equals + 1 if blocking == best_worth else 1
            best_worth = blocking
            if _below(random, equals) == 0:
                best = candidate if _below(random, 2) == 0 or active > 0 else beyond
        if following < 0:
            break
        candidate = (following + step - 1) // step * step
    return best, best_worth


@compiled_loop
def _first_at(entries, count, address):
    """The first of ``count`` entries at this address or above it."""
    first, last = 0, count
    while first < last:
        middle = (first + last) // 2
        if entries[_ADDRESS, middle] < address:
            first = middle + 1
        else:
            last = middle
    return first


@compiled_loop
def _add(entries, count, address, lower, upper, row):
    """Insert one entry into a sorted list of ``count``."""
    at = _first_at(entries, count, address)
    for k in range(count, at, -1):
        for column in range(4):
            entries[column, k] = entries[column, k - 1]
    entries[_ADDRESS, at], entries[_ROW, at] = address, row
    entries[_LOWER, at], entries[_UPPER, at] = lower, upper


@compiled_loop
def _remove(entries, count, address, row):
    """Take one entry out of a sorted list of ``count``."""
    at = _first_at(entries, count, address)
    while entries[_ROW, at] != row:
        at += 1
    for column in range(4):
        for k in range(at, count - 1):
            entries[column, k] = entries[column, k + 1]


@compiled_loop
def _below(random, limit):
    """A random number below ``limit``, by xorshift: every search has its own state."""
    state = random[0]
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    state ^= state << np.uint64(17)
    random[0] = state
    return np.int64((state >> np.uint64(11)) % np.uint64(limit))
