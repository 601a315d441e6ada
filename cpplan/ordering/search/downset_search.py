"""Search for an order of least peak: best-first over downsets, exact if it ends by itself.

A *downset* is a set of ops closed under predecessors: the ops that may have run at some moment. The
bytes live after it do not depend on the order within it, so that each downset is visited once, by
the path with the least pressure (a bottleneck shortest path, after Dijkstra). Three rules keep the
states few:

* pressures up to a ``level`` count as equal, and the deeper state goes first;
* an op that frees at least what it allocates, and whose step fits below the level, runs at once;
* states no better than the incumbent are dropped. If no state is left, the incumbent is optimal.

If every order must reach the level, the search is exact; the level rises as states run out and is a
lower bound for every order. With a higher level, the search decides faster if any order stays below
that level (SERENITY's soft budget, Ahn et al., MLSys 2020), but proves nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpplan.model.order_problem import OrderProblem
from cpplan.model.problem import Ints
from cpplan.ordering.loops import DOWNSETS
from cpplan.runtime.compiled import prepare
from cpplan.runtime.deadline import Deadline, TimeUpError

_WORK_A_SLICE = 1_000_000
# Approximate seconds of one state, where time is counted in work.
_SECONDS_PER_STATE = 5e-6


class DownsetResult(NamedTuple):
    """The better of the incumbent and the order found, with the bound proved.

    Attributes
    ----------
    order
        Ops in order of execution, shape ``(ops,)``.
    peak
        Peak of that order, bytes.
    level
        Lower bound on every order's peak, bytes, if the level at the start was a lower bound.
    complete
        True if the search ended by itself: with an order of peak at most ``level`` or, if no
        state is left, with the incumbent.
    """

    order: Ints
    peak: int
    level: int
    complete: bool


def search_downsets(
    problem: OrderProblem,
    incumbent: Sequence[int] | Ints,
    deadline: Deadline,
    *,
    level: int,
    states: int,
) -> DownsetResult:
    """Look for an order with a smaller peak than the incumbent's.

    Parameters
    ----------
    problem
        Ops and storages.
    incumbent
        A valid order.
    deadline
        When it passes, or when ``states`` states have been made, the incumbent is returned.
    level
        Pressure that counts as equal to any lower one, bytes.
    states
        The most states to keep; memory is about ``40 + ops / 8`` bytes for each.
    """
    if not prepare(DOWNSETS, deadline):
        raise TimeUpError
    from cpplan.ordering.search import downset_kernel as kernel

    order = np.asarray(incumbent, np.int64)
    below = problem.peak(order)
    if level >= below:
        return DownsetResult(order, below, below, True)
    ops = len(problem)
    words = max(1, -(-ops // 64))
    capacity = states + 2 * ops
    done = np.zeros((capacity, words), np.uint64)
    live, peak = np.zeros(capacity, np.int64), np.zeros(capacity, np.int64)
    count, parent, ran = (np.zeros(capacity, np.int32) for _ in range(3))
    table = np.full(2 * capacity + 1, -1, np.int32)
    heap = np.zeros(capacity, np.int32)
    # The state in which nothing has run.
    live[0] = problem.base + int(problem.size[problem.present].sum())
    peak[0] = level
    table[kernel.find(done[0], done, table)] = 0
    cursor, scratch = np.array([1, 1, level, 0], np.int64), np.empty(words, np.uint64)
    accesses, first = _flatten(problem.accesses)
    before = _bit_sets(problem.predecessors, words)
    users = _bit_sets(problem.accessed_by, words)
    # Few enough states between two looks at the clock or Ctrl-C: extending a state looks at every
    # op.
    pops = max(10, _WORK_A_SLICE // (ops * words))
    status = kernel.SLICE_SPENT
    while status == kernel.SLICE_SPENT and not deadline.expired():
        used = int(cursor[0])
        status = kernel.extend(
            pops, below, problem.entry, before, problem.extra, first, accesses, problem.size,
            users, problem.present, problem.kept, done, live, peak, count, parent, ran, table,
            heap, cursor, scratch,
        )  # fmt: skip
        deadline.spend((int(cursor[0]) - used) * _SECONDS_PER_STATE)
    if status == kernel.PROVED:
        return DownsetResult(order, below, below, True)
    if status == kernel.ORDER_FOUND:
        row = int(cursor[3])
        reached = int(peak[row])
        found = np.empty(ops, np.int64)
        while row > 0:
            found[count[row] - 1] = ran[row]
            row = int(parent[row])
        return DownsetResult(found, problem.peak(found), reached, True)
    return DownsetResult(order, below, int(cursor[2]), False)


def _bit_sets(sets: Sequence[Sequence[int]], words: int) -> NDArray[np.uint64]:
    """Sets as rows of 64-bit words, shape ``(sets, words)``."""
    members, first = _flatten(sets)
    rows = np.repeat(np.arange(len(sets)), np.diff(first))
    flags = np.zeros((len(sets), words * 64), bool)
    flags[rows, members] = True
    return np.packbits(flags, axis=1, bitorder="little").view(np.uint64)


def _flatten(sets: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """Members, one set after another, and the start of each set (with the end of the last)."""
    first = np.cumsum([0, *map(len, sets)]).astype(np.int64)
    return np.fromiter((k for members in sets for k in members), np.int64, first[-1]), first
