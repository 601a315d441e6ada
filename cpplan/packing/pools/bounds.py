"""Lower bounds for several pools that need no search, each with a name a plan can cite.

Lower bounds on the access cost, because the cheapest pools cannot hold all buffers.

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
from cpplan.packing.bounds import Bound
from cpplan.packing.pools.fullest_steps import (
    LIVE,
    MOST_BITS,
    common_units,
    largest_sum,
    least_peak,
    live_profile,
)
from cpplan.packing.pools.objective import objective_levels

ACCESSES, OUTSIDE = "accesses", "live bytes beyond the preferred pools"


def objective_bound(
    problem: Problem, objective: str, value: Sequence[int | float]
) -> tuple[tuple[int | float, ...], tuple[str, ...]]:
    """A bound on every level of the objective, and the name of each bound.

    Parameters
    ----------
    value
        Values of a layout at all levels. If the earlier levels meet their bounds, the bound of the
        next level holds for all layouts with the same values on the earlier ones.

    Examples
    --------
    >>> from cpplan.model.pool import Pool
    >>> pools = Pool("fast", capacity=8), Pool("slow")
    >>> two = Problem(("a", "b"), [0, 0], [1, 1], [4, 8], pools=pools)
    >>> objective_bound(two, "preference", (4, 4, 8))[0]
    (4, 4, 8)
    """
    return bound_levels(problem, objective_levels(problem, objective), value)


def bound_levels(
    problem: Problem, levels: Sequence[Level], value: Sequence[int | float], floor: int = 0
) -> tuple[tuple[int | float, ...], tuple[str, ...]]:
    """A bound on every given level, as :func:`objective_bound` has it, and the names."""
    limits: list[int | None] = [pool.capacity for pool in problem.pools]
    bounds: list[int | float] = []
    names: list[str] = []
    for level, reached in zip(levels, value, strict=True):
        bound = level_bound(problem, level, limits, floor)
        bounds.append(level.shown(bound.value))
        names.append(bound.name)
        if bounds[-1] == reached:
            limits = lower_limits(level, bound.value, limits)
        else:
            limits = [pool.capacity for pool in problem.pools]
    return tuple(bounds), tuple(names)


def lower_limits(level: Level, value: int, limits: Sequence[int | None]) -> list[int | None]:
    """Limits on the peaks, bytes, given that a level must not exceed ``value``."""
    if level.rows is not None:
        return list(limits)  # buffers that the level does not count may end anywhere
    left = value - int(level.access.min(axis=1).sum())
    found: list[int | None] = []
    for weight, beyond, limit in zip(level.weight, level.beyond, limits, strict=True):
        new = beyond + left // weight if weight else None
        found.append(min((at for at in (limit, new) if at is not None), default=None))
    return found


def level_bound(
    problem: Problem, level: Level, limits: Sequence[int | None], floor: int = 0
) -> Bound:
    """The best bound on one level, in its units.

    Parameters
    ----------
    limits
        The largest peak each pool may have, bytes, or ``None``.
    floor
        Proved lower bound on the bytes of all pools together.
    """
    least, more = least_access(problem, level, limits)
    counted, floor = level.counted(problem), 0 if level.rows is not None else floor
    best = Bound(0, ACCESSES if least else LIVE)
    total = 0
    for pool, (weight, beyond) in enumerate(zip(level.weight, level.beyond, strict=True)):
        if weight:
            alone = least_peak(counted, pool, limits)
            part = weight * max(0, alone.value - beyond)
            total += part
            if part:
                best = alone._replace(value=total)
    if not any(level.beyond):
        others = (
            _spread(counted, level, limits),
            Bound(_cheapest(floor, level.weight, limits), LIVE),
        )
        best = max(best, *others, key=lambda bound: bound.value)
    if more:
        name = OUTSIDE if best.value == 0 else f"{best.name} and {OUTSIDE}"
        best = Bound(best.value + more, name)
    return best._replace(value=best.value + least)


def excess_bound(problem: Problem) -> Bound:
    """A bound on the bytes beyond the capacities; positive only if no layout fits.

    The value is a sum over the pools; ``step`` is the step that shows it.
    """
    limits = [pool.capacity for pool in problem.pools]
    best = Bound(0, LIVE)
    if None not in limits:
        everything = sum(limit for limit in limits if limit is not None)
        times, live = problem.live_profile()
        most = int(live.max(initial=0))
        if most > everything:
            step = int(times[np.argmax(live)])
            best = Bound(most - everything, LIVE, step)
    for pool, limit in enumerate(limits):
        if limit is not None and best.value == 0:
            alone = least_peak(problem, pool, limits)
            if alone.value > limit:
                # Other layouts may miss fewer bytes in other pools; only one byte is proved.
                best = alone._replace(value=1)
    return best


def _spread(problem: Problem, level: Level, limits: Sequence[int | None]) -> Bound:
    """The least cost of the bytes live at one step, if each byte may lie in any pool.

    Sizes are rounded up to the alignment common to all offsets; the topmost buffer of each pool
    counts without its padding.
    """
    best = Bound(0, LIVE)
    spans = problem.spans
    for unit in common_units(problem):
        counted = (spans.end > spans.begin) & (spans.begin % unit == 0)
        held = (spans.end - spans.begin)[counted]
        rounding = -held % unit
        lower, upper = spans.lower[counted], spans.upper[counted]
        times, live = live_profile(lower, upper, held + rounding)
        for k in np.argsort(-live, kind="stable").tolist():
            if _cheapest(int(live[k]), level.weight, limits) <= best.value:
                break
            here = (lower <= times[k]) & (times[k] < upper)
            topmost = int(np.sort(rounding[here])[-len(level.weight) :].sum())
            value = _cheapest(int(live[k]) - topmost, level.weight, limits)
            if value > best.value:
                best = Bound(value, LIVE, int(times[k]))
    return best


def _cheapest(amount: int, weight: Sequence[int], limits: Sequence[int | None]) -> int:
    """Cost of a number of bytes in the cheapest pools; bytes beyond all limits cost nothing."""
    cost = 0
    for price, limit in sorted(zip(weight, limits, strict=True), key=lambda pair: pair[0]):
        part = amount if limit is None else min(amount, limit)
        cost += price * part
        amount -= part
    return cost


def least_access(problem: Problem, level: Level, limits: Sequence[int | None]) -> tuple[int, int]:
    """Access cost of all buffers in their cheapest pools, and a lower bound on the cost beyond it.

    Parameters
    ----------
    level
        A level of the objective; its ``access`` gives the costs, in its units.
    limits
        The largest peak each pool may have, bytes, or ``None``.
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
