"""Compiled ``written_runs.first_wrong``. Shares no code with any planner."""

# The compiler gives these functions their types.
# mypy: ignore-errors

from __future__ import annotations

from cpplan.runtime.loop_compiler import compiled_loop


@compiled_loop
def first_wrong(writes, begin, end, number, begins, numbers):
    """First check that fails, with the first address found wrong.

    ``(-1, -1)`` if no check fails. Runs lie in two arrays, sorted by address: the first address of
    each run, and the number of the write that all its bytes come from, 0 before the first write.

    Parameters
    ----------
    writes, begin, end, number
        For every access, in order of time: True if it writes, its addresses (at least one), and the
        number that is written or must be found.
    begins, numbers
        Scratch: a row for every run; a write makes at most two more.
    """
    begins[0], numbers[0], count = 0, 0, 1
    for access in range(len(writes)):
        low, high = begin[access], end[access]
        if not writes[access]:
            run = _first_from(begins, count, low + 1) - 1
            while run < count and begins[run] < high:
                if numbers[run] != number[access]:
                    return access, max(low, begins[run])
                run += 1
            continue
        first, after = _first_from(begins, count, low), _first_from(begins, count, high)
        # The rest of the last overwritten run becomes a run of its own.
        rest = after == count or begins[after] != high
        number_of_rest = numbers[after - 1]
        grown = first + 1 + rest - after
        if grown > 0:
            for run in range(count - 1, after - 1, -1):
                begins[run + grown], numbers[run + grown] = begins[run], numbers[run]
        elif grown < 0:
            for run in range(after, count):
                begins[run + grown], numbers[run + grown] = begins[run], numbers[run]
        count += grown
        begins[first], numbers[first] = low, number[access]
        if rest:
            begins[first + 1], numbers[first + 1] = high, number_of_rest
    return -1, -1


@compiled_loop
def _first_from(begins, count, address):
    """First run that begins at an address or above; ``count`` if there is none."""
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if begins[middle] < address:
            low = middle + 1
        else:
            high = middle
    return low
