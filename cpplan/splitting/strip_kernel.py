"""Compiled loops that divide a region into strips."""

# Arrays are described in each function; the compiler infers their types.
# mypy: disable-error-code="no-untyped-def,no-any-return,untyped-decorator"

from __future__ import annotations

from cpplan.runtime.loop_compiler import compiled_loop


@compiled_loop
def divide(extents, edges, tables, steps, whole):
    """Write the steps of each op in each strip; return 0 if the strips are impossible, else 1.

    Parameters
    ----------
    extents
        Steps of each op.
    edges
        ``(start, user, window, made)``: rows of each op, from -1 if a reader needs its whole
        output; the op that reads; where the intervals of its window start in ``tables``; where
        those of the writer's window start, or -1 if the writer writes one position per step.
    tables
        ``(low, high)``: intervals of the windows.
    steps
        Receives the steps, shape ``(ops, count, 2)``.
    whole
        Scratch: a flag for each op.
    """
    start, user, window, made = edges
    low, high = tables
    count = len(steps[0])
    for k in range(len(extents) - 1, -1, -1):
        n, here = extents[k], steps[k]
        first, last = start[k, 0], start[k, 1]
        if first < 0 or (first == last and n < count):
            return 0
        if first == last:
            for strip in range(count):
                here[strip, 0], here[strip, 1] = strip * n // count, (strip + 1) * n // count
        else:
            _fill(here, n, 0)
            for e in range(first, last):
                if whole[user[e]]:
                    _fill(here, 0, n)
                    break
                for strip in range(count):
                    begin = low[window[e] + steps[user[e], strip, 0]]
                    end = high[window[e] + steps[user[e], strip, 1] - 1]
                    if made[e] >= 0:
                        begin = _below(high, made[e], n, begin + 1)
                        end = _below(low, made[e], n, end)
                    if begin < end:
                        here[strip, 0] = min(here[strip, 0], begin)
                        here[strip, 1] = max(here[strip, 1], end)
        here[0, 0], here[count - 1, 1] = 0, n
        if count > 1:
            # No position is left out, and no strip is empty.
            for strip in range(count):
                here[strip, 0] = min(here[strip, 0], n - 1)
            before = 0
            for strip in range(count):
                if strip + 1 < count:
                    here[strip, 1] = max(here[strip, 1], here[strip + 1, 0])
                before = max(before, here[strip, 1])
                here[strip, 1] = max(before, here[strip, 0] + 1)
        whole[k] = is_whole(here, n)
    return 1


@compiled_loop
def is_whole(here, extent):
    """True if an op runs whole in every strip: it is not cut, and reads its inputs whole."""
    for strip in range(len(here)):
        if here[strip, 0] != 0 or here[strip, 1] != extent:
            return False
    return True


@compiled_loop
def _fill(here, begin, end):
    for strip in range(len(here)):
        here[strip, 0], here[strip, 1] = begin, end


@compiled_loop
def _below(values, start, count, bound):
    """Number of values below a bound among ``count`` ascending values."""
    low, high = start, start + count
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < bound:
            low = middle + 1
        else:
            high = middle
    return low - start


@compiled_loop
def share(storages, accesses, tables, extents, steps, base, weight, kept, scratch):
    """Write, for each strip, the bytes not accessed, the bytes of each storage, and 1 if they stay.

    Parameters
    ----------
    storages
        ``(size, stays, writer, positions)``: bytes; 1 if live after the region; the op that writes
        the storage or -1; its positions along the outer axis, or 0 if every strip accesses it
        whole.
    accesses
        ``(start, op, window)``: rows of each storage; the op; where the intervals of its window
        start in ``tables``.
    tables, extents, steps
        As in :func:`divide`; ``steps`` may be empty if all positions are 0.
    base, weight, kept
        Receive the results, shapes ``(count,)`` and, of the last two, ``(count, storages)``.
    scratch
        Two numbers for each strip, shape ``(2, count)``.
    """
    size, stays, writer, positions = storages
    start, user, window = accesses
    low, high = tables
    count = len(base)
    first, last = scratch
    for m in range(len(size)):
        nbytes, extent, given = size[m], positions[m], writer[m] < 0
        if nbytes == 0:
            continue
        for strip in range(count):
            first[strip], last[strip] = extent, 0
        for e in range(start[m], start[m + 1]):
            k = user[e]
            if given and is_whole(steps[k], extents[k]):
                for strip in range(count):
                    first[strip], last[strip] = 0, extent
                break
            for strip in range(count):
                first[strip] = min(first[strip], low[window[e] + steps[k, strip, 0]])
                last[strip] = max(last[strip], high[window[e] + steps[k, strip, 1] - 1])
        for strip in range(count):
            last[strip] = max(first[strip], last[strip])
        for strip in range(count):
            kept[strip, m] = stays[m]
            if given and stays[m]:
                base[strip] += nbytes
            elif given and extent == 0:
                weight[strip, m] = nbytes
                kept[strip, m] = strip + 1 < count
            elif given:
                after = extent
                if strip + 1 < count:
                    after = max(first[strip], first[strip + 1])
                weight[strip, m] = nbytes * (after - first[strip]) / extent
                base[strip] += nbytes * (extent - after) / extent
            elif extent == 0:
                # Accessed whole: each strip has its own, or the first strip makes sums that stay.
                if stays[m] and strip:
                    base[strip] += nbytes
                else:
                    weight[strip, m] = nbytes
            elif stays[m]:
                before = min(last[strip - 1] if strip else 0, last[strip])
                weight[strip, m] = nbytes * (last[strip] - before) / extent
                base[strip] += nbytes * before / extent
            else:
                weight[strip, m] = nbytes * (last[strip] - first[strip]) / extent
