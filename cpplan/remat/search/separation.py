"""Offsets within a limit for stays of known sizes and times, by guided local search.

Stays may share bytes at first. One after another moves to where it shares least, weighted pair by
pair; once no stay moves, pairs that still share bytes get more weight (Voudouris and Tsang, 1999;
for packing, with moves along one axis: Egeblad, Nielsen and Odgaard, 2007).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cpplan.model.problem import Ints
from cpplan.remat.tuning import active
from cpplan.runtime.deadline import Deadline

# Moves times stays in one call of the compiled loop, and in a second, about; and what a move takes
# besides, in stays.
_CALL, _RATE, _BESIDES = 2e6, 7e7, 30


class Stays(NamedTuple):
    """Half-open lifespans, sizes and alignments, each of shape ``(stays,)``."""

    begin: Ints
    end: Ints
    size: Ints
    alignment: Ints


def separate_stays(
    stays: Stays,
    offsets: Ints,
    limit: int,
    deadline: Deadline,
    random: np.random.Generator,
    *,
    moves: int | None = None,
) -> tuple[Ints, int]:
    """Offsets that share as few bytes as possible, and the bytes shared: zero for a packing.

    Parameters
    ----------
    stays
        None larger than the limit.
    offsets
        Where to begin: each a multiple of its alignment, so that no stay ends above the limit.
    limit
        Bytes.
    deadline
        When it passes, the best so far is returned.
    random
        For the order of moves.
    moves
        The most moves to try; if ``None``, until the deadline.

    Examples
    --------
    >>> stays = Stays(*(np.array(a) for a in ([0, 0, 1], [1, 2, 2], [4, 2, 4], [1, 1, 1])))
    >>> offsets, shared = separate_stays(
    ...     stays, np.array([0, 0, 0]), 6, Deadline(60), np.random.default_rng(0), moves=100
    ... )
    >>> shared, offsets[0] == offsets[2]
    (0, np.True_)
    """
    from cpplan.remat.search.separation_kernel import separate

    count = len(stays.size)
    low, best = offsets.copy(), offsets.copy()
    if count > active().most_stays:
        raise ValueError(f"{count} stays: at most {active().most_stays} are separated")
    weight = np.ones((count, count), np.float32)
    np.fill_diagonal(weight, 0)
    columns = tuple(np.ascontiguousarray(column, np.int64) for column in stays)
    found, least = best.copy(), -1
    left = moves
    size = max(1, int(_CALL / max(1, count)))
    while True:
        tried = size if left is None else min(left, size)
        shared = separate(random, columns, weight, low, best, limit, tried)
        deadline.spend(tried * (count + _BESIDES) / _RATE)
        if least < 0 or shared < least:
            found, least = best.copy(), int(shared)
        left = None if left is None else left - tried
        if least == 0 or deadline.expired() or (left is not None and left <= 0):
            return found, least
