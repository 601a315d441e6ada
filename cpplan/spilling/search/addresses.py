"""Gaps and offsets chosen together, by evicting the buffers in the way of the next one.

Op by op, each operand is placed at the address where evicting the buffers in its way costs least.
So the result is always a valid packing. The search begins with gaps that are dropped anyway, and
with an address wanted for each access; simulated annealing changes both. Most changes keep one more
gap, at the address where the evictions cost least.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cpplan.model.problem import Ints
from cpplan.runtime.compiled import prepare
from cpplan.runtime.deadline import Deadline
from cpplan.spilling.loops import ADDRESSES
from cpplan.spilling.problem import Flags, SpillProblem
from cpplan.spilling.search.address_arrays import Packing, flatten_problem, new_packing

# Number of packings that the search by address changes at first, and share of its time for that.
_ADDRESS_STATES = 4
_ADDRESS_STATES_SHARE = 0.15
# The cost of an eviction is divided by the steps to the next access, raised to this power.
_ADDRESS_POWERS = (0.0, 0.5, 1.0)
# The same power where a packing is changed.
_ADDRESS_CHANGE_POWER = 0.5
# Most turns of one cooling.
_ADDRESS_TURNS = 10_000
# Temperatures, as parts of the median cost of a reload: at the start of each cooling, and at its
# end. A change may be worse by about the temperature.
_ADDRESS_HEATS = (0.3, 0.1)
_COOLEST = 0.01

NAME = "evictions by address"
_NEVER = 1 << 60
# Deterministic seconds of one simulation per access and per buffer in the pool.
_RATE = 8e-9
# Average work of a change, as a part of a whole simulation.
_OF_A_RUN = 0.4
# Random numbers drawn for each change.
_DRAWS = 7
# Seconds between two checks of the deadline; most changes between them.
_BETWEEN_LOOKS, _TURN = 0.1, 100


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Gaps kept, the cost of the moves, and the offset of each access in the fast pool."""

    kept: Flags
    paid: int
    places: Ints


# Gaps kept, and the address wanted for each access; ``None`` to choose addresses by a rule.
Start = tuple[Flags, "Ints | None"]


class AddressSearch:
    """A search for gaps and offsets together at one order.

    Parameters
    ----------
    problem
        The problem. If something without an access lies in the fast pool, the search finds
        nothing: it has no address here.
    capacity
        Capacity of the fast pool, without padding.
    seed
        Seed of the random choices.
    """

    def __init__(self, problem: SpillProblem, capacity: int, seed: int):
        self.problem = problem
        self.flat = flatten_problem(problem, capacity)
        self.rng = np.random.default_rng(seed)
        self._power = _ADDRESS_CHANGE_POWER
        self._unit = problem.typical_reload
        room = np.minimum(problem.capacity, problem.load(problem.all_kept())).mean()
        live = float(room) / max(1.0, float(problem.room.mean() if len(problem.room) else 1))
        self._work = _RATE * len(problem.access_step) * (10.0 + live)
        self._work += _RATE * 4 * len(problem.gap_lower)
        self._turn = min(_TURN, max(1, int(_BETWEEN_LOOKS / max(self._work, 1e-9))))

    def place(self, kept: Flags, wanted: Ints, power: float) -> Placed | None:
        """Packing that keeps as many of these gaps as it can; ``None`` if an op has no room."""
        from cpplan.spilling.search.address_kernel import simulate

        drop, places = ~kept, np.zeros(len(self.problem.access_step), np.int64)
        paid = int(simulate(self.flat, drop, wanted, power, places))
        return None if paid >= _NEVER else Placed(~drop, paid, places)

    def improve(self, packing: Packing, best: Placed, heat: float, deadline: Deadline) -> Placed:
        """Best packing after some changes; each may be worse by about ``heat``."""
        from cpplan.spilling.search.address_change_kernel import improve

        deadline.spend(_OF_A_RUN * self._work * self._turn)
        kept, places = best.kept.copy(), best.places.copy()
        draws = self.rng.random((self._turn, _DRAWS))
        paid = improve(self.flat, packing, self._power, draws, heat, best.paid, kept, places)
        if paid >= best.paid:
            return best
        # A simulation with the gaps and offsets of a valid packing gives the same packing again.
        placed = self.place(kept, places, self._power)
        return best if placed is None or placed.paid >= best.paid else placed

    def place_first(self, starts: Sequence[Start], deadline: Deadline) -> Placed | None:
        """Best packing found from some starts, without any change."""
        found = self._begin(starts, deadline)
        return min((placed for placed, _ in found), key=lambda one: one.paid, default=None)

    def run(self, starts: Sequence[Start], deadline: Deadline, target: int) -> Placed | None:
        """Best packing found from some starts within the deadline.

        At first, several packings are changed for a while. Then the best one is changed by
        simulated annealing, in several coolings.
        """
        found = self._begin(starts, deadline)
        if not found:
            return None
        found.sort(key=lambda pair: pair[0].paid)
        best = found[0][0]
        packings = [self.settle(*pair) for pair in found[:_ADDRESS_STATES]]
        begun = deadline.share(_ADDRESS_STATES_SHARE)
        turn = 0
        while best.paid > target and not begun.expired() and turn < _ADDRESS_TURNS:
            packing = packings[turn % len(packings)]
            best = self.improve(packing, best, _COOLEST * self._unit, begun)
            turn += 1
        cycles = len(_ADDRESS_HEATS)
        for number, hottest in enumerate(_ADDRESS_HEATS):
            share = deadline.share(1 / (cycles - number))
            whole = share.remaining()
            packing = self.settle(best, best.places)
            for turn in range(_ADDRESS_TURNS):
                if best.paid <= target or share.expired():
                    break
                past = turn / _ADDRESS_TURNS
                if not share.endless:
                    past = max(past, 1 - share.remaining() / whole)
                heat = hottest * (_COOLEST / hottest) ** past
                best = self.improve(packing, best, heat * self._unit, share)
        return best

    def settle(self, placed: Placed, wanted: Ints) -> Packing:
        """A packing prepared for changes, with saved states of the pool."""
        from cpplan.spilling.search.address_change_kernel import settle

        packing = new_packing(self.problem, ~placed.kept, wanted)
        settle(self.flat, packing, self._power)
        return packing

    def _begin(self, starts: Sequence[Start], deadline: Deadline) -> list[tuple[Placed, Ints]]:
        """Packings from each start with wanted addresses; at least one is tried if time is up."""
        if self.problem.base.any() or not prepare(ADDRESSES, deadline):
            return []
        found: list[tuple[Placed, Ints]] = []
        for kept, known in starts:
            for power in _ADDRESS_POWERS:
                if found and deadline.expired():
                    break
                deadline.spend(self._work)
                wanted = self._wanted(kept) if known is None else known.copy()
                placed = self.place(kept, wanted, power)
                if placed is not None:
                    wanted = np.where(placed.places >= 0, placed.places, wanted)
                    found.append((placed, wanted))
        return found

    def _wanted(self, kept: Flags) -> Ints:
        """Wanted addresses: the lowest for accesses before long kept gaps, else the highest."""
        problem = self.problem
        length = problem.gap_upper - problem.gap_lower
        wanted: Ints = np.full(len(problem.access_step), self.flat.capacity)
        if len(length):
            long = kept & (problem.gap_before >= 0) & (length > np.median(length))
            wanted[problem.gap_before[long]] = 0
        return wanted
