"""Offsets within a limit for retentions of known sizes and times, by guided local search.

At first, retentions may share bytes. One after another moves to the offset where it shares least,
weighted by pairs. Once no retention moves, pairs that still share bytes get more weight (Voudouris
and Tsang, 1999; for packing, with moves along one axis: Egeblad, Nielsen and Odgaard, 2007).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cpplan.model.problem import Ints
from cpplan.remat.search.separation_kernel import separate, space_for
from cpplan.remat.tuning import active
from cpplan.runtime.deadline import Deadline

# Moves times retentions in one call of the compiled loop, and in a second, about; and the overhead
# of a move, in retentions.
_CALL, _RATE, _BESIDES = 2e6, 7e7, 30


class Retentions(NamedTuple):
    """Half-open lifespans, sizes and alignments, each of shape ``(retentions,)``."""

    begin: Ints
    end: Ints
    size: Ints
    alignment: Ints


def separate_retentions(
    retentions: Retentions,
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
    retentions
        The retentions, each at most as large as the limit.
    offsets
        First offsets: multiples of the alignments, so that no retention ends above the limit.
    limit
        Limit on the ends, bytes.
    deadline
        When it passes, the best so far is returned.
    random
        Generator for the order of moves.
    moves
        The most moves to try; if ``None``, until the deadline.

    Examples
    --------
    >>> columns = [0, 0, 1], [1, 2, 2], [4, 2, 4], [1, 1, 1]
    >>> retentions = Retentions(*map(np.array, columns))
    >>> offsets, shared = separate_retentions(
    ...     retentions, np.array([0, 0, 0]), 6, Deadline(60), np.random.default_rng(0), moves=100
    ... )
    >>> shared, offsets[0] == offsets[2]
    (0, np.True_)
    """
    count = len(retentions.size)
    low, best = offsets.copy(), offsets.copy()
    if count > active().most_retentions:
        raise ValueError(f"{count} retentions: at most {active().most_retentions} are separated")
    weight = np.ones((count, count), np.float32)
    np.fill_diagonal(weight, 0)
    columns = tuple(np.ascontiguousarray(column, np.int64) for column in retentions)
    found, least = best.copy(), -1
    left = moves
    size = max(1, int(_CALL / max(1, count)))
    while True:
        tried = size if left is None else min(left, size)
        space = space_for(low, columns[2])
        shared = separate(random, columns, weight, low, best, limit, tried, space)
        deadline.spend(tried * (count + _BESIDES) / _RATE)
        if least < 0 or shared < least:
            found, least = best.copy(), int(shared)
        left = None if left is None else left - tried
        if least == 0 or deadline.expired() or (left is not None and left <= 0):
            return found, least
