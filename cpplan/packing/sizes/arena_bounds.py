"""Lower bounds on the arena at each size, for layouts with the same offsets, without search."""

from __future__ import annotations

import numpy as np

from cpplan.model.problem import Ints
from cpplan.packing.bounds import largest_live, lower_bound
from cpplan.packing.sizes.size_set import SizeSet


def arena_bounds(sizes: SizeSet) -> Ints:
    """Lower bound on the arena at every size, for offsets valid at all sizes; shape ``(sizes,)``.

    Each buffer live at a step needs room for its largest size, except the topmost one, which needs
    only its bytes at the given size. So the bound is the sum of the largest sizes live at a step,
    less the largest difference between a buffer's largest size and its bytes at the given size. It
    is at least the live bytes at that size. If only buffers of one alignment count, their largest
    sizes are rounded up to it.

    O(n log n) for each size and alignment.

    Examples
    --------
    >>> from cpplan.model.problem import Problem
    >>> problem = Problem(("a", "b"), lower=[0, 0], upper=[1, 1], size=[0, 0])
    >>> arena_bounds(SizeSet(problem, np.array([[1, 2], [100, 50]]))).tolist()
    [51, 150]
    """
    spans, merged = sizes.merged.spans, sizes.merged
    bounds = np.array([lower_bound(sizes.at(k)).value for k in range(len(sizes))], np.int64)
    for row, offset in merged.fixed.items():
        bounds = np.maximum(bounds, offset + sizes.bytes[:, row])
    for unit in np.unique(np.append(merged.alignment, 1)).tolist():
        # Every span counts from the start of its buffer.
        counted = (merged.alignment[spans.buffer] % unit == 0) & (spans.end > 0)
        buffer, lower, upper = spans.buffer[counted], spans.lower[counted], spans.upper[counted]
        held = -(-spans.end[counted] // unit) * unit
        times = np.unique(np.concatenate([lower, upper]))
        first, last = np.searchsorted(times, lower), np.searchsorted(times, upper)
        change = np.zeros(len(times), np.int64)
        np.add.at(change, first, held)
        np.add.at(change, last, -held)
        live = np.cumsum(change)
        for k in range(len(sizes)):
            less = largest_live(held - sizes.bytes[k, buffer], first, last, len(times))
            bounds[k] = max(int(bounds[k]), int((live - less).max(initial=0)))
    return bounds
