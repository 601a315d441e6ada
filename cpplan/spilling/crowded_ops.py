"""Ops that leave too little room in the fast pool in every order, and what may be absent then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from cpplan.model.certificates import CutFlow, ForcedAt
from cpplan.model.graph import Graph
from cpplan.model.order_problem import OrderProblem
from cpplan.model.problem import Ints
from cpplan.model.spill_problem import Flags, SpillProblem
from cpplan.ordering.bounds import order_bounds
from cpplan.ordering.cuts import OrderCuts
from cpplan.program.storages import overwritten
from cpplan.runtime.deadline import Deadline


class CrowdedOp(NamedTuple):
    """An op at which storages are absent from the fast pool in every order.

    Attributes
    ----------
    op
        The op.
    excess
        Bytes of room that the absent storages have together, at least.
    absent
        Storages that may be absent.
    cut
        True if a minimum cut proves the excess; else the storages live in every order do.
    """

    op: int
    excess: int
    absent: tuple[int, ...]
    cut: bool


class AbsenceCosts:
    """Least costs if a storage is not in the fast pool while it is needed.

    Attributes
    ----------
    room
        Bytes of each storage in the fast pool.
    write
        Cost of writing each storage to the slow pool; 0 if the caller provides it.
    reads
        Cost of each access that reads a storage which is not in the fast pool; 0 of an access
        without bytes, as of a view, and of one that writes. Shape ``(accesses,)``.
    read
        Least positive cost of a read of each storage, or 0.
    may_be_absent
        True for storages that can move, but for constants. Shape ``(n,)``.
    is_read
        True for storages that are needed only to be read, at a cost. Shape ``(n,)``.
    streamed
        Cost of the constants, which begin in the slow pool.
    """

    def __init__(self, problem: SpillProblem):
        storages, names = problem.access_storage, len(problem.names)
        self.room: list[int] = problem.room.tolist()
        self.write: list[int] = np.where(problem.written, problem.spill_cost, 0).tolist()
        reload = problem.reload_cost[storages]
        self.reads = np.where(problem.access_near, reload, np.minimum(reload, problem.access_cost))
        first = np.searchsorted(storages, np.flatnonzero(problem.written))
        self.reads[first] = 0
        pays, free = self.reads > 0, self.reads == 0
        free[first] = False
        least, most = np.full(names, np.iinfo(np.int64).max), np.zeros(names, np.int64)
        np.minimum.at(least, storages[pays], self.reads[pays])
        np.maximum.at(most, storages[pays], self.reads[pays])
        self.read: list[int] = np.where(most > 0, least, 0).tolist()
        fixed = np.full(names, -1, np.int64)
        fixed[problem.gap_storage] = problem.gap_fixed
        constant = begin_slow(problem)
        self.may_be_absent = problem.movable & (fixed != 1) & ~constant & (problem.room > 0)
        self.streamed = int(most[constant].sum())
        self.is_read = ~problem.lasts & (most > 0)
        self.is_read[storages[free]] = False


class CrowdedOps:
    """The storages live at each op of a graph, whatever the order, and those that may be absent.

    Attributes
    ----------
    costs
        Costs of absences.
    """

    def __init__(self, graph: Graph, problem: SpillProblem, order: Sequence[int], *, share: bool):
        self.problem, self.count = problem, len(graph.ops)
        self.costs = AbsenceCosts(problem)
        self._reach(graph, order)
        storages, names = problem.access_storage, len(problem.names)
        self._op = np.array(order, np.int64)[problem.access_step]
        first = np.searchsorted(storages, np.arange(names))
        # -1 if the caller provides the storage.
        self._writer = np.where(problem.written, self._op[first], -1)
        reads = np.ones(len(storages), bool)
        reads[first[problem.written]] = False
        self._reads = storages[reads], self._op[reads]
        # Ops that read a storage at a cost, as bits.
        pays = self.costs.reads > 0
        self._readers = [0] * names
        for row, op in zip(storages[pays].tolist(), self._op[pays].tolist(), strict=True):
            self._readers[row] |= 1 << op
        self._live = live_problem(graph, problem, order, share=share)
        self._cuts = OrderCuts(
            self._live, order_bounds(self._live).forced, np.array(order, np.int64)
        )

    def _reach(self, graph: Graph, order: Sequence[int]) -> None:
        """Find the ops before and after each op in every order, as bits."""
        self.before, self.after = [0] * self.count, [0] * self.count
        for op in order:
            for earlier in graph.predecessors[op]:
                self.before[op] |= self.before[earlier] | 1 << earlier
        for op in reversed(order):
            for earlier in graph.predecessors[op]:
                self.after[earlier] |= self.after[op] | 1 << op

    def crowded(self, deadline: Deadline) -> Iterator[CrowdedOp]:
        """Yield the ops with an excess, the largest first; by minimum cuts in the time given."""
        capacity = self.problem.capacity
        forced: Ints = self._cuts.bounds.copy()
        self._cuts.run(deadline, above=capacity)
        proved = np.stack([self._cuts.bounds, forced])
        # An op whose cut proves no more than what is live in every order is listed once.
        proved[0, proved[0] == forced] = 0
        for k in np.argsort(-proved, axis=None, kind="stable").tolist():
            way, op = divmod(k, self.count)
            excess = int(proved[way, op]) - capacity
            if excess <= 0:
                return
            cut = way == 0
            yield CrowdedOp(op, excess, self._absent(op, certain=not cut), cut)

    def proof(self, op: CrowdedOp) -> CutFlow | ForcedAt:
        """The certificate of the excess."""
        if op.cut:
            flow = self._cuts.certificate(op.op)
            assert flow is not None
            return flow
        return ForcedAt(self._live.names[op.op])

    def is_read_after(self, storage: int, op: int) -> bool:
        """True if a storage that is absent at an op is read from the slow pool at it or later."""
        later = self._readers[storage] & (self.after[op] | 1 << op)
        return bool(later) or bool(self.costs.is_read[storage])

    def is_read_between(self, storage: int, one: int, other: int) -> bool:
        """True if a storage is read between two ops in every order; the first of them may do it."""
        first, last = (one, other) if self.after[one] >> other & 1 else (other, one)
        between = (self.after[first] | 1 << first) & self.before[last]
        return bool(self._readers[storage] & between)

    def _absent(self, op: int, *, certain: bool) -> tuple[int, ...]:
        """Storages that may be absent at an op: of those live there in every order, or in any."""
        problem, writer = self.problem, self._writer
        before, after = self._set(self.before[op]), self._set(self.after[op])
        rows, readers = self._reads
        needed = problem.lasts.copy()
        if certain:
            born = (writer < 0) | before[writer]
            needed[rows[after[readers]]] = True
        else:
            born = (writer < 0) | ~after[writer]
            needed[rows[~before[readers]]] = True
        live: Flags = born & needed
        here = self._op == op
        live[problem.access_storage[here]] = True
        live[problem.access_storage[here & problem.access_near]] = False
        live &= self.costs.may_be_absent
        return tuple(np.flatnonzero(live).tolist())

    def _set(self, members: int) -> Flags:
        raw = np.frombuffer(members.to_bytes(-(-self.count // 8), "little"), np.uint8)
        return np.unpackbits(raw, count=self.count, bitorder="little").astype(bool)


def live_problem(
    graph: Graph, problem: SpillProblem, order: Sequence[int], *, share: bool
) -> OrderProblem:
    """The ordering problem of the room that storages need in the fast pool if none moves.

    Constants take room only at ops that read them there. What an op may write over its inputs is
    subtracted at the op.
    """
    constant, room = begin_slow(problem), problem.room.tolist()
    rows = np.flatnonzero(~constant & (problem.room > 0))
    accessed: list[list[int]] = [[] for _ in problem.names]
    extra = np.zeros(len(graph.ops), np.int64)
    access_op = np.array(order, np.int64)[problem.access_step]
    for row, op, near in zip(
        problem.access_storage.tolist(), access_op.tolist(), problem.access_near.tolist(),
        strict=True,
    ):  # fmt: skip
        if not constant[row]:
            accessed[row].append(op)
        elif near:
            extra[op] += room[row]
    number = {name: row for row, name in enumerate(problem.names)}
    for k, op in enumerate(graph.ops if share else ()):
        saved: dict[str, int] = {}
        for output, source in overwritten(graph, op):
            if output in number and source in number:
                less = min(room[number[output]], room[number[source]])
                saved[output] = max(saved.get(output, 0), less)
        extra[k] -= sum(saved.values())
    # Models of orders take no negative bytes of an op.
    more = max(0, -int(extra.min(initial=0)))
    return OrderProblem(
        predecessors=graph.predecessors,
        extra=extra + more,
        size=problem.room[rows],
        accessed_by=tuple(tuple(sorted(accessed[row])) for row in rows.tolist()),
        present=~problem.written[rows],
        kept=problem.lasts[rows],
        base=-more,
        names=tuple(op.name for op in graph.ops),
        storages=tuple(problem.names[row] for row in rows.tolist()),
    )


def begin_slow(problem: SpillProblem) -> Flags:
    """For each storage, true if it is a constant that begins in the slow pool."""
    found = np.zeros(len(problem.names), bool)
    starts = ~problem.written[problem.gap_storage] & (problem.gap_before < 0)
    found[problem.gap_storage[starts & (problem.gap_fixed == 0)]] = True
    return found
