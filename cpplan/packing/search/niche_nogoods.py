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

# Most nogoods, most sections in all of them, and number of lists by watched section. The older half
# is forgotten if there is no room for another one.
_MOST, _ENTRIES, _LISTS = 1 << 16, 1 << 21, 1 << 15
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
    """Room for nogoods, and none yet."""
    return Nogoods(
        first=np.zeros(_MOST + 1, np.int32),
        section=np.zeros(_ENTRIES, np.int32),
        value=np.zeros(_ENTRIES, np.uint64),
        watched=np.zeros(_MOST, np.int32),
        following=np.zeros(_MOST, np.int32),
        heads=np.full(_LISTS, -1, np.int32),
        counter=np.array([0, -1], np.int64),
    )
