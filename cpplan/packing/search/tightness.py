"""Weights that keep waiting buffers away from the steps where memory is full.

Searches that place waiting buffers and eject others weigh every buffer: the lighter ones have to
wait. A buffer that waits finds room soonest where memory is far from full. So a buffer weighs more
the fuller the fullest step is that it meets. With equal weights, some buffers always wait where
memory is full: each place that opens there is taken at another's expense.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from cpplan.model.problem import Problem

# Insertion: power of e by which a buffer at the fullest step weighs more than one that meets only
# empty steps; in between, in proportion to the live bytes.
_TIGHTNESS = 30.0


def tightness(problem: Problem) -> NDArray[np.float64]:
    """Weight by the fullest step that a buffer meets, 1 for the fullest of all; shape ``(n,)``.

    O(n + steps): the problem is reduced, so that it has few steps.
    """
    live = problem.live_bytes()
    if not len(problem) or not live.max():
        return np.ones(len(problem))
    edges = np.stack([problem.lower, problem.upper], axis=1).ravel()
    fullest = np.maximum.reduceat(np.append(live, 0), edges)[::2] / live.max()
    return np.asarray(np.exp(_TIGHTNESS * (fullest - 1)))
