"""Gaps and offsets chosen together: evictions of whatever lies in the way of the next buffer.

Op by op, each operand is put where the buffers that must leave cost least, so that what comes out
is packed. Gaps known to be dropped leave their room from the start; a search changes them, and the
addresses near which buffers are put, and keeps what costs no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cpplan.model.problem import Ints
from cpplan.runtime.compiled import prepare
from cpplan.runtime.deadline import Deadline
from cpplan.spilling.loops import ADDRESSES
from cpplan.spilling.problem import Flags, SpillProblem
from cpplan.spilling.tuning import active

NAME = "evictions by address"
_NEVER = 1 << 60
# Deterministic seconds of one run, for each access and each buffer that lies in the pool.
_RATE = 8e-9
# Draws of random numbers for each change.
_DRAWS = 6
# Seconds between two looks at the deadline, and changes at most.
_BETWEEN_LOOKS, _TURN = 0.1, 100
# Turns at most: nothing was found for long then.
_MOST_TURNS = 100_000


class PoolState(NamedTuple):
    """Scratch: blocks in the fast pool in order of offsets, and what is known of each storage."""

    filled: Ints
    blocks: Ints
    offset: Ints
    length: Ints
    there: Flags
    pinned: Ints
    gap: Ints
    current: Ints


class Addresses(NamedTuple):
    """A spilling problem as the compiled loops read it; see ``SpillProblem``.

    ``before`` and ``after`` are the gaps beside each access, ``credit_of`` its credit, or -1;
    ``by_end`` lists storages by the length of their first gap.
    """

    room: Ints
    align: Ints
    spill: Ints
    reload: Ints
    written: Flags
    stay: Flags
    access_storage: Ints
    near: Flags
    cross: Ints
    before: Ints
    after: Ints
    first_access: Ints
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


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Gaps kept, what their moves cost, and the offset of each access in the fast pool."""

    kept: Flags
    paid: int
    places: Ints


# Gaps kept, and the address wanted for each access, if there is one.
Start = tuple[Flags, "Ints | None"]


@dataclass(slots=True, eq=False)
class _State:
    """Gaps dropped and wanted addresses from which the next changes are made, and the cost."""

    drop: Flags
    wanted: Ints
    power: float
    paid: int


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
        self.flat = _flatten(problem, align, capacity)
        self.rng = np.random.default_rng(seed)
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

    def improve(self, state: _State, best: Placed, slack: float) -> Placed:
        """The best packed choice after some changes to a state."""
        from cpplan.spilling.search.address_kernel import improve

        kept, places = best.kept.copy(), best.places.copy()
        draws = self.rng.random((self._turn, _DRAWS))
        state.paid, paid = improve(
            self.flat, state.drop, state.wanted, state.power, state.paid, draws, slack, best.paid,
            kept, places,
        )  # fmt: skip
        return Placed(kept, int(paid), places) if paid < best.paid else best

    def place_first(self, starts: Sequence[Start], deadline: Deadline) -> Placed | None:
        """The best packed choice that some choices lead to without any change."""
        found = self._begin(starts, deadline)
        return min((placed for placed, _ in found), key=lambda one: one.paid, default=None)

    def run(self, starts: Sequence[Start], deadline: Deadline, target: int) -> Placed | None:
        """The best packed choice that some choices lead to within the deadline."""
        tuning = active()
        found = self._begin(starts, deadline)
        if not found:
            return None
        found.sort(key=lambda pair: pair[0].paid)
        best = found[0][0]
        states = [state for _, state in found[: tuning.address_states]]
        turn = 0
        while best.paid > target and turn < _MOST_TURNS:
            turn += 1
            for state in states:
                if deadline.expired():
                    return best
                deadline.spend(self._work * self._turn)
                slack = float(self.rng.choice(tuning.address_slacks))
                best = self.improve(state, best, slack)
            if len(states) > 1 and turn % tuning.address_patience == 0:
                states.sort(key=lambda state: state.paid)
                states.pop()
        return best

    def _begin(self, starts: Sequence[Start], deadline: Deadline) -> list[tuple[Placed, _State]]:
        """Packed choices from each start, and states to change; one even if time is up."""
        if self.problem.base.any() or not prepare(ADDRESSES, deadline):
            return []
        found: list[tuple[Placed, _State]] = []
        for kept, known in starts:
            for power in active().address_powers:
                if found and deadline.expired():
                    break
                deadline.spend(self._work)
                wanted = self._wanted(kept) if known is None else known.copy()
                placed = self.place(kept, wanted, power)
                if placed is not None:
                    wanted = np.where(placed.places >= 0, placed.places, wanted)
                    found.append((placed, _State(~placed.kept, wanted, power, placed.paid)))
        return found

    def _wanted(self, kept: Flags) -> Ints:
        """Addresses wanted: the lowest for what is kept long, the highest for the rest."""
        problem = self.problem
        length = problem.gap_upper - problem.gap_lower
        wanted: Ints = np.full(len(problem.access_step), self.flat.capacity)
        long = kept & (problem.gap_before >= 0) & (length > np.median(length))
        wanted[problem.gap_before[long]] = 0
        return wanted


def _flatten(problem: SpillProblem, align: Sequence[int], capacity: int) -> Addresses:
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
    # Of the operands of one op, the largest first.
    room = problem.room[problem.access_storage]
    order = np.lexsort((-room, problem.access_step)).astype(np.int64)
    steps = np.arange(problem.steps + 1)
    credit_of = np.full(accesses, -1, np.int64)
    credit_of[problem.credit_access] = np.arange(len(problem.credit_access))
    length = np.zeros(storages, np.int64)
    brought = np.flatnonzero((first_gap[1:] > first_gap[:-1]) & ~problem.written)
    length[brought] = problem.gap_upper[first_gap[:-1][brought]]
    empty = [np.zeros(storages, np.int64) for _ in range(5)]
    state = PoolState(
        np.zeros(1, np.int64), empty[0], empty[1], empty[2], np.zeros(storages, bool),
        np.zeros(storages, np.int64), empty[3], empty[4],
    )  # fmt: skip
    return Addresses(
        room=problem.size,
        align=np.array(align, np.int64),
        spill=problem.spill_cost,
        reload=problem.reload_cost,
        written=problem.written,
        stay=problem.stay,
        access_storage=problem.access_storage.copy(),
        near=problem.access_near.copy(),
        cross=problem.access_cost.copy(),
        before=before,
        after=after,
        first_access=np.searchsorted(problem.access_storage, bounds).astype(np.int64),
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
        state=state,
    )
