"""Arrays of the compiled loops of ``AddressSearch``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpplan.model.problem import Ints
from cpplan.model.spill_problem import Flags, SpillProblem

Amounts = NDArray[np.float64]


class PoolState(NamedTuple):
    """Scratch: blocks in the fast pool in order of offsets, and the state of each storage.

    ``filled`` holds the number of blocks, and the number of gaps in ``dropped``: those dropped in
    addition to the given ones.
    """

    filled: Ints
    blocks: Ints
    offset: Ints
    length: Ints
    there: Flags
    pinned: Ints
    gap: Ints
    used: Ints
    drops: Ints
    slow: Flags
    losses: Amounts
    dropped: Ints


class Addresses(NamedTuple):
    """Arrays of a spilling problem for the compiled loops; see ``SpillProblem``.

    ``before`` and ``after`` are the gaps before and after each access, and ``credit_of`` is its
    credit; each is -1 if there is none. ``by_end`` lists storages by the length of their first gap,
    the longest first.
    """

    room: Ints
    align: Ints
    spill: Ints
    reload: Ints
    written: Flags
    stay: Flags
    access_storage: Ints
    access_step: Ints
    near: Flags
    cross: Ints
    before: Ints
    after: Ints
    first_access: Ints
    gap_storage: Ints
    gap_lower: Ints
    gap_upper: Ints
    gap_before: Ints
    gap_after: Ints
    fixed: Ints
    first_gap: Ints
    step_start: Ints
    step_access: Ints
    credit_of: Ints
    over_start: Ints
    over_access: Ints
    over_gap: Ints
    by_end: Ints
    capacity: int
    state: PoolState


def flatten_problem(problem: SpillProblem, capacity: int) -> Addresses:
    """The arrays of a spilling problem."""
    accesses, gaps, storages = (
        len(problem.access_step), len(problem.gap_lower), len(problem.names),
    )  # fmt: skip
    before, after = np.full(accesses, -1, np.int64), np.full(accesses, -1, np.int64)
    numbers = np.arange(gaps, dtype=np.int64)
    there = problem.gap_after >= 0
    before[problem.gap_after[there]] = numbers[there]
    there = problem.gap_before >= 0
    after[problem.gap_before[there]] = numbers[there]
    bounds = np.arange(storages + 1)
    first_gap = np.searchsorted(problem.gap_storage, bounds).astype(np.int64)
    # Operands of one op are sorted by size, the largest first.
    room = problem.room[problem.access_storage]
    order = np.lexsort((-room, problem.access_step)).astype(np.int64)
    steps = np.arange(problem.steps + 1)
    credit_of = np.full(accesses, -1, np.int64)
    credit_of[problem.credit_access] = np.arange(len(problem.credit_access))
    length = np.zeros(storages, np.int64)
    brought = np.flatnonzero((first_gap[1:] > first_gap[:-1]) & ~problem.written)
    length[brought] = problem.gap_upper[first_gap[:-1][brought]]
    return Addresses(
        room=problem.size,
        align=problem.alignment,
        spill=problem.spill_cost,
        reload=problem.reload_cost,
        written=problem.written,
        stay=problem.stay,
        access_storage=problem.access_storage.copy(),
        access_step=problem.access_step.copy(),
        near=problem.access_near.copy(),
        cross=problem.access_cost.copy(),
        before=before,
        after=after,
        first_access=np.searchsorted(problem.access_storage, bounds).astype(np.int64),
        gap_storage=problem.gap_storage.copy(),
        gap_lower=problem.gap_lower.copy(),
        gap_upper=problem.gap_upper.copy(),
        gap_before=problem.gap_before.copy(),
        gap_after=problem.gap_after.copy(),
        fixed=problem.gap_fixed.copy(),
        first_gap=first_gap,
        step_start=np.searchsorted(problem.access_step[order], steps).astype(np.int64),
        step_access=order,
        credit_of=credit_of,
        over_start=np.searchsorted(
            problem.over_credit, np.arange(len(problem.credit_access) + 1)
        ).astype(np.int64),
        over_access=problem.over_access.copy(),
        over_gap=problem.over_gap.copy(),
        by_end=np.argsort(-length, kind="stable").astype(np.int64),
        capacity=capacity,
        state=_empty_pool(storages, gaps),
    )


def _empty_pool(storages: int, gaps: int) -> PoolState:
    """State of a fast pool that holds nothing yet."""
    return PoolState(
        filled=np.zeros(2, np.int64),
        blocks=np.zeros(storages, np.int64),
        offset=np.zeros(storages, np.int64),
        length=np.zeros(storages, np.int64),
        there=np.zeros(storages, bool),
        pinned=np.zeros(storages, np.int64),
        gap=np.zeros(storages, np.int64),
        used=np.zeros(storages, np.int64),
        drops=np.zeros(storages, np.int64),
        slow=np.zeros(storages, bool),
        losses=np.zeros(storages),
        dropped=np.zeros(gaps, np.int64),
    )
