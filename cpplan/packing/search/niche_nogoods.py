"""Nogoods of the niche search: failures that it remembers.

A *nogood* is a list of sections, each with a hash of its floor and of its placed buffers. A state
with the same hashes in these sections fails, whatever it holds elsewhere. Such lists come from the
sections to blame for a failure (Dechter 1990); to watch one section of each is the way of SAT
solvers (Moskewicz, Madigan, Zhao, Zhang and Malik 2001).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpplan.model.problem import Ints

# Nogoods for which there is room at first, and at most; sections for each nogood, and nogoods for
# each list. The older half is forgotten if there is no room for another one.
_FEWEST, _MOST, _SECTIONS, _LISTED = 1 << 10, 1 << 16, 32, 2
# Ratio by which the room grows.
_GROWTH = 4
# Entries of ``Nogoods.counter``: number of nogoods, and the one that watches nothing yet, or -1.
COUNT, PENDING = 0, 1


class Nogoods(NamedTuple):
    """Remembered failures; ``section[first[k] : first[k + 1]]`` are the sections of nogood k.

    ``value`` has their hashes. Each nogood watches one of its sections that has another hash now:
    ``watched`` has its entry. Only when that section changes to the nogood's hash, the others are
    compared. ``heads`` and ``following`` are lists of nogoods that watch the same section and hash.
    """

    first: NDArray[np.int32]
    section: NDArray[np.int32]
    value: NDArray[np.uint64]
    watched: NDArray[np.int32]
    following: NDArray[np.int32]
    heads: NDArray[np.int32]
    counter: Ints


def no_nogoods() -> Nogoods:
    """Room for some nogoods, and none yet."""
    return _room_for(_FEWEST)


def _room_for(most: int) -> Nogoods:
    return Nogoods(
        first=np.zeros(most + 1, np.int32),
        section=np.zeros(_SECTIONS * most, np.int32),
        value=np.zeros(_SECTIONS * most, np.uint64),
        watched=np.zeros(most, np.int32),
        following=np.zeros(most, np.int32),
        heads=np.full(-(-most // _LISTED), -1, np.int32),
        counter=np.array([0, -1], np.int64),
    )


def with_room(nogoods: Nogoods) -> Nogoods:
    """The same nogoods, in more room if half of it is taken; a new tree must watch them all.

    Most problems are solved with few nogoods, and clearing room for many takes longer than that.
    """
    count, most = int(nogoods.counter[COUNT]), len(nogoods.watched)
    entries = int(nogoods.first[count])
    if most >= _MOST or 2 * max(count, entries // _SECTIONS) < most:
        return nogoods
    larger = _room_for(min(_GROWTH * most, _MOST))
    larger.first[: count + 1] = nogoods.first[: count + 1]
    larger.section[:entries] = nogoods.section[:entries]
    larger.value[:entries] = nogoods.value[:entries]
    larger.counter[COUNT] = count
    return larger
