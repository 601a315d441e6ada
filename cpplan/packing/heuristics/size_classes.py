"""Size classes: buffers of similar size share slots of equal size; needs no compiled loops.

A slot is as large as the largest buffer of its class, and a class has one slot for each of the most
buffers live at once. The slot freed first is taken first, so that the ``k``-th buffer to start
follows the ``(k - slots)``-th to end. No simulation is needed: whole columns are sorted and looked
up. Allocators call this segregated storage (Wilson et al., "Dynamic storage allocation: a survey
and critical review", 1995).

Classes may be fullest at different steps, so that the arena is a few times the live bytes. It takes
about a microsecond a buffer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cpplan.model.distinct import distinct
from cpplan.model.problem import Ints, Problem
from cpplan.packing.heuristics.registered import register
from cpplan.packing.tuning import active
from cpplan.runtime.deadline import Deadline

# Sizes are below 2**62.
_DOUBLINGS = 62
_SECONDS_A_BUFFER = 1e-6


@register("size_classes")
def size_classes(problem: Problem, deadline: Deadline) -> Ints:
    """Slots for classes of size, in the division that needs the fewest bytes.

    Gaps are not used, and all buffers lie above the fixed ones. O(n log n), for sorting.
    """
    offset, asks = np.zeros(len(problem), np.int64), problem.size > 0
    for row, at in problem.fixed.items():
        offset[row], asks[row] = at, False
    bottom = max((at + int(problem.size[row]) for row, at in problem.fixed.items()), default=0)
    rows = np.flatnonzero(asks)
    if not len(rows):
        return offset
    size, alignment = problem.size[rows], problem.alignment[rows]
    # Ends come before starts of the same step, so that slots are freed before they are taken.
    events = np.concatenate([2 * problem.upper[rows], 2 * problem.lower[rows] + 1])
    by_time = np.argsort(events, kind="stable")
    step, doublings = np.searchsorted(distinct(alignment), alignment), np.log2(size)
    best = None
    for classes in active().size_classes:
        if best is not None and deadline.remaining() < _SECONDS_A_BUFFER * len(rows):
            break
        deadline.check(_SECONDS_A_BUFFER * len(rows))
        # All buffers of a class have the same alignment.
        number = step * int(classes * _DOUBLINGS + 1) + (classes * doublings).astype(np.int64)
        found = _divide(size, alignment, np.searchsorted(distinct(number), number), by_time)
        if best is None or found.bytes < best.bytes:
            best = found
    assert best is not None
    offset[rows] = _place(best, bottom)
    return offset


class _Division(NamedTuple):
    """Class of each buffer; number, size and alignment of the slots of each class.

    ``by_start`` and ``by_end`` list the buffers class by class.
    """

    number: Ints
    slots: Ints
    room: Ints
    step: Ints
    by_start: Ints
    by_end: Ints

    @property
    def bytes(self) -> int:
        return int((self.slots * self.room).sum())


def _divide(size: Ints, alignment: Ints, number: Ints, by_time: Ints) -> _Division:
    count = len(size)
    # Numpy sorts 16-bit integers in linear time.
    events = by_time[np.argsort(number.astype(np.uint16)[by_time % count], kind="stable")]
    starts = events >= count
    members = np.bincount(number)
    live = np.cumsum(np.where(starts, 1, -1))
    slots = np.maximum.reduceat(live, 2 * (np.cumsum(members) - members))
    room, step = np.zeros(len(slots), np.int64), np.empty(len(slots), np.int64)
    np.maximum.at(room, number, size)
    step[number] = alignment
    room = -(-room // step) * step
    return _Division(number, slots, room, step, events[starts] - count, events[~starts])


def _place(division: _Division, bottom: int) -> Ints:
    """Offsets of the buffers: classes are stacked, and slots within each class."""
    number, slots, room, step, by_start, by_end = division
    turn = np.arange(len(number))
    slot = turn - np.searchsorted(number[by_start], number[by_start])
    needed = slots[number[by_start]]
    # Follow each buffer to the former owner of its slot, and on to the slot's first owner.
    before, slot_of = np.empty(len(number), np.int64), np.empty(len(number), np.int64)
    before[by_start] = np.where(slot < needed, by_start, by_end[turn - needed])
    slot_of[by_start] = slot
    while True:
        earlier = before[before]
        if (earlier == before).all():
            break
        before = earlier
    begin, at = np.empty(len(slots), np.int64), bottom
    for k, (length, unit) in enumerate(zip((slots * room).tolist(), step.tolist(), strict=True)):
        begin[k] = -(-at // unit) * unit
        at = int(begin[k]) + length
    return begin[number] + slot_of[before] * room[number]
