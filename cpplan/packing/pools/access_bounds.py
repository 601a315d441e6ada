"""Lower bounds on the access cost, because the cheapest pools cannot hold all buffers.

Sort the candidate pools of every buffer by its cost there. A buffer pays the cost of its first
pool. For each k, if it lies in none of the first k pools, it also pays the difference between the
costs of the k-th and the next. Take the buffers whose first k pools are the set S. If more bytes
are live at a step than S can hold, some of these buffers lie elsewhere. To choose them with the
fewest bytes is a covering problem: every step has a deficit, and a buffer that lies elsewhere
covers at most its size at every step of its lifespan. The relaxation with fractions and one price
a byte is solved exactly by a sweep over the steps that takes the buffers with the latest end.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from cpplan.model.levels import Level
from cpplan.model.problem import Ints, Problem
from cpplan.packing.pools.fullest_steps import MOST_BITS, largest_sum, live_profile


def least_access(problem: Problem, level: Level, limits: Sequence[int | None]) -> tuple[int, int]:
    """Access cost of all buffers in their cheapest pools, and a lower bound on the cost beyond it.

    Parameters
    ----------
    level
        A level of the objective; its ``access`` gives the costs, in its units.
    limits
        The largest peak each pool may have, bytes, or ``None``.

    Examples
    --------
    Of 4, 5 and 6 bytes live at once, 7 bytes hold 6 at most; the other 9 cost one each.

    >>> from cpplan.model.pool import Pool
    >>> pools = Pool("fast", capacity=7), Pool("slow")
    >>> three = Problem(("a", "b", "c"), [0, 0, 0], [1, 1, 1], [4, 5, 6], pools=pools)
    >>> level = Level((0, 0), (0, 0), np.array([[0, 4], [0, 5], [0, 6]]))
    >>> least_access(three, level, [7, None])
    (0, 9)
    """
    if not level.access.any():
        return 0, 0
    least = 0
    leaving: dict[frozenset[int], dict[int, int]] = defaultdict(dict)
    everywhere: list[frozenset[int]] = []
    for row in range(len(problem)):
        costs = level.access[row].tolist()
        pools = sorted(problem.candidates_of(row), key=costs.__getitem__)
        everywhere.append(frozenset(pools))
        least += costs[pools[0]]
        for k in range(1, len(pools)):
            step = costs[pools[k]] - costs[pools[k - 1]]
            if step:
                leaving[frozenset(pools[:k])][row] = step
    more = 0
    for inside, price in leaving.items():
        room = [limits[k] for k in inside]
        if None not in room:
            kept = [row for row, pools in enumerate(everywhere) if pools <= inside]
            more += _least_outside(problem, price, kept, [at for at in room if at is not None])
    return least, more


def _least_outside(
    problem: Problem, price: dict[int, int], kept: Sequence[int], room: Sequence[int]
) -> int:
    """Lower bound on the cost of buffers that do not fit into some pools.

    ``price`` has the cost of lying elsewhere for each buffer that can, ``kept`` are the buffers
    that cannot, and ``room`` the limits of the pools, bytes.
    """
    large = [row for row in price if problem.size[row] > max(room)]
    paid = sum(price[row] for row in large)
    leaves = np.zeros(len(problem), bool)
    leaves[list(price)] = True
    leaves[large] = False
    rows = np.flatnonzero(leaves & (problem.size > 0))
    counted = leaves.copy()
    counted[kept] = True
    times, deficit = _deficits(problem, counted, leaves, sum(room))
    # From the first step with bytes to the last. Gaps count as covered too, which keeps the bound.
    spans = problem.spans
    holds = spans.end > spans.begin
    lower, upper = problem.upper.copy(), problem.lower.copy()
    np.minimum.at(lower, spans.buffer[holds], spans.lower[holds])
    np.maximum.at(upper, spans.buffer[holds], spans.upper[holds])
    rows = rows[lower[rows] < upper[rows]]
    if not len(rows):
        return paid
    covered = _cover(lower[rows], upper[rows], problem.size[rows], times, deficit)
    # Price all bytes like the cheapest one; round up, since costs are integers.
    per_byte = [(price[row], int(problem.size[row])) for row in rows.tolist()]
    paid += min(-(-covered * cost // size) for cost, size in per_byte)
    return paid


def _deficits(
    problem: Problem, counted: np.ndarray, leaves: np.ndarray, room: int
) -> tuple[list[int], list[int]]:
    """Steps at which more than ``room`` bytes are live, and the bytes that must leave there."""
    spans = problem.spans
    here = counted[spans.buffer] & (spans.end > spans.begin)
    lower, upper, held = spans.lower[here], spans.upper[here], (spans.end - spans.begin)[here]
    goes = leaves[spans.buffer[here]]
    times, live = live_profile(lower, upper, held)
    # Skip steps whose live set is contained in that of a neighbouring step.
    full = np.isin(times[:-1], lower) & np.isin(times[1:], upper)
    deficit = live[:-1] - room
    steps = np.flatnonzero(full & (deficit > 0))
    bits = MOST_BITS
    for k in steps[np.argsort(-deficit[steps], kind="stable")].tolist():
        now = (lower <= times[k]) & (times[k] < upper)
        sizes = held[now & goes].tolist()
        left = room - int(held[now & ~goes].sum())
        unit = int(np.gcd.reduce(sizes)) if sizes else 1
        bits -= len(sizes) * (max(0, left) // unit)
        if bits <= 0:
            break
        if left > 0:
            deficit[k] += left - largest_sum(sizes, left, unit)
    return times[steps].tolist(), deficit[steps].tolist()


def _cover(lower: Ints, upper: Ints, size: Ints, times: list[int], deficit: list[int]) -> int:
    """The fewest bytes that cover every deficit, at most its size from each interval.

    O(n log n).
    """
    rows = np.argsort(lower, kind="stable").tolist()
    starts, ends, sizes = lower.tolist(), upper.tolist(), size.tolist()
    waiting: list[tuple[int, int, int]] = []
    paid: list[tuple[int, int]] = []
    total = now = first = 0
    for time, needed in zip(times, deficit, strict=True):
        while first < len(rows) and starts[rows[first]] <= time:
            row = rows[first]
            heapq.heappush(waiting, (-ends[row], row, sizes[row]))
            first += 1
        while paid and paid[0][0] <= time:
            now -= heapq.heappop(paid)[1]
        while now < needed and waiting and -waiting[0][0] > time:
            end, row, left = heapq.heappop(waiting)
            part = min(left, needed - now)
            total, now = total + part, now + part
            heapq.heappush(paid, (-end, part))
            if part < left:
                heapq.heappush(waiting, (end, row, left - part))
    return total
