"""Exact search for the order with the least pressure: best-first over downsets.

A *downset* is a set of ops closed under predecessors: what may have run at some moment. What is
live after it does not depend on the order within it, so each is visited once, by the path with the
least pressure (a bottleneck shortest path, Dijkstra). Three things keep the number of states small:

* the search starts at a pressure that no order avoids, and until it is exceeded goes for depth;
* an op that frees at least what it allocates, and whose step fits below that pressure, runs at once;
* states that are no better than the incumbent are dropped. If none is left, it is optimal.

When the states are spent, the pressure of the best open state still bounds every order from below.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cpplan.deadline import Deadline
from cpplan.ordering import OrderProblem
from cpplan.problem import Ints

_POPS = 20_000


class OrderResult(NamedTuple):
    """The best order known with its peak, and a bound on every order's peak, bytes."""

    order: Ints
    peak: int
    bound: int


def forced_bound(problem: OrderProblem) -> int:
    """What is live while some op runs, in whatever order: no order has a smaller peak.

    A storage is live during an op's step in every order if the op touches it, or if one of the
    op's ancestors (or the caller) brings it to life and one of its descendants (or the caller)
    still touches it.
    """
    ops = len(problem)
    before = _closure(problem)
    after = [0] * ops
    for op in range(ops):
        for other in range(ops):
            if before[op] >> other & 1:
                after[other] |= 1 << op
    users = [sum(1 << op for op in touched) for touched in problem.touched_by]
    best = problem.base + (problem.entry if ops else 0) * 0
    for op in range(ops):
        mine = 1 << op
        live = problem.base + int(problem.extra[op])
        for storage, used in enumerate(users):
            born = problem.present[storage] or used & (before[op] | mine)
            needed = problem.kept[storage] or used & (after[op] | mine)
            if born and needed:
                live += int(problem.size[storage])
        best = max(best, live)
    return best


def _closure(problem: OrderProblem) -> list[int]:
    """For every op, the set of its ancestors as the bits of an int."""
    before = [0] * len(problem)
    for op in topological(problem):
        for other in problem.predecessors[op]:
            before[op] |= before[other] | 1 << other
    return before


def topological(problem: OrderProblem) -> list[int]:
    waiting = [len(before) for before in problem.predecessors]
    order = [op for op, count in enumerate(waiting) if count == 0]
    for op in order:
        for other in problem.successors[op]:
            waiting[other] -= 1
            if waiting[other] == 0:
                order.append(other)
    return order


def search_downsets(
    problem: OrderProblem, start: Ints, deadline: Deadline, *, bound: int = 0, states: int = 1_000_000
) -> OrderResult:
    from cpplan.search import downset_kernel as kernel

    ops = len(problem)
    words = max(1, -(-ops // 64))
    peak0 = problem.peak(start)
    level = max(bound, forced_bound(problem))
    if level >= peak0 or ops == 0:
        return OrderResult(start, peak0, min(level, peak0))
    capacity = states + 2 * ops
    done = np.zeros((capacity, words), np.uint64)
    live, peak = np.zeros(capacity, np.int64), np.zeros(capacity, np.int64)
    count, parent, ran = (np.full(capacity, -1, np.int32) for _ in range(3))
    table = np.full(2 * capacity + 1, -1, np.int32)
    heap = np.zeros(capacity, np.int32)
    live[0] = problem.base + int(problem.size[problem.present].sum())
    peak[0], count[0] = level, 0
    cursor = np.array([1, 1, level, -1], np.int64)
    before = _masks(problem.predecessors, words)
    users = _masks(problem.touched_by, words)
    first = np.cumsum([0, *map(len, problem.touches)]).astype(np.int64)
    touches = np.array([s for t in problem.touches for s in t], np.int64)
    table[kernel._find(done[0], done, table)] = 0
    status = kernel.SLICE_SPENT
    while status == kernel.SLICE_SPENT and not deadline.expired():
        status = kernel.extend(
            _POPS, peak0, before, problem.extra, first, touches, problem.size, users,
            problem.present, problem.kept, done, live, peak, count, parent, ran, table, heap, cursor,
        )
    search_downsets.states = int(cursor[0])
    if status == kernel.PROVED:
        return OrderResult(start, peak0, peak0)
    if status == kernel.ORDER_FOUND:
        order, row = [], int(cursor[3])
        while row > 0:
            order.append(int(ran[row]))
            row = int(parent[row])
        result = np.array(order[::-1], np.int64)
        return OrderResult(result, int(peak[cursor[3]]), int(peak[cursor[3]]))
    return OrderResult(start, peak0, int(cursor[2]))


def _masks(sets, words: int) -> np.ndarray:
    masks = np.zeros((len(sets), words), np.uint64)
    for row, members in enumerate(sets):
        for k in members:
            masks[row, k >> 6] |= np.uint64(1) << np.uint64(k & 63)
    return masks
