"""Gaps and offsets chosen together: evictions of whatever lies in the way of the next buffer.

Op by op, each operand is put where the buffers that must leave cost least, so that what comes out
is packed. Gaps known to be dropped leave their room from the start; simulated annealing changes
them, and the addresses near which buffers are put. Most changes keep one more gap, at the address
where what it drives out costs least.
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
from cpplan.spilling.tuning import active

NAME = "evictions by address"
_NEVER = 1 << 60
# Deterministic seconds of one run, for each access and each buffer that lies in the pool.
_RATE = 8e-9
# Part of a run that a change needs on average.
_OF_A_RUN = 0.4
# Draws of random numbers for each change.
_DRAWS = 7
# Seconds between two looks at the deadline, and changes at most.
_BETWEEN_LOOKS, _TURN = 0.1, 100


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Gaps kept, what their moves cost, and the offset of each access in the fast pool."""

    kept: Flags
    paid: int
    places: Ints


# Gaps kept, and the address wanted for each access, if there is one.
Start = tuple[Flags, "Ints | None"]


class AddressSearch:
    """A search for gaps and offsets together at one order.

    Parameters
    ----------
    problem
        The problem. Nothing is found if bytes in the fast pool cannot move: they have no address.
    align
        Alignment of each storage in the fast pool, bytes.
    capacity
        Of the fast pool, as it is: ends need no padding.
    seed
        For random choices.
    """

    def __init__(self, problem: SpillProblem, align: Sequence[int], capacity: int, seed: int):
        self.problem = problem
        self.flat = flatten_problem(problem, align, capacity)
        self.rng = np.random.default_rng(seed)
        self._power = active().address_change_power
        self._unit = float(np.median(problem.reload_cost)) if len(problem.names) else 0.0
        room = np.minimum(problem.capacity, problem.load(problem.all_kept())).mean()
        live = float(room) / max(1.0, float(problem.room.mean() if len(problem.room) else 1))
        self._work = _RATE * len(problem.access_step) * (10.0 + live)
        self._work += _RATE * 4 * len(problem.gap_lower)
        self._turn = min(_TURN, max(1, int(_BETWEEN_LOOKS / max(self._work, 1e-9))))

    def place(self, kept: Flags, wanted: Ints, power: float) -> Placed | None:
        """A packed choice from gaps that it would keep; ``None`` if an op found no room."""
        from cpplan.spilling.search.address_kernel import simulate

        drop, places = ~kept, np.zeros(len(self.problem.access_step), np.int64)
        paid = int(simulate(self.flat, drop, wanted, power, places))
        return None if paid >= _NEVER else Placed(~drop, paid, places)

    def improve(self, packing: Packing, best: Placed, heat: float, deadline: Deadline) -> Placed:
        """The best packed choice after some changes, each worse by about the heat at most."""
        from cpplan.spilling.search.address_change_kernel import improve

        deadline.spend(_OF_A_RUN * self._work * self._turn)
        kept, places = best.kept.copy(), best.places.copy()
        draws = self.rng.random((self._turn, _DRAWS))
        paid = improve(self.flat, packing, self._power, draws, heat, best.paid, kept, places)
        if paid >= best.paid:
            return best
        # From gaps and addresses that are packed come the same.
        placed = self.place(kept, places, self._power)
        return best if placed is None or placed.paid >= best.paid else placed

    def place_first(self, starts: Sequence[Start], deadline: Deadline) -> Placed | None:
        """The best packed choice that some choices lead to without any change."""
        found = self._begin(starts, deadline)
        return min((placed for placed, _ in found), key=lambda one: one.paid, default=None)

    def run(self, starts: Sequence[Start], deadline: Deadline, target: int) -> Placed | None:
        """The best packed choice that some choices lead to within the deadline.

        A few of them are changed for a while; then the best is, again and again, while it is
        allowed to become worse by less and less.
        """
        tuning = active()
        found = self._begin(starts, deadline)
        if not found:
            return None
        found.sort(key=lambda pair: pair[0].paid)
        best = found[0][0]
        packings = [self.settle(*pair) for pair in found[: tuning.address_states]]
        begun = deadline.share(tuning.address_states_share)
        turn = 0
        while best.paid > target and not begun.expired() and turn < tuning.address_turns:
            packing = packings[turn % len(packings)]
            best = self.improve(packing, best, tuning.coolest * self._unit, begun)
            turn += 1
        cycles = len(tuning.address_heats)
        for number, hottest in enumerate(tuning.address_heats):
            share = deadline.share(1 / (cycles - number))
            whole = share.remaining()
            packing = self.settle(best, best.places)
            for turn in range(tuning.address_turns):
                if best.paid <= target or share.expired():
                    break
                past = turn / tuning.address_turns
                if not share.endless:
                    past = max(past, 1 - share.remaining() / whole)
                heat = hottest * (tuning.coolest / hottest) ** past
                best = self.improve(packing, best, heat * self._unit, share)
        return best

    def settle(self, placed: Placed, wanted: Ints) -> Packing:
        """A packed choice with the blocks that lie in the pool before every few steps."""
        from cpplan.spilling.search.address_change_kernel import settle

        packing = new_packing(self.problem, ~placed.kept, wanted)
        settle(self.flat, packing, self._power)
        return packing

    def _begin(self, starts: Sequence[Start], deadline: Deadline) -> list[tuple[Placed, Ints]]:
        """Packed choices from each start, and addresses wanted; one even if time is up."""
        if self.problem.base.any() or not prepare(ADDRESSES, deadline):
            return []
        found: list[tuple[Placed, Ints]] = []
        for kept, known in starts:
            for power in active().address_powers:
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
        """Addresses wanted: the lowest for what is kept long, the highest for the rest."""
        problem = self.problem
        length = problem.gap_upper - problem.gap_lower
        wanted: Ints = np.full(len(problem.access_step), self.flat.capacity)
        long = kept & (problem.gap_before >= 0) & (length > np.median(length))
        wanted[problem.gap_before[long]] = 0
        return wanted
