"""Bounds on the cost of moves: by prices of room at one order, by operands in every order.

The cost is that of the problem: bytes moved, or the cycles that moving them takes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from cpplan.model.certificates import RoomPrices
from cpplan.model.graph import Graph
from cpplan.program.storages import overwritten
from cpplan.runtime.deadline import Deadline
from cpplan.spilling.problem import SpillProblem
from cpplan.verification.bound_table import FORCED_MOVES, NOTHING, ROOM_PRICES

SEARCHED = "CP-SAT spilling"
# Binary places kept of a price.
PLACES = 24


class MovedBound(NamedTuple):
    """A lower bound on the cost of moves, its name, and its certificate if it has one."""

    value: int
    name: str
    prices: RoomPrices | None = None


def bound_by_prices(problem: SpillProblem, prices: Mapping[int, float]) -> MovedBound:
    """The bound that prices of room prove at the problem's order, computed in integers.

    Examples
    --------
    >>> from cpplan.model.graph import Graph, Op, Tensor
    >>> from cpplan.model.pool import Pool
    >>> from cpplan.model.residency import Residency
    >>> from cpplan.program.anf import to_anf
    >>> from cpplan.spilling.problem import spill_problem
    >>> tensors = Tensor("a", 8), Tensor("b", 8), Tensor("c", 8)
    >>> ops = (
    ...     Op("f", outputs=("a",)),
    ...     Op("g", outputs=("b",)),
    ...     Op("h", inputs=("b",), outputs=("c",)),
    ...     Op("k", inputs=("a", "c")),
    ... )
    >>> pools = Pool("fast", 16), Pool("slow")
    >>> problem = spill_problem(to_anf(Graph("g", tensors, ops)), Residency(), pools)
    >>> bound_by_prices(problem, {2: 2.0}).value
    16
    """
    unit = 1 << PLACES
    rounded = {step: max(0, round(price * unit)) for step, price in prices.items()}
    rounded = {step: price for step, price in rounded.items() if price}
    price = [rounded.get(step, 0) for step in range(problem.steps)]
    total = _paid(problem, price, unit)
    grain = problem.grain
    value = max(0, -(-int(total) // (unit * grain)) * grain)
    found = RoomPrices(PLACES, tuple(sorted((problem.ops[s], p) for s, p in rounded.items())))
    return MovedBound(value, ROOM_PRICES, found)


def bound_of_every_order(
    graph: Graph,
    problem: SpillProblem,
    order: Sequence[int],
    *,
    share: bool,
    deadline: Deadline | None = None,
) -> MovedBound:
    """The bound that the operands of one op prove for every order.

    While an op runs, the fast pool lacks room for some of its operands and of the tensors that are
    live then in every order: those that an op before it writes, or the caller brings, and that an
    op after it reads or the caller wants. What does not lie there has been, or will be, moved. The
    cheapest that make room, by the byte, are moved by every plan. To it come constants, which begin
    in the slow pool. Ops beyond the deadline are left out, which makes it lower.

    Examples
    --------
    >>> from cpplan.model.graph import Op, Tensor
    >>> from cpplan.model.pool import Pool
    >>> from cpplan.model.residency import Residency
    >>> from cpplan.program.anf import to_anf
    >>> from cpplan.spilling.problem import spill_problem
    >>> tensors = Tensor("a", 8), Tensor("b", 8), Tensor("c", 8)
    >>> ops = (
    ...     Op("f", outputs=("a",)),
    ...     Op("g", inputs=("a",), outputs=("b",)),
    ...     Op("h", inputs=("b",), outputs=("c",)),
    ...     Op("k", inputs=("a", "c")),
    ... )
    >>> graph, pools = Graph("g", tensors, ops), (Pool("fast", 16), Pool("slow"))
    >>> problem = spill_problem(to_anf(graph), Residency(), pools)
    >>> bound_of_every_order(graph, problem, range(4), share=False).value
    16
    """
    reached = _Reach(graph, problem, order)
    always = sum(reached.brings(row, -1) for row in np.flatnonzero(reached.constant).tolist())
    saved = [0] * len(graph.ops)
    for number, op in enumerate(graph.ops if share else ()):
        outputs: dict[str, int] = {}
        for output, source in overwritten(graph, op):
            if output in reached.number and source in reached.number:
                rooms = (int(problem.room[reached.number[name]]) for name in (output, source))
                outputs[output] = max(outputs.get(output, 0), min(rooms))
        saved[number] = sum(outputs.values())
    best = Fraction(0)
    for number in range(len(graph.ops)):
        if deadline is not None and deadline.expired():
            break
        best = max(best, reached.overflow(number, saved[number]))
    grain = problem.grain
    value = -(-math.ceil(always + best) // grain) * grain
    return MovedBound(value, FORCED_MOVES if value else NOTHING)


class _Reach:
    """Storages live at each op in every order, and the bytes moved for one that is not there."""

    def __init__(self, graph: Graph, problem: SpillProblem, order: Sequence[int]):
        self.problem = problem
        self.number = {name: row for row, name in enumerate(problem.names)}
        count = len(graph.ops)
        self.before, self.after = [0] * count, [0] * count
        for op in order:
            for earlier in graph.predecessors[op]:
                self.before[op] |= self.before[earlier] | 1 << earlier
        for op in reversed(order):
            for earlier in graph.predecessors[op]:
                self.after[earlier] |= self.after[op] | 1 << op
        storages = len(problem.names)
        self.accesses: list[list[tuple[int, int]]] = [[] for _ in range(storages)]
        self.at: list[dict[int, tuple[int, bool]]] = [{} for _ in range(count)]
        self.readers = [0] * storages
        self.writer: list[int | None] = [None] * storages
        for row, step, crossing, near in zip(
            problem.access_storage.tolist(), problem.access_step.tolist(),
            problem.access_cost.tolist(), problem.access_near.tolist(), strict=True,
        ):  # fmt: skip
            op = order[step]
            self.at[op][row] = crossing, near
            if problem.written[row] and not self.accesses[row] and self.writer[row] is None:
                self.writer[row] = op
                continue
            self.readers[row] |= 1 << op
            size = int(problem.reload_cost[row])
            self.accesses[row].append((op, size if near else min(size, crossing)))
        self.kept = np.zeros(storages, bool)
        self.kept[problem.gap_storage[problem.gap_after < 0]] = True
        self.constant = np.zeros(storages, bool)
        first = ~problem.written[problem.gap_storage] & (problem.gap_before < 0)
        self.constant[problem.gap_storage[first & (problem.gap_fixed == 0)]] = True

    def brings(self, row: int, ops: int) -> int:
        """Bytes that some of these ops need to get at a storage in the slow pool, at least."""
        return max([cost for op, cost in self.accesses[row] if ops >> op & 1], default=0)

    def overflow(self, op: int, saved: int) -> Fraction:
        """Bytes moved at least because not all that is live at an op has room."""
        problem = self.problem
        room = problem.room.tolist()
        excess = -problem.capacity - saved
        choices: list[tuple[int, int]] = []
        for row in range(len(room)):
            written = self.writer[row]
            spilled = int(problem.spill_cost[row])
            if row in self.at[op]:
                crossing, near = self.at[op][row]
                if near:
                    excess += room[row]
                    continue
                reload = min(int(problem.reload_cost[row]), crossing)
                cost = spilled if written == op else reload
                if written is not None and written != op:
                    cost += spilled
            elif self.constant[row]:
                continue
            else:
                begun = written is None or self.before[op] >> written & 1
                later = self.readers[row] & self.after[op]
                if not begun or not (later or self.kept[row]):
                    continue
                cost = self.brings(row, self.after[op])
                cost += spilled if written is not None else 0
            if self.constant[row]:
                cost = 0
            excess += room[row]
            choices.append((cost, room[row]))
        if excess <= 0:
            return Fraction(0)
        total = Fraction(0)
        for cost, freed in sorted(choices, key=lambda pair: Fraction(pair[0], max(1, pair[1]))):
            if excess <= 0:
                break
            part = min(excess, freed)
            total += Fraction(cost * part, freed) if freed else 0
            excess -= part
        return total


def _paid(problem: SpillProblem, price: Sequence[int], unit: int) -> int:
    """Units of bytes that all storages pay at least, less the price of all room."""
    base = problem.base.tolist()
    total = sum(p * (b - problem.capacity) for p, b in zip(price, base, strict=True) if p)
    refund, always = _refunds(problem, price)
    paths = _Paths(problem, price, unit, refund)
    return int(total) - always + sum(paths.least(row) for row in range(len(problem.names)))


def _refunds(problem: SpillProblem, price: Sequence[int]) -> tuple[dict[int, int], int]:
    """Price of the room that overwriting saves: by the access whose input is dropped, and always.

    If one of the inputs is dead anyway, nothing need be dropped for it.
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
    """Least price of each storage: over its gaps, the bytes moved and the room taken."""

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
        """The least that a storage pays."""
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
