"""Compiled first fit under a limit for every buffer."""

# The compiler infers the types of the arrays described below.
# mypy: disable-error-code="no-untyped-def,no-any-return,untyped-decorator"

from __future__ import annotations

from cpplan.runtime.loop_compiler import compiled_loop


@compiled_loop
def first_fit(order, lower, upper, size, alignment, highest, placed, offset):
    """Write offsets by first fit; returns false if a buffer would exceed its ``highest`` offset.

    Buffers must have no gaps and no fixed offsets. ``placed`` is scratch, shape ``(n,)``: the rows
    placed so far, by offset.
    """
    for count in range(len(order)):
        row = order[count]
        at, step = 0, alignment[row]
        for k in range(count):
            other = placed[k]
            if offset[other] >= at + size[row]:
                # Placed rows are sorted: all that follow lie above as well.
                break
            top = offset[other] + size[other]
            if top > at and lower[other] < upper[row] and upper[other] > lower[row]:
                at = (top + step - 1) // step * step
        if at > highest[row]:
            return False
        offset[row] = at
        k = count
        while k > 0 and offset[placed[k - 1]] > at:
            placed[k] = placed[k - 1]
            k -= 1
        placed[k] = row
    return True
