"""Bound on the cost of moves that holds for every order, proved by one op's operands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from cpplan.model.certificates import ForcedAt
from cpplan.model.graph import Graph
from cpplan.model.problem import Ints
from cpplan.program.storages import overwritten
from cpplan.runtime.deadline import Deadline
from cpplan.spilling.bounds import MovedBound
from cpplan.spilling.problem import Flags, SpillProblem
from cpplan.spilling.tuning import active
from cpplan.verification.bound_table import FORCED_MOVES, NOTHING


def bound_of_every_order(
    graph: Graph,
    problem: SpillProblem,
    order: Sequence[int],
    *,
    share: bool,
    deadline: Deadline | None = None,
) -> MovedBound:
    """The bound proved by the operands of one op, which holds for every order.

    Some tensors are live at an op in every order: its operands, and the tensors that an earlier op
    or the caller provides and that a later op or the caller needs. If they exceed the fast pool,
    some of them do not lie there, so they have been moved or will be. Every plan moves at least
    the ones that make enough room at the least cost per byte. The constants are added, which begin
    in the slow pool. When the deadline passes, the remaining ops are left out, which lowers the
    bound. The search needs 2 × ops² bits of memory: graphs with more ops than ``every_order_ops``
    of the tuning get no such bound.
    """
    if not graph.ops or len(graph.ops) > active().every_order_ops:
        return MovedBound(0, NOTHING)
    reached = _Reach(graph, problem, order)
    saved = _overwritable(graph, problem) if share else [0] * len(graph.ops)
    best, most = order[0], 0.0
    for op in order:
        if deadline is not None and deadline.expired():
            break
        paid = reached.live_at(op, saved[op]).paid()
        if paid > most:
            best, most = op, paid
    exact = reached.live_at(best, saved[best]).paid_exactly()
    value = -(-math.ceil(reached.streamed + exact) // problem.grain) * problem.grain
    if not value:
        return MovedBound(0, NOTHING)
    return MovedBound(value, FORCED_MOVES, ForcedAt(graph.ops[best].name))


def _overwritable(graph: Graph, problem: SpillProblem) -> list[int]:
    """Most room that each op may save by writing its outputs over its inputs."""
    rows = zip(problem.names, problem.room.tolist(), problem.movable.tolist(), strict=True)
    room = {name: size for name, size, movable in rows if movable}
    saved = []
    for op in graph.ops:
        outputs: dict[str, int] = {}
        for output, source in overwritten(graph, op):
            if output in room and source in room:
                outputs[output] = max(outputs.get(output, 0), min(room[output], room[source]))
        saved.append(sum(outputs.values()))
    return saved


class _Live(NamedTuple):
    """Room missing at an op; cost and room of each storage that need not lie in the pool then."""

    excess: int
    cost: Ints
    room: Ints

    def paid(self) -> float:
        """Least cost of making enough room, in floating point."""
        if self.excess <= 0:
            return 0.0
        rank = np.argsort(self.cost / self.room, kind="stable")
        cost, room = self.cost[rank], self.room[rank]
        left = self.excess - np.concatenate([[0], np.cumsum(room)[:-1]])
        return float((cost * np.clip(left / room, 0.0, 1.0)).sum())

    def paid_exactly(self) -> Fraction:
        """Least cost of making enough room, as an exact fraction."""
        paid, excess = Fraction(0), max(0, self.excess)
        pairs = zip(self.cost.tolist(), self.room.tolist(), strict=True)
        for cost, room in sorted(pairs, key=lambda pair: Fraction(*pair)):
            part = min(excess, room)
            paid += Fraction(cost * part, room)
            excess -= part
        return paid


class _Reach:
    """Storages live at each op in every order, and the cost if one is not in the fast pool.

    Attributes
    ----------
    streamed
        Cost of the constants, which begin in the slow pool.
    """

    def __init__(self, graph: Graph, problem: SpillProblem, order: Sequence[int]):
        self.problem, self.ops = problem, len(graph.ops)
        self.before, self.after = [0] * self.ops, [0] * self.ops
        for op in order:
            for earlier in graph.predecessors[op]:
                self.before[op] |= self.before[earlier] | 1 << earlier
        for op in reversed(order):
            for earlier in graph.predecessors[op]:
                self.after[earlier] |= self.after[op] | 1 << op
        storages, at = problem.access_storage, problem.access_step
        op_of = np.array(order, np.int64)[at]
        count = len(problem.names)
        first = np.searchsorted(storages, np.arange(count))
        # -1 if the caller provides the storage.
        self.writer = np.where(problem.written, op_of[first], -1)
        reads = np.ones(len(storages), bool)
        reads[first[problem.written]] = False
        reload = problem.reload_cost[storages]
        brought = np.where(problem.access_near, reload, np.minimum(reload, problem.access_cost))
        self.reader, self.read_cost = op_of[reads], brought[reads]
        # Storages that are read, and where the rows of their readers start.
        self.read, self.first_reader = np.unique(storages[reads], return_index=True)
        self.accesses: list[list[int]] = [[] for _ in range(self.ops)]
        for access, op in enumerate(op_of.tolist()):
            self.accesses[op].append(access)
        self.read_anew = np.where(reads, brought, 0)
        constant = np.zeros(count, bool)
        start = ~problem.written[problem.gap_storage] & (problem.gap_before < 0)
        constant[problem.gap_storage[start & (problem.gap_fixed == 0)]] = True
        self.constant = constant
        self.streamed = int(self._brings(np.ones(self.ops, bool))[constant].sum())

    def _brings(self, ops: Flags) -> Ints:
        """Highest cost of a read of each storage by these ops; 0 without such reads."""
        found = np.zeros(len(self.problem.names), np.int64)
        if len(self.read):
            costs = np.where(ops[self.reader], self.read_cost, 0)
            found[self.read] = np.maximum.reduceat(costs, self.first_reader)
        return found

    def _set(self, members: int) -> Flags:
        raw = np.frombuffer(members.to_bytes(-(-self.ops // 8), "little"), np.uint8)
        return np.unpackbits(raw, count=self.ops, bitorder="little").astype(bool)

    def live_at(self, op: int, saved: int) -> _Live:
        """The storages live at an op in every order, and the room missing for them."""
        problem, writer = self.problem, self.writer
        before, after = self._set(self.before[op]), self._set(self.after[op])
        spilled = np.where(writer >= 0, problem.spill_cost, 0)
        needed = problem.lasts.copy()
        if len(self.read):
            later = np.logical_or.reduceat(after[self.reader], self.first_reader)
            needed[self.read] |= later
        live = problem.movable & ~self.constant & needed & ((writer < 0) | before[writer])
        cost = self._brings(after) + spilled
        excess = -problem.capacity - saved
        for access in self.accesses[op]:
            row = int(problem.access_storage[access])
            if not problem.movable[row]:
                continue
            live[row] = not problem.access_near[access]
            if not live[row]:
                excess += int(problem.room[row])
                continue
            cost[row] = self.read_anew[access] + spilled[row]
            if self.constant[row]:
                cost[row] = 0
        live &= problem.room > 0
        room = problem.room[live]
        return _Live(excess + int(room.sum()), cost[live], room)
