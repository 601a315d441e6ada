"""Compiled first fit over :class:`~cpplan.packing.heuristics.fit_index.FitIndex`."""

# The compiler gives these functions their types.
# mypy: ignore-errors

from __future__ import annotations

from cpplan.runtime.loop_compiler import compiled_loop

# Parts up to this length are sorted by insertion.
_FEW = 12


@compiled_loop
def place(index, order, start, offset, placed, most):
    """Place the rows of ``order`` from ``start`` on, each at the lowest address where it fits.

    Rows that are already ``placed`` are skipped. The function ends early after it has read more
    than ``most`` entries. It returns the number of rows of ``order`` done, and the entries read.
    """
    work = 0
    for done in range(start, len(order)):
        if work > most:
            return done, work
        row = order[done]
        if not placed[row]:
            at, read = lowest_fit(index, row, 0)
            insert(index, row, at)
            offset[row] = at
            placed[row] = True
            work += read
    return len(order), work


@compiled_loop
def insert_all(index, rows, offset):
    """Enter rows at their offsets; ``offset`` has shape ``(n,)``."""
    for row in rows:
        insert(index, row, offset[row])


@compiled_loop
def insert(index, row, offset):
    """Enter a row at an offset; the caller knows that it fits there."""
    for span in range(index.first_span[row], index.first_span[row + 1]):
        level = index.span_level[span]
        shift, at = index.shift[level], index.level_start[level]
        lower, upper = index.lower[span], index.upper[span]
        for bucket in range(at + (lower >> shift), at + ((upper - 1) >> shift) + 1):
            k = index.bucket_start[bucket] + index.bucket_fill[bucket]
            index.bucket_fill[bucket] += 1
            index.entry[k, 0] = lower
            index.entry[k, 1] = upper
            index.entry[k, 2] = offset + index.begin[span]
            index.entry[k, 3] = offset + index.end[span]
            index.entry_span[k] = span


@compiled_loop
def remove(index, row):
    """Take out a row that was entered."""
    for span in range(index.first_span[row], index.first_span[row + 1]):
        level = index.span_level[span]
        shift, at = index.shift[level], index.level_start[level]
        lower, upper = index.lower[span], index.upper[span]
        for bucket in range(at + (lower >> shift), at + ((upper - 1) >> shift) + 1):
            k = index.bucket_start[bucket]
            while index.entry_span[k] != span:
                k += 1
            index.bucket_fill[bucket] -= 1
            last = index.bucket_start[bucket] + index.bucket_fill[bucket]
            index.entry_span[k] = index.entry_span[last]
            for column in range(4):
                index.entry[k, column] = index.entry[last, column]


@compiled_loop
def lowest_fit(index, row, at_least):
    """The lowest offset from ``at_least`` on at which a row fits, and the number of entries read.

    The intervals of forbidden offsets are sorted only up to the answer, by a quicksort that
    handles its left part first.
    """
    count, read = _forbidden(index, row)
    start, stop = index.start, index.stop
    step = index.alignment[row]
    at = (at_least + step - 1) // step * step
    # A stack of the right ends of the parts still to be sorted, the leftmost part on top.
    ends, parts = index.ends, 1
    ends[0] = count
    first = 0
    while parts > 0:
        last = ends[parts - 1]
        while last - first > _FEW:
            last = _split(start, stop, first, last)
            ends[parts] = last
            parts += 1
        _sort_few(start, stop, first, last)
        for k in range(first, last):
            if start[k] >= at:
                return at, read
            if stop[k] > at:
                at = (stop[k] + step - 1) // step * step
        first = last
        parts -= 1
    return at, read


@compiled_loop
def _forbidden(index, row):
    """Open intervals of offsets at which a row would overlap; their number, and entries read."""
    count, read = 0, 0
    for span in range(index.first_span[row], index.first_span[row + 1]):
        lower, upper = index.lower[span], index.upper[span]
        begin, end = index.begin[span], index.end[span]
        for level in range(len(index.shift)):
            shift, at = index.shift[level], index.level_start[level]
            first = at + (lower >> shift)
            for bucket in range(first, at + ((upper - 1) >> shift) + 1):
                k = index.bucket_start[bucket]
                stop = k + index.bucket_fill[bucket]
                read += stop - k
                while k < stop:
                    other = index.entry[k, 0]
                    meets = other < upper and index.entry[k, 1] > lower
                    # A span in two buckets counts only in the first of them that is read.
                    if meets and (bucket == first or at + (other >> shift) == bucket):
                        index.start[count] = index.entry[k, 2] - end
                        index.stop[count] = index.entry[k, 3] - begin
                        count += 1
                    k += 1
    return count, read


@compiled_loop
def _split(start, stop, first, last):
    """Partition around the median of three; returns the start of the right part.

    No interval of the left part starts after one of the right part. Neither part is empty.
    """
    middle = (first + last) // 2
    a, b, c = start[first], start[middle], start[last - 1]
    pivot = max(min(a, b), min(max(a, b), c))
    i, j = first - 1, last
    while True:
        i += 1
        while start[i] < pivot:
            i += 1
        j -= 1
        while start[j] > pivot:
            j -= 1
        if i >= j:
            break
        start[i], start[j] = start[j], start[i]
        stop[i], stop[j] = stop[j], stop[i]
    return j + 1


@compiled_loop
def _sort_few(start, stop, first, last):
    """Sort the intervals ``first:last`` by start, by insertion."""
    for k in range(first + 1, last):
        key, value = start[k], stop[k]
        at = k
        while at > first and start[at - 1] > key:
            start[at], stop[at] = start[at - 1], stop[at - 1]
            at -= 1
        start[at], stop[at] = key, value
