"""Facts that hold for every order: bytes that must be live, and ops with a fixed step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from operator import or_

import numpy as np

from cpplan.model.certificates import ForcedAt
from cpplan.model.order_problem import OrderProblem
from cpplan.model.problem import Ints
from cpplan.runtime.deadline import Deadline

FORCED = "forced live bytes"
# Approximate bits of all bit sets together, and the smallest number of ops in a group.
MOST_BITS, LEAST_COLUMNS = 1 << 26, 1024
# Number of ops above which the certificate names the op that proves the bound.
MANY_OPS = 4096
# Storages between two looks at the clock; approximate seconds for one op and one storage, where
# time is counted in work.
_LOOK_EVERY = 1024
_SECONDS_PER_STEP = 5e-7


@dataclass(frozen=True, eq=False, slots=True)
class OrderBounds:
    """Facts about an ordering problem that hold for each of its orders.

    Attributes
    ----------
    forced
        Bytes that are live while the op runs, whatever the order, shape ``(ops,)``.
    cuts
        Ops that every other op must precede or follow, in order of execution.
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
        """Lower bound on the peak of every order, bytes."""
        return int(self.forced.max(initial=self.idle))

    def certificate(self, problem: OrderProblem) -> ForcedAt | None:
        """The op that proves the bound; ``None`` with few ops, since the checker finds it quickly.

        ``None`` as well if the ops have no names.
        """
        if len(problem) <= MANY_OPS or len(problem.names) < len(problem):
            return None
        return ForcedAt(problem.names[int(self.forced.argmax())])


