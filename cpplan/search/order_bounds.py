"""What every order has in common: bytes that must be live, and ops with a fixed place."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_

import numpy as np

from cpplan.ordering import OrderProblem
from cpplan.problem import Ints

FORCED = "forced live bytes"


@dataclass(frozen=True, eq=False, slots=True)
class OrderBounds:
    """Facts about an ordering problem that hold for each of its orders.

    Attributes
    ----------
    forced
        Bytes that are live while the op runs, whatever the order, shape ``(ops,)``.
    cuts
        Ops that every other op must precede or follow, in the order in which they come.
    cut_positions
        The step at which each of the cuts runs in every order, ascending.
    idle
        Bytes that are live even while nothing runs.
    """

    forced: Ints
    cuts: tuple[int, ...]
    cut_positions: tuple[int, ...]
    idle: int

    @property
    def bound(self) -> int:
        """No order has a smaller peak, bytes."""
        return int(self.forced.max(initial=self.idle))


def order_bounds(problem: OrderProblem) -> OrderBounds:
    """Ancestors and descendants as bit sets; O((ops + storages) × ops / 64) words.

    A storage is live while an op runs, in every order, if the op or one of its ancestors brings it
    to life (or it is there from the start), and the op or one of its descendants touches it (or it
    stays to the end).

    Examples
    --------
    >>> fork = OrderProblem(
    ...     predecessors=((), (0,), (0,), (1, 2)), extra=np.zeros(4, np.int64),
    ...     size=np.array([4, 8, 2]), touched_by=((0, 1, 2), (1, 3), (2, 3)),
    ...     present=np.zeros(3, bool), kept=np.zeros(3, bool),
    ... )
    >>> bounds = order_bounds(fork)
    >>> bounds.forced.tolist(), bounds.cuts, bounds.cut_positions
    ([4, 12, 6, 10], (0, 3), (0, 3))
    """
    ops = len(problem)
    sequence = topological_order(problem)
    # Each with itself: the ops that have run once it has, and those that cannot before it.
    before, after = [1 << op for op in range(ops)], [1 << op for op in range(ops)]
    for op in sequence:
        before[op] = reduce(or_, (before[other] for other in problem.predecessors[op]), 1 << op)
    for op in reversed(sequence):
        after[op] = reduce(or_, (after[other] for other in problem.successors[op]), 1 << op)
    everyone = (1 << ops) - 1
    forced = np.full(ops, problem.base, np.int64) + problem.extra
    for storage, touched in enumerate(problem.touched_by):
        born, needed = everyone, everyone
        if not problem.present[storage]:
            born = reduce(or_, (after[op] for op in touched))
        if not problem.kept[storage]:
            needed = reduce(or_, (before[op] for op in touched))
        forced[_members(born & needed, ops)] += problem.size[storage]
    position = {op: before[op].bit_count() - 1 for op in sequence}
    cuts = [op for op in sequence if before[op].bit_count() + after[op].bit_count() == ops + 1]
    idle = problem.base if ops else problem.base + problem.entry
    return OrderBounds(forced, tuple(cuts), tuple(position[op] for op in cuts), idle)


def topological_order(problem: OrderProblem) -> list[int]:
    """Some order, by Kahn's algorithm; shorter than the problem if it has a cycle."""
    waiting = [len(before) for before in problem.predecessors]
    order = [op for op, count in enumerate(waiting) if count == 0]
    for op in order:
        for other in problem.successors[op]:
            waiting[other] -= 1
            if waiting[other] == 0:
                order.append(other)
    return order


def _members(bits: int, count: int) -> Ints:
    """The positions of the ones."""
    raw = np.frombuffer(bits.to_bytes(-(-count // 8), "little"), np.uint8)
    return np.flatnonzero(np.unpackbits(raw, count=count, bitorder="little"))
