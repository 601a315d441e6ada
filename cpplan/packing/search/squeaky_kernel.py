"""Compiled first fit below a limit, in a given order; see ``squeaky_wheel`` for its use.

The placed buffers are sorted by lowest address. One walk along the list meets all conflicting
buffers in order, and ends where the buffer fits.
"""

# The compiler gives these functions their types.
# mypy: ignore-errors

from __future__ import annotations

from cpplan.runtime.loop_compiler import compiled_loop


@compiled_loop
def place_below(rows, first, last, count, lower, upper, size, alignment, limit, entries, offset):
    """Place ``rows[first:last]`` by first fit; returns the number of all placed buffers.

    Parameters
    ----------
    rows
        Rows in the order of placement.
    count
        Number of buffers placed before.
    limit
        A buffer that would end above it is left out: its offset becomes -1.
    entries
        Bottom, top, lower and upper of placed buffers, by bottom; shape ``(4, n)``. Updated.
    offset
        Offsets of all rows, shape ``(n,)``. Updated.
    """
    bottoms, tops, lowers, uppers = entries[0], entries[1], entries[2], entries[3]
    for turn in range(first, last):
        row = rows[turn]
        low, up, room, step = lower[row], upper[row], size[row], alignment[row]
        at = 0
        for k in range(count):
            if lowers[k] < up and uppers[k] > low:
                if bottoms[k] >= at + room:
                    break
                if tops[k] > at:
                    at = (tops[k] + step - 1) // step * step
        if at + room > limit:
            offset[row] = -1
            continue
        offset[row] = at
        k = count
        while k > 0 and bottoms[k - 1] > at:
            bottoms[k], tops[k] = bottoms[k - 1], tops[k - 1]
            lowers[k], uppers[k] = lowers[k - 1], uppers[k - 1]
            k -= 1
        bottoms[k], tops[k], lowers[k], uppers[k] = at, at + room, low, up
        count += 1
    return count
