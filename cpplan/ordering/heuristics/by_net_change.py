"""List scheduling: the next op is the ready one after which the fewest bytes are live.

The greedy rule of register-pressure scheduling (Goodman and Hsu, "Code Scheduling and Register
Allocation in Large Basic Blocks", 1988), with bytes for registers. It looks only one step ahead and
so begins cheap branches that are expensive to finish. In reversed time, from the last op to the
first, it makes other mistakes: both directions are worth trying.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from cpplan.model.order_problem import OrderProblem
from cpplan.model.problem import Ints
from cpplan.ordering.heuristics.registered import register
from cpplan.ordering.heuristics.reversal import reverse_time
from cpplan.runtime.deadline import Deadline


@register("list_schedule")
def list_schedule(problem: OrderProblem, deadline: Deadline) -> Ints:
    """Order by least net change of live bytes, then least pressure during the step, then as listed.

    O((ops + accesses) log ops): the net change of an op falls when another op allocates one of its
    storages, or leaves it as the last op to access one; each happens once for a storage.
    """
    return np.array(_Schedule(problem).run(), np.int64)


def completed(problem: OrderProblem, begun: Sequence[int]) -> Ints:
    """The order that begins with these ops and goes on by :func:`list_schedule`."""
    return np.array(_Schedule(problem).run(begun), np.int64)


@register("list_schedule_backward")
def list_schedule_backward(problem: OrderProblem, deadline: Deadline) -> Ints:
    """:func:`list_schedule` in reversed time: the last op is chosen first."""
    backward = list_schedule(reverse_time(problem), deadline)
    return np.ascontiguousarray(backward[::-1])


class _Schedule:
    """Ready ops in a heap by keys that only fall; entries with an outdated key are skipped."""

    def __init__(self, problem: OrderProblem):
        self.problem = problem
        self.size: list[int] = problem.size.tolist()
        self.kept: list[bool] = problem.kept.tolist()
        self.live: list[bool] = problem.present.tolist()
        self.left = [len(ops) for ops in problem.accessed_by]
        self.waiting = [len(before) for before in problem.predecessors]
        self.done = [False] * len(problem)
        self.allocated = [0] * len(problem)
        self.freed = [0] * len(problem)
        for storage, ops in enumerate(problem.accessed_by):
            for op in ops:
                self.allocated[op] += 0 if self.live[storage] else self.size[storage]
            if len(ops) == 1 and not self.kept[storage]:
                self.freed[ops[0]] += self.size[storage]
        self.extra: list[int] = problem.extra.tolist()
        self.heap = [self._key(op) for op, count in enumerate(self.waiting) if not count]
        heapq.heapify(self.heap)

    def run(self, begun: Sequence[int] = ()) -> list[int]:
        for op in begun:
            self._step(op)
        order = list(begun)
        while self.heap:
            key = heapq.heappop(self.heap)
            op = key[2]
            if self.done[op] or key != self._key(op):
                continue
            self._step(op)
            order.append(op)
        return order

    def _key(self, op: int) -> tuple[int, int, int]:
        allocated = self.allocated[op]
        return allocated - self.freed[op], allocated + self.extra[op], op

    def _step(self, op: int) -> None:
        self.done[op] = True
        changed: set[int] = set()
        for storage in self.problem.accesses[op]:
            users, size = self.problem.accessed_by[storage], self.size[storage]
            self.left[storage] -= 1
            if not self.live[storage]:
                self.live[storage] = True
                for other in users:
                    self.allocated[other] -= size
                changed.update(users)
            if self.left[storage] == 1 and not self.kept[storage]:
                last = next(other for other in users if not self.done[other])
                self.freed[last] += size
                changed.add(last)
        for other in self.problem.successors[op]:
            self.waiting[other] -= 1
            changed.add(other)
        # Keys are total: the result does not depend on the order of insertion.
        for other in changed:
            if not self.done[other] and not self.waiting[other]:
                heapq.heappush(self.heap, self._key(other))
