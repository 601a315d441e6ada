"""The offset at which a buffer overlaps others at the least cost."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cpplan.model.problem import Ints

Floats = NDArray[np.float64]


def lightest_place(
    offset: Ints, size: Ints, cost: Floats, room: int, step: int, target: int
) -> int | None:
    """The offset with the least cost of overlapped buffers, a multiple of ``step``; or ``None``.

    The buffer of ``room`` bytes must end at or below ``target``.

    Examples
    --------
    >>> lightest_place(np.array([0, 8]), np.array([8, 4]), np.array([9.0, 1.0]), 4, 4, 16)
    12
    >>> lightest_place(np.array([0, 8]), np.array([8, 4]), np.array([9.0, 1.0]), 4, 4, 12)
    8
    >>> lightest_place(np.array([0, 8]), np.array([8, 4]), np.array([9.0, np.inf]), 4, 4, 12)
    0
    """
    last = target - room
    if last < 0:
        return None
    places = np.concatenate([[0, last], offset + size, offset - room])
    places = np.unique(np.concatenate([-(-places // step) * step, places // step * step]))
    places = places[(places >= 0) & (places <= last)]
    by_start, by_end = np.argsort(offset), np.argsort(offset + size)
    started_by = np.searchsorted(offset[by_start], places + room, side="left")
    ended_by = np.searchsorted((offset + size)[by_end], places, side="right")

    def overlapping(weight: Floats) -> Floats:
        # Weight of buffers that start before the end of a place, less those that end before it.
        started = np.concatenate([[0.0], np.cumsum(weight[by_start])])
        ended = np.concatenate([[0.0], np.cumsum(weight[by_end])])
        return np.asarray(started[started_by] - ended[ended_by])

    # Infinite costs cannot be subtracted again, so immovable buffers are counted instead.
    immovable = np.isinf(cost)
    total = overlapping(np.where(immovable, 0.0, cost))
    total[overlapping(immovable.astype(float)) > 0] = np.inf
    best = int(np.argmin(total))
    return None if np.isinf(total[best]) else int(places[best])
