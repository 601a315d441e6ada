"""Segregated fit: an allocator for a great many requests, with lists of holes by size.

The requests come in order of execution, as in ``first_fit``. Each looks at a few holes of about its
size, then at larger ones: constant time, whatever the number of holes, as in allocators of
real-time systems (Masmano et al., "TLSF", 2004). This plan comes first for a great many buffers,
where better plans take seconds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpplan.model.problem import Ints, Problem
from cpplan.packing import loops
from cpplan.packing.heuristics.registered import register
from cpplan.runtime.compiled import prepare
from cpplan.runtime.deadline import Deadline, TimeUpError

# Requests served between two looks at the clock, and about how long one takes, seconds.
_CHUNK, _SECONDS_A_REQUEST = 1 << 16, 2e-7


class _Memory(NamedTuple):
    """Blocks in use and holes, each with its neighbours by address and in the list of its class."""

    begin: Ints
    end: Ints
    before: Ints
    after: Ints
    previous: Ints
    following: Ints
    is_hole: NDArray[np.bool_]
    spare: Ints
    first: Ints
    state: Ints


@register("segregated_fit")
def segregated_fit(problem: Problem, deadline: Deadline) -> Ints:
    """By first step; each in a hole of about its size.

    Gaps are not used, and all buffers lie above the fixed ones. O(n log n), for sorting.
    """
    if not prepare(loops.MANY_BUFFERS, deadline):
        raise TimeUpError
    from cpplan.packing.heuristics import segregated_fit_kernel as kernel

    offset, block = np.zeros(len(problem), np.int64), np.empty(len(problem), np.int64)
    asks = np.ones(len(problem), bool)
    for row, at in problem.fixed.items():
        offset[row], asks[row] = at, False
    top = max((at + int(problem.size[row]) for row, at in problem.fixed.items()), default=0)
    order = np.argsort(problem.lower, kind="stable")
    order = order[asks[order]]
    ending = np.argsort(problem.upper, kind="stable")
    ending = ending[asks[ending]]
    memory = _empty(len(order), top)
    for start in range(0, len(order), _CHUNK):
        requests = order[start : start + _CHUNK]
        deadline.check(_SECONDS_A_REQUEST * len(requests))
        kernel.serve(
            memory, requests, ending, problem.lower, problem.upper,
            problem.size, problem.alignment, offset, block,
        )  # fmt: skip
    return offset


def _empty(requests: int, top: int) -> _Memory:
    """Memory without blocks, with room for all blocks that the requests can make."""
    from cpplan.packing.heuristics import segregated_fit_kernel as kernel

    # Holes are never adjacent and never last, so that blocks are at most twice the requests.
    blocks = 2 * requests + 1
    begin, end, before, after, previous, following, spare = (
        np.empty(blocks, np.int64) for _ in range(7)
    )
    state = np.zeros(6, np.int64)
    state[kernel.TOP], state[kernel.LAST] = top, -1
    first = np.full(kernel.hole_class(np.iinfo(np.int64).max) + 1, -1, np.int64)
    holes = np.zeros(blocks, bool)
    return _Memory(begin, end, before, after, previous, following, holes, spare, first, state)
