"""The arrays that the niche search works on.

``Shape`` is the problem, in address units: buffers by the section where they start, and where they
end. ``Fill`` is how far each section is filled, what is left to place there, and the decisions so
far with the ways that each still has.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpplan.model.problem import Ints

# Entries of ``Fill.counter``.
LEVELS, NODES, PLACED, WAYS, CHANGES = 0, 1, 2, 3, 4
# A way out of a corner: nothing lies there.
WASTE = -1


class Shape(NamedTuple):
    """What does not change. Row ``k`` starts before its twin, an equal buffer, if it has one."""

    lower: Ints
    upper: Ints
    size: Ints
    twin: Ints
    first_start: Ints
    starting: Ints
    first_end: Ints
    ending: Ints


class Fill(NamedTuple):
    """Where the search stands; ``ways[first_way[l] : first_way[l + 1]]`` are those of level l.

    ``counted`` holds for the niche that begins in a section how many ways its corners have, and how
    many changes of floors there had been then; ``changed``, after how many each floor last changed.
    """

    floor: Ints
    left: Ints
    offset: Ints
    placed: NDArray[np.bool_]
    weight: NDArray[np.float64]
    crossing: Ints
    section: Ints
    begin: Ints
    end: Ints
    raised: Ints
    first_way: Ints
    next_way: Ints
    ways: Ints
    cell: NDArray[np.uint64]
    keys: NDArray[np.uint64]
    failed: NDArray[np.uint64]
    changed: Ints
    counted: Ints
    counter: Ints
