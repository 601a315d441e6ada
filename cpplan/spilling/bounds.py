"""Bounds on the cost of moves at one order, by prices of room.

The cost is the one that the problem minimises: bytes moved, or cycles taken by the moves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from cpplan.model.certificates import MovedCertificate, RoomPrices
from cpplan.model.spill_problem import SpillProblem
from cpplan.verification.bound_table import ROOM_PRICES

SEARCHED = "CP-SAT spilling"
# Binary places kept of a price.
PLACES = 24


class MovedBound(NamedTuple):
    """A lower bound on the cost of moves, with its name and, if there is one, its certificate."""

    value: int
    name: str
    certificate: MovedCertificate | None = None


def bound_by_prices(problem: SpillProblem, prices: Mapping[int, float]) -> MovedBound:
    """The bound that prices of room prove at the problem's order, computed in integers."""
    unit = 1 << PLACES
    rounded = {step: max(0, round(price * unit)) for step, price in prices.items()}
    rounded = {step: price for step, price in rounded.items() if price}
    price = [rounded.get(step, 0) for step in range(problem.steps)]
    total = _paid(problem, price, unit)
    grain = problem.grain
    value = max(0, -(-int(total) // (unit * grain)) * grain)
    found = RoomPrices(PLACES, tuple(sorted((problem.ops[s], p) for s, p in rounded.items())))
    return MovedBound(value, ROOM_PRICES, found)


def _paid(problem: SpillProblem, price: Sequence[int], unit: int) -> int:
    """Least price that all storages pay, minus the price of the room that is free for them."""
    base = problem.base.tolist()
    total = sum(p * (b - problem.capacity) for p, b in zip(price, base, strict=True) if p)
    refund, always = _refunds(problem, price)
    paths = _Paths(problem, price, unit, refund)
    return int(total) - always + sum(map(paths.least, _paying(problem, price, refund)))


def _paying(problem: SpillProblem, price: Sequence[int], refund: Mapping[int, int]) -> list[int]:
    """Storages that may pay or get back a price; all others stay in the fast pool for nothing."""
    priced = np.array([bool(one) for one in price], bool)
    upto = np.concatenate([[0], np.cumsum(priced)])
    held = upto[problem.gap_upper] > upto[problem.gap_lower]
    # One without gaps may be written in the slow pool only.
    pays = np.bincount(problem.gap_storage, minlength=len(problem.names)) == 0
    pays[problem.gap_storage[held | (problem.gap_fixed == 0)]] = True
    pays[problem.access_storage[priced[problem.access_step]]] = True
    pays[problem.access_storage[[*refund]]] = True
    return [int(row) for row in np.flatnonzero(pays)]


def _refunds(problem: SpillProblem, price: Sequence[int]) -> tuple[dict[int, int], int]:
    """Price of the room saved by overwriting: per access of an input, and in any case.

    An input saves room if it is dropped after the access. If one of the inputs dies there anyway,
    the room is saved in any case.
    """
    inputs: dict[int, list[tuple[int, int]]] = {}
    for credit, access, gap in zip(
        problem.over_credit.tolist(), problem.over_access.tolist(), problem.over_gap.tolist(),
        strict=True,
    ):  # fmt: skip
        inputs.setdefault(credit, []).append((access, gap))
    refund: dict[int, int] = {}
    always = 0
    for credit, several in inputs.items():
        saved = price[int(problem.credit_step[credit])] * int(problem.credit_room[credit])
        if any(gap < 0 for _, gap in several):
            always += saved
            continue
        for access, _ in several:
            refund[access] = refund.get(access, 0) + saved
    return refund, always


class _Paths:
    """Least price of each storage: the cost of its moves plus the price of the room it takes."""

    def __init__(
        self, problem: SpillProblem, price: Sequence[int], unit: int, refund: Mapping[int, int]
    ):
        self.problem, self.refund = problem, refund
        summed = [0]
        for one in price:
            summed.append(summed[-1] + one)
        rows = zip(
            problem.gap_storage.tolist(), problem.gap_lower.tolist(), problem.gap_upper.tolist(),
            strict=True,
        )  # fmt: skip
        room = problem.room.tolist()
        self.hold = [room[s] * (summed[upper] - summed[lower]) for s, lower, upper in rows]
        self.take = [
            room[s] * price[t]
            for s, t in zip(
                problem.access_storage.tolist(), problem.access_step.tolist(), strict=True
            )
        ]
        self.spill = [cost * unit for cost in problem.spill_cost.tolist()]
        self.reload = [cost * unit for cost in problem.reload_cost.tolist()]
        self.cross = [cost * unit for cost in problem.access_cost.tolist()]
        self.fixed, self.near = problem.gap_fixed.tolist(), problem.access_near.tolist()
        bounds = np.arange(len(problem.names) + 1)
        self.first_access = np.searchsorted(problem.access_storage, bounds).tolist()
        self.first_gap = np.searchsorted(problem.gap_storage, bounds).tolist()

    def least(self, row: int) -> int:
        """Least price that a storage pays over all choices of its gaps."""
        problem, gaps = self.problem, self._gaps(row)
        if problem.written[row]:
            options = [self._path(row, None, gaps, droppable=False)]
            spilled = self._path(row, None, gaps, droppable=True)
            options.append(None if spilled is None else spilled + self.spill[row])
        else:
            start, rest = gaps[0], gaps[1:]
            options = []
            if self.fixed[start] != 0:
                kept = self._path(row, True, rest, droppable=False)
                options.append(None if kept is None else kept + self.hold[start])
                if not problem.stay[row]:
                    moved = self._path(row, True, rest, droppable=True)
                    extra = self.hold[start] + self.spill[row]
                    options.append(None if moved is None else moved + extra)
            if self.fixed[start] != 1:
                options.append(self._path(row, False, rest, droppable=True))
        return min(option for option in options if option is not None)

    def _gaps(self, row: int) -> list[int]:
        return list(range(self.first_gap[row], self.first_gap[row + 1]))

    def _path(
        self, row: int, held: bool | None, gaps: Sequence[int], *, droppable: bool
    ) -> int | None:
        """Least price from the first access on; ``held`` is None before the storage is written."""
        states: dict[bool | None, int] = {held: 0}
        accesses = range(self.first_access[row], self.first_access[row + 1])
        for number, access in enumerate(accesses):
            gap = gaps[number] if number < len(gaps) else None
            following: dict[bool | None, int] = {}
            for state, paid in states.items():
                for near in (True, False):
                    if not near and (
                        self.near[access] or state or (state is None and not droppable)
                    ):
                        continue
                    here = paid + (self.take[access] if near else 0)
                    if state is False:
                        here += self.reload[row] if near else self.cross[access]
                    for kept in (True, False):
                        if kept and (gap is None or not near or self.fixed[gap] == 0):
                            continue
                        cost = here
                        if kept:
                            cost += self.hold[gap] if gap is not None else 0
                        else:
                            if gap is not None and (not droppable or self.fixed[gap] == 1):
                                continue
                            cost -= self.refund.get(access, 0) if near else 0
                        if cost < following.get(kept, cost + 1):
                            following[kept] = cost
            states = following
        return min(states.values(), default=None)