def order_bounds(
    problem: OrderProblem, *, order: Ints | None = None, deadline: Deadline | None = None
) -> OrderBounds:
    """Bytes live in every order and ops with a fixed step, from ancestors and descendants.

    In every order, a storage is live while an op runs if the op or one of its ancestors accesses
    the storage (or it is present from the start), and the op or one of its descendants accesses it
    (or it is kept to the end).

    Ancestors and descendants are bit sets. The bit sets of all ops together would have ops² bits,
    so large problems are done in groups of ops: memory is linear, time O((ops + storages) × ops /
    64) words. If the deadline passes, the remaining ops keep only the bytes that they access
    themselves.

    Parameters
    ----------
    problem
        Ops and storages.
    order
        A valid order. Ops are done by falling bytes live in this order; an op may be left out if
        its bytes there are at most the bound so far, as it cannot raise the bound.
    deadline
        Ends the work when it passes; the bounds hold nevertheless.
    """
    ops = len(problem)
    deadline = deadline or Deadline(math.inf)
    sequence = topological_order(problem) if order is None else order.tolist()
    forced = _accessed_bytes(problem)
    most = np.full(ops, np.iinfo(np.int64).max)
    if order is not None:
        most[order] = problem.pressure(order)
    columns = np.argsort(-most, kind="stable") if order is not None else np.array(sequence)
    width = max(LEAST_COLUMNS, MOST_BITS // max(1, ops))
    for begin in range(0, ops, width):
        chosen = columns[begin : begin + width].astype(np.int64)
        if (begin or ops > MANY_OPS) and deadline.expired():
            break
        if begin and most[chosen[0]] <= forced.max(initial=0):
            break
        found = _forced_bytes(problem, sequence, chosen, deadline)
        forced[chosen] = np.maximum(forced[chosen], found)
        deadline.spend(_SECONDS_PER_STEP * (ops + len(problem.size)))
    positions = _cut_positions(problem, sequence)
    idle = problem.base if ops else problem.base + problem.entry
    return OrderBounds(forced, tuple(sequence[k] for k in positions), tuple(positions), idle)


def _accessed_bytes(problem: OrderProblem) -> Ints:
    """Bytes that each op needs by itself: storages it accesses, and those live throughout."""
    # Storages present from the start and kept to the end are live at every step.
    always = problem.present & problem.kept
    throughout = problem.base + int(problem.size[always].sum())
    forced = np.full(len(problem), throughout, np.int64) + problem.extra
    ops = np.fromiter(chain.from_iterable(problem.accessed_by), np.int64)
    times = np.fromiter(map(len, problem.accessed_by), np.int64)
    np.add.at(forced, ops, np.repeat(np.where(always, 0, problem.size), times))
    return forced


def _forced_bytes(
    problem: OrderProblem, sequence: list[int], columns: Ints, deadline: Deadline
) -> Ints:
    """Bytes live in every order while each of these ops runs; fewer when time runs out."""
    ops, count = len(problem), len(columns)
    everyone = (1 << count) - 1
    # For every op, bits of the chosen ops that run at or before it, and at or after it.
    before = [0] * ops
    for bit, op in enumerate(columns.tolist()):
        before[op] = 1 << bit
    after = before.copy()
    for op in sequence:
        for other in problem.predecessors[op]:
            before[op] |= before[other]
    for op in reversed(sequence):
        for other in problem.predecessors[op]:
            after[other] |= after[op]
    forced = np.full(count, problem.base, np.int64) + problem.extra[columns]
    facts = zip(
        problem.accessed_by,
        problem.size.tolist(),
        problem.present.tolist(),
        problem.kept.tolist(),
        strict=True,
    )
    for number, (accessed, size, present, kept) in enumerate(facts):
        if number % _LOOK_EVERY == _LOOK_EVERY - 1 and deadline.expired():
            break
        born, needed = everyone, everyone
        if not present:
            born = reduce(or_, (after[op] for op in accessed))
        if born and not kept:
            needed = reduce(or_, (before[op] for op in accessed))
        if live := born & needed:
            forced[_members(live, count)] += size
    return forced


def _cut_positions(problem: OrderProblem, sequence: list[int]) -> list[int]:
    """Steps of an order at which the op runs in every order. O(ops + edges).

    All earlier ops are its ancestors if, up to there, it alone has no successor; all later ones are
    its descendants if, from there on, it alone has no predecessor.
    """
    ops = len(problem)
    step = np.zeros(ops, np.int64)
    step[sequence] = np.arange(ops)
    waits = problem.predecessors
    later = np.repeat(np.arange(ops), np.fromiter(map(len, waits), np.int64, ops))
    earlier = np.fromiter(chain.from_iterable(waits), np.int64, len(later))
    # For every op: the step of its first successor, and the step after its last predecessor.
    awaited, free = np.full(ops, ops), np.zeros(ops, np.int64)
    np.minimum.at(awaited, earlier, step[later])
    np.maximum.at(free, later, step[earlier] + 1)
    # By step: change in the number of ops run without a successor run, and of ops not run whose
    # predecessors have all run.
    ends, starts = np.zeros((2, ops + 1), np.int64)
    for changes, begin, end in ((ends, step, awaited), (starts, free, step + 1)):
        np.add.at(changes, begin, 1)
        np.subtract.at(changes, end, 1)
    alone = (np.cumsum(ends) == 1) & (np.cumsum(starts) == 1)
    found: list[int] = np.flatnonzero(alone[:ops]).tolist()
    return found


def topological_order(problem: OrderProblem) -> list[int]:
    """A valid order, by Kahn's algorithm; ops on or behind a cycle are missing from it."""
    waiting = [len(before) for before in problem.predecessors]
    order = [op for op, count in enumerate(waiting) if count == 0]
    for op in order:
        for other in problem.successors[op]:
            waiting[other] -= 1
            if waiting[other] == 0:
                order.append(other)
    return order


def _members(bits: int, count: int) -> Ints:
    """Positions of the bits that are 1."""
    raw = np.frombuffer(bits.to_bytes(-(-count // 8), "little"), np.uint8)
    return np.flatnonzero(np.unpackbits(raw, count=count, bitorder="little"))
