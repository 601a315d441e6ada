"""The best order of a forest, in polynomial time: Liu's algorithm for generalized tree pebbling.

If an op's result has a single reader, the bytes that the op allocates and frees do not depend on
the order. An order of a subtree is then a sequence of *segments*, each with the bytes it rises to
and the bytes it leaves behind, and the best order of a forest merges the segments of its trees:
first the segments that leave no more bytes than they found, the lowest rise first; then the others,
the deepest fall from the highest point first. If this rule puts an op before a segment that must
precede it, the two become one segment.

Liu, "An application of generalized tree pebbling to sparse matrix factorization" (SIAM J. Alg.
Disc. Meth. 8, 1987); Abdel-Wahab and Kameda, "Scheduling to minimize maximum cumulative cost
subject to series-parallel precedence constraints" (Operations Research 26, 1978).
"""

from __future__ import annotations

import heapq

import numpy as np

from cpplan.model.order_problem import OrderProblem
from cpplan.model.problem import Ints
from cpplan.ordering.heuristics.by_depth import finished
from cpplan.ordering.heuristics.reversal import reverse_time


def tree_order(problem: OrderProblem) -> Ints | None:
    """An order of least peak if the ops form a forest, else ``None``. O(ops²) at worst.

    The ops form a forest if every op has at most one successor, and every storage is live
    throughout, or accessed by one op only, or by an op and its successor; or if all this holds in
    reversed time.
    """
    if problem.entry:
        return None  # no tree has the bytes of the first step, which any op may take
    if _is_forest(problem):
        return np.array(_merged(problem), np.int64)
    backward = reverse_time(problem)
    if _is_forest(backward):
        return np.array(_merged(backward)[::-1], np.int64)
    return None


def _is_forest(problem: OrderProblem) -> bool:
    if any(len(after) > 1 for after in problem.successors):
        return False
    return all(
        len(ops) == 1
        or (problem.present[storage] and problem.kept[storage])
        or (len(ops) == 2 and _joined(problem, *ops))
        for storage, ops in enumerate(problem.accessed_by)
    )


def _joined(problem: OrderProblem, one: int, two: int) -> bool:
    return one in problem.successors[two] or two in problem.successors[one]


class _Segment:
    """Ops that run one after another in the best order; bytes are relative to its begin."""

    __slots__ = ("key", "left", "ops", "rise")

    def __init__(self, rise: int, left: int, ops: list[int]):
        self.rise, self.left, self.ops = rise, left, ops
        self.key = (0, rise) if left <= 0 else (1, left - rise)

    def followed_by(self, other: _Segment) -> _Segment:
        self.ops.extend(other.ops)
        return _Segment(max(self.rise, self.left + other.rise), self.left + other.left, self.ops)


def _merged(problem: OrderProblem) -> list[int]:
    roots = [op for op, after in enumerate(problem.successors) if not after]
    segments: dict[int, list[_Segment]] = {}
    for op in finished(roots, problem.predecessors):
        before = [segments.pop(child) for child in problem.predecessors[op]]
        merged = list(heapq.merge(*before, key=lambda segment: segment.key))
        allocated, freed = _change(problem, op)
        last = _Segment(allocated + int(problem.extra[op]), allocated - freed, [op])
        while merged and merged[-1].key > last.key:
            last = merged.pop().followed_by(last)
        segments[op] = [*merged, last]
    trees = heapq.merge(*segments.values(), key=lambda segment: segment.key)
    return [op for segment in trees for op in segment.ops]


def _change(problem: OrderProblem, op: int) -> tuple[int, int]:
    """Bytes that the op allocates and frees, in every order."""
    allocated = freed = 0
    for storage in problem.accesses[op]:
        ops, size = problem.accessed_by[storage], int(problem.size[storage])
        after, before = problem.successors[op], problem.predecessors[op]
        if not problem.present[storage] and not any(other in before for other in ops):
            allocated += size
        if not problem.kept[storage] and not any(other in after for other in ops):
            freed += size
    return allocated, freed
