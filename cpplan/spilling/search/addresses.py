"""Gaps and offsets chosen together, by evicting the buffers in the way of the next one.

Op by op, each operand is placed at the address where evicting the buffers in its way costs least.
So the result is always a valid packing. Gaps that are dropped anyway, and an address wanted for
each access, are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cpplan.model.problem import Ints
from cpplan.model.spill_problem import Flags, SpillProblem
from cpplan.runtime.compiled import prepare
from cpplan.runtime.deadline import Deadline
from cpplan.spilling.loops import ADDRESSES
from cpplan.spilling.search.address_arrays import flatten_problem

# The cost of an eviction is divided by the steps to the next access, raised to this power.
_ADDRESS_POWERS = (0.0, 0.5, 1.0)

NAME = "evictions by address"
_NEVER = 1 << 60
# Deterministic seconds of one simulation per access and per buffer in the pool.
_RATE = 8e-9


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Gaps kept, the cost of the moves, and the offset of each access in the fast pool."""

    kept: Flags
    paid: int
    places: Ints


class AddressSearch:
    """A search for gaps and offsets together at one order.

    Parameters
    ----------
    problem
        The problem. If something without an access lies in the fast pool, the search finds
        nothing: it has no address here.
    capacity
        Capacity of the fast pool, without padding.
    """

    def __init__(self, problem: SpillProblem, capacity: int):
        self.problem = problem
        self.flat = flatten_problem(problem, capacity)
        room = np.minimum(problem.capacity, problem.load(problem.all_kept())).mean()
        live = float(room) / max(1.0, float(problem.room.mean() if len(problem.room) else 1))
        self._work = _RATE * len(problem.access_step) * (10.0 + live)
        self._work += _RATE * 4 * len(problem.gap_lower)

    def place(self, kept: Flags, wanted: Ints, power: float) -> Placed | None:
        """Packing that keeps as many of these gaps as it can; ``None`` if an op has no room."""
        from cpplan.spilling.search.address_kernel import simulate

        drop, places = ~kept, np.zeros(len(self.problem.access_step), np.int64)
        paid = int(simulate(self.flat, drop, wanted, power, places))
        return None if paid >= _NEVER else Placed(~drop, paid, places)

    def place_best(self, choices: Sequence[Flags], deadline: Deadline) -> Placed | None:
        """Cheapest packing of some choices of gaps; at least one is tried if time is up."""
        if self.problem.base.any() or not prepare(ADDRESSES, deadline):
            return None
        best: Placed | None = None
        for kept in choices:
            wanted = self._wanted(kept)
            for power in _ADDRESS_POWERS:
                if best is not None and deadline.expired():
                    return best
                deadline.spend(self._work)
                placed = self.place(kept, wanted, power)
                if placed is not None and (best is None or placed.paid < best.paid):
                    best = placed
        return best

    def _wanted(self, kept: Flags) -> Ints:
        """Wanted addresses: the lowest for accesses before long kept gaps, else the highest."""
        problem = self.problem
        length = problem.gap_upper - problem.gap_lower
        wanted: Ints = np.full(len(problem.access_step), self.flat.capacity)
        if len(length):
            long = kept & (problem.gap_before >= 0) & (length > np.median(length))
            wanted[problem.gap_before[long]] = 0
        return wanted
