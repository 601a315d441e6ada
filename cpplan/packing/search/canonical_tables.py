"""The arrays that the canonical search works on.

``Board`` is the problem: buffers, the sections each is live in, and who is live together, as flat
arrays. ``Search`` is where the search stands: what is placed, the lowest offset every other buffer
can still have and which placements are why, and a trail by which all is taken back.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpplan.model.problem import Ints

# Entries of ``Search.counter``.
LEVELS, TRAIL, NODES = 0, 1, 2


class Board(NamedTuple):
    """What does not change: all in address units; compressed rows of members and neighbours.

    ``highest`` is the highest offset a buffer may have, ``limit[0]`` the end of the arena.
    """

    lower: Ints
    upper: Ints
    size: Ints
    alignment: Ints
    twin: Ints
    highest: Ints
    limit: Ints
    first_section: Ints
    sections: NDArray[np.int32]
    first_member: Ints
    first_neighbour: Ints
    neighbours: NDArray[np.int32]


class Search(NamedTuple):
    """Where the search stands. ``floor[b] >= rest[b]``, the top of what is placed below ``b``.

    The first ``waiting[s]`` members of a section are those not placed. ``slot`` is where the member
    of an entry of ``Board.sections`` is, and ``entry`` the reverse.
    """

    placed: NDArray[np.bool_]
    floor: Ints
    rest: Ints
    total: Ints
    lowest: Ints
    witness: Ints
    crossing: Ints
    members: NDArray[np.int32]
    slot: NDArray[np.int32]
    entry: NDArray[np.int32]
    waiting: Ints
    buffer: Ints
    begin: Ints
    end: Ints
    mark: Ints
    trail: Ints
    reason: NDArray[np.uint64]
    old_reason: NDArray[np.uint64]
    why: NDArray[np.uint64]
    conflict: NDArray[np.uint64]
    level: Ints
    raised: Ints
    is_raised: NDArray[np.bool_]
    weight: Ints
    counter: Ints
