"""Spilling problem as data: accesses of storages in one order, and the gaps between them.

Every op of the order is a step. Between two accesses of a storage lies a *gap*. Inputs and
constants have one more gap, before their first access; storages kept to the end have one more,
after their last access. A plan *keeps* a storage in the fast pool through a gap, or *drops* it
there. Everything else follows from these choices:

* At an access, the storage is in the fast pool if the op must have it there, or if it is kept
  through the gap before or the gap after. Otherwise the op accesses it in the slow pool.
* After a dropped gap, the storage is reloaded, or read in the slow pool.
* If any of its gaps is dropped, the storage is spilled once, right after it is written. An input
  that is not kept through its first gap begins in the slow pool and is not spilled.
* A result that nothing reads and nobody wants has an empty gap after its only access, if its op
  may write it in either pool. Kept, it is written in the fast pool, has room there during the op,
  and costs nothing. Dropped, its op writes it in the slow pool, for the bytes of a spill.
* A storage that cannot move, or only lie in the fast pool, is kept through all its gaps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from cpplan.model.problem import Ints
from cpplan.model.tensor import Storage

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class SpillProblem:
    """Accesses and gaps of the storages in one order, and the room that they take.

    Attributes
    ----------
    names
        The ``n`` storages with bytes and an access.
    size, room, alignment
        Bytes without and with padding in the fast pool, and alignment there, shape ``(n,)``.
    spill_cost, reload_cost
        Cost of writing each storage to the slow pool and of reading it back, shape ``(n,)``: its
        bytes, or the cycles that the move takes if time is minimised; 0 if it cannot move.
    movable
        True for storages that may move if their pools allow it. Shape ``(n,)``.
    written
        True for storages that an op writes; the caller provides the others. Shape ``(n,)``.
    stay
        True for inputs kept to the end: they are kept through all gaps or through none. Shape
        ``(n,)``.
    lasts
        True for storages that must lie in a pool after the last op. Shape ``(n,)``.
    access_storage, access_step, access_bytes, access_cost, access_near
        For every access: its storage; its step; bytes read or written if it happens in the slow
        pool; the cost of that; true if it must happen in the fast pool. Accesses are sorted by
        storage, then by step.
    gap_storage, gap_lower, gap_upper
        Storage of every gap, and the steps ``[lower, upper)`` between its two accesses.
    gap_before, gap_after
        Accesses before and after every gap, or -1. Without an access after it, a gap lasts to the
        end, or is the empty gap of a result that nothing reads.
    gap_fixed
        1 if the gap must be kept, 0 if it must be dropped, -1 if either is allowed.
    credit_step, credit_room, credit_access
        A *credit* is room saved at a step because an output is written over an input: its step,
        its room, and the access that writes the output.
    over_credit, over_access, over_gap
        For every input that may be overwritten: its credit, the access that reads it, and the gap
        after that access (or -1), which must then be dropped.
    base
        Bytes taken at each step by storages without an access, shape ``(steps,)``.
    capacity
        Capacity of the fast pool, padded as the rooms are.
    ops
        Name of the op of each step.
    storages
        All storages of the graph, also those without an access.
    """

    names: tuple[str, ...]
    size: Ints
    room: Ints
    alignment: Ints
    spill_cost: Ints
    reload_cost: Ints
    movable: Flags
    written: Flags
    stay: Flags
    lasts: Flags
    access_storage: Ints
    access_step: Ints
    access_bytes: Ints
    access_cost: Ints
    access_near: Flags
    gap_storage: Ints
    gap_lower: Ints
    gap_upper: Ints
    gap_before: Ints
    gap_after: Ints
    gap_fixed: Ints
    credit_step: Ints
    credit_room: Ints
    credit_access: Ints
    over_credit: Ints
    over_access: Ints
    over_gap: Ints
    base: Ints
    capacity: int
    ops: tuple[str, ...]
    storages: Mapping[str, Storage] = field(repr=False)

    @property
    def steps(self) -> int:
        """Number of steps."""
        return len(self.base)

    @property
    def typical_reload(self) -> float:
        """Median cost of a reload."""
        costs = self.reload_cost[self.movable]
        return float(np.median(costs)) if len(costs) else 0.0

    def near(self, kept: Flags) -> Flags:
        """For each access, true if it happens in the fast pool with these gaps kept."""
        near: Flags = self.access_near.copy()
        before, after = self.gap_before[kept], self.gap_after[kept]
        near[before[before >= 0]] = True
        near[after[after >= 0]] = True
        return near

    def load(self, kept: Flags) -> Ints:
        """Bytes in the fast pool at each step with these gaps kept."""
        near = self.near(kept)
        load: Ints = self.base.copy()
        np.add.at(load, self.access_step[near], self.room[self.access_storage[near]])
        change = np.zeros(self.steps + 1, np.int64)
        room = self.room[self.gap_storage[kept]]
        np.add.at(change, self.gap_lower[kept], room)
        np.subtract.at(change, self.gap_upper[kept], room)
        load += np.cumsum(change)[:-1]
        used = self.credits_used(kept, near)
        np.subtract.at(load, self.credit_step[used], self.credit_room[used])
        return load

    def credits_used(self, kept: Flags, near: Flags) -> Flags:
        """Credits that save room: output and input are in the fast pool, and the input dies."""
        dropped = (self.over_gap < 0) | ~kept[self.over_gap] if len(kept) else self.over_gap < 0
        usable = near[self.over_access] & dropped
        found: Flags = np.zeros(len(self.credit_step), bool)
        found[self.over_credit[usable]] = True
        found &= near[self.credit_access]
        return found

    def paid(self, kept: Flags) -> Ints:
        """Cost of the moves of each storage with these gaps kept, shape ``(n,)``."""
        paid: Ints = np.zeros(len(self.names), np.int64)
        near = self.near(kept)
        again = ~kept & (self.gap_after >= 0)
        after, storage = self.gap_after[again], self.gap_storage[again]
        np.add.at(
            paid, storage, np.where(near[after], self.reload_cost[storage], self.access_cost[after])
        )
        paid += np.where(self.spilled(kept), self.spill_cost, 0)
        return paid

    @property
    def grain(self) -> int:
        """Greatest number known to divide the cost of every plan."""
        costs = self.spill_cost.tolist(), self.reload_cost.tolist(), self.access_cost.tolist()
        return math.gcd(*(cost for several in costs for cost in several)) or 1

    def spilled(self, kept: Flags) -> Flags:
        """For each storage, true if it is written to the slow pool, shape ``(n,)``."""
        dropped = np.zeros(len(self.names), bool)
        dropped[self.gap_storage[~kept]] = True
        begins_slow = np.zeros(len(self.names), bool)
        begins_slow[self.gap_storage[~kept & (self.gap_before < 0)]] = True
        # An op may also write a storage in the slow pool itself, without a dropped gap.
        near = self.near(kept)
        first = np.full(len(self.names), -1, np.int64)
        first[self.access_storage[::-1]] = np.arange(len(near), dtype=np.int64)[::-1]
        away = ~near[first] if len(near) else np.zeros(0, bool)
        found: Flags = np.where(self.written, dropped | away, dropped & ~begins_slow)
        return found

    def all_kept(self) -> Flags:
        """The choice that keeps every gap that may be kept."""
        kept: Flags = self.gap_fixed != 0
        return kept

    def least_load(self) -> Ints:
        """Bytes that each step needs in the fast pool, whatever is dropped."""
        return self.load(self.gap_fixed == 1)

    def held_apart(self) -> SpillProblem:
        """The problem in which no output is written over an input."""
        none: Ints = np.zeros(0, np.int64)
        return replace(
            self, credit_step=none, credit_room=none, credit_access=none, over_credit=none,
            over_access=none, over_gap=none,
        )  # fmt: skip
