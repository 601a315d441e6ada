"""Compiled lowest-offset-first over a skyline, for :mod:`cpplan.packing.heuristics.skyline`.

Offsets never decrease, so that only the highest end of the placed buffers over each section counts:
the skyline. Its lowest stretch is the valley. A buffer can lie as low as the valley only if its
lifespan lies within that stretch. If no such buffer waits, the valley is filled up to its lower
neighbour. So the number of looks is at most that of buffers and stretches. Each look is a search in
a k-d tree over lifespans; every node keeps the first rank of the buffers that wait below it.
"""

# The compiler gives these functions their types.
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from cpplan.runtime.loop_compiler import compiled_loop

_NONE = np.iinfo(np.int64).max
# Fields of the state: stretches, the peak so far, and buffers left to place.
_COUNT, _PEAK, _LEFT = 0, 1, 2


@compiled_loop
def start_on_skyline(rank, leaf_row, first, skyline, state):
    """Reset the skyline to one stretch over all sections, at height zero."""
    height, end, before, heap, where = skyline
    leaves = len(leaf_row)
    for leaf in range(leaves):
        first[leaves + leaf] = rank[leaf_row[leaf]] if leaf_row[leaf] >= 0 else _NONE
    for node in range(leaves - 1, 0, -1):
        first[node] = min(first[2 * node], first[2 * node + 1])
    height[0], end[0], before[0], heap[0], where[0] = 0, len(height), -1, 0, 0
    state[_COUNT], state[_PEAK], state[_LEFT] = 1, 0, len(rank)


@compiled_loop
def place_on_skyline(
    leaf_row, box, lower, upper, size, alignment, limit, offset, first, skyline, stack, state, looks
):
    """Place buffers in at most ``looks`` looks at the valley; true if the run has ended.

    The next buffer is the one that can lie lowest before it is aligned; ties by rank. The peak so
    far is ``state[1]``; it is -1 if a buffer would end above ``limit``, which ends the run too.
    """
    height, end, before, heap, where = skyline
    leaves, sections = len(leaf_row), len(height)
    # The heap holds the first section of every stretch; ``where`` has its place in the heap.
    count, peak, left = state
    while left > 0 and looks > 0:
        looks -= 1
        start = heap[0]
        stop, floor = end[start], height[start]
        leaf = _first_within(first, box, start, stop, stack)
        if leaf < 0:
            # No waiting buffer fits into the valley: fill it up to the lower neighbour.
            previous, following = before[start], stop
            level = _NONE
            if previous >= 0:
                level = height[previous]
            if following < sections:
                level = min(level, height[following])
            height[start] = level
            _settle(heap, where, height, 0, count)
            if following < sections and height[following] == level:
                count = _absorb(start, following, height, end, before, heap, where, count)
            if previous >= 0 and height[previous] == level:
                count = _absorb(previous, start, height, end, before, heap, where, count)
            continue
        row = leaf_row[leaf]
        step = alignment[row]
        low = (floor + step - 1) // step * step
        top = low + size[row]
        if top > limit:
            state[_PEAK] = -1
            return True
        offset[row] = low
        peak = max(peak, top)
        left -= 1
        node = leaves + leaf
        first[node] = _NONE
        node >>= 1
        while node > 0:
            first[node] = min(first[2 * node], first[2 * node + 1])
            node >>= 1
        from_, to = lower[row], upper[row]
        if to < stop:
            count = _split(start, to, floor, height, end, before, heap, where, count)
        if from_ > start:
            count = _split(start, from_, floor, height, end, before, heap, where, count)
        height[from_] = top
        _settle(heap, where, height, where[from_], count)
        if to < sections and height[to] == top:
            count = _absorb(from_, to, height, end, before, heap, where, count)
        previous = before[from_]
        if previous >= 0 and height[previous] == top:
            count = _absorb(previous, from_, height, end, before, heap, where, count)
    state[_COUNT], state[_PEAK], state[_LEFT] = count, peak, left
    return left == 0


@compiled_loop
def _first_within(first, box, start, stop, stack):
    """The leaf of the first-ranked lifespan within ``[start, stop)``; -1 if there is none."""
    leaves = len(first) // 2
    best, found = _NONE, -1
    depth = 0
    stack[0] = 1
    while depth >= 0:
        node = stack[depth]
        depth -= 1
        if first[node] >= best or box[1, node] < start or box[2, node] > stop:
            continue
        if box[0, node] >= start and box[3, node] <= stop:
            best, found = first[node], node
        elif node < leaves:
            one, other = 2 * node, 2 * node + 1
            # The child with the lower rank is searched first.
            if first[one] < first[other]:
                one, other = other, one
            stack[depth + 1], stack[depth + 2] = one, other
            depth += 2
    if found < 0:
        return -1
    while found < leaves:
        found = 2 * found if first[2 * found] == best else 2 * found + 1
    return found - leaves


@compiled_loop
def _split(start, at, level, height, end, before, heap, where, count):
    """Cut the stretch from ``start`` at section ``at``; returns the number of stretches."""
    height[at], end[at], before[at] = level, end[start], start
    if end[at] < len(height):
        before[end[at]] = at
    end[start] = at
    heap[count], where[at] = at, count
    _settle(heap, where, height, count, count + 1)
    return count + 1


@compiled_loop
def _absorb(start, following, height, end, before, heap, where, count):
    """Merge two neighbouring stretches; returns the number of stretches."""
    end[start] = end[following]
    if end[start] < len(height):
        before[end[start]] = start
    at = where[following]
    count -= 1
    if at < count:
        heap[at] = heap[count]
        where[heap[at]] = at
        _settle(heap, where, height, at, count)
    return count


@compiled_loop
def _settle(heap, where, height, at, count):
    """Restore the order of the heap if only entry ``at`` is out of place."""
    entry = heap[at]
    key = height[entry]
    while at > 0 and key < height[heap[(at - 1) // 2]]:
        heap[at] = heap[(at - 1) // 2]
        where[heap[at]] = at
        at = (at - 1) // 2
    while 2 * at + 1 < count:
        child = 2 * at + 1
        if child + 1 < count and height[heap[child + 1]] < height[heap[child]]:
            child += 1
        if height[heap[child]] >= key:
            break
        heap[at] = heap[child]
        where[heap[at]] = at
        at = child
    heap[at] = entry
    where[entry] = at
