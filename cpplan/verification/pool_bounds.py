"""Bounds on the levels of an objective of several pools, proved again from the buffers alone.

A level is bounded by the sum of three lower bounds:

* on the cost of the peaks: the bytes that one pool must hold because they may lie nowhere else, or
  because the other pools are full; or the cost of all bytes live at a step, in the cheapest pools;
* on the cost of the buffers: each in the pool in which it costs least;
* on the extra cost of buffers that must lie elsewhere, because the pools in which they cost least
  cannot hold all bytes live at a step.

None of these is a search: if the largest sum of sizes within a limit would take too long to find,
the limit itself is used.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np

from cpplan.model.problem import Ints, Problem
from cpplan.verification.pool_objective import Level, objective_levels
from cpplan.verification.rectangles import Rectangles, cut_gaps

Limits = Sequence[int | None]

# Sums of sizes are bits of an integer; most bits shifted for one pool or one set of pools.
_MOST_BITS = 2**32


def proved_levels(
    problem: Problem, objective: str, value: Sequence[int | float], shared: int = 0
) -> tuple[int | float, ...]:
    """Lower bounds on the levels: no layout's levels, compared as tuples, are below them."""
    bounds = _PoolBounds(problem)
    proved: list[int | float] = []
    limits = bounds.capacities
    for level, reached in zip(objective_levels(problem, objective), value, strict=True):
        least = bounds.of(level, limits, shared)
        proved.append(level.shown(least))
        limits = _limits_at(level, least, limits) if proved[-1] == reached else bounds.capacities
    return tuple(proved)


def proved_total(problem: Problem) -> int:
    """Bytes that all pools together need at least."""
    bounds = _PoolBounds(problem)
    return bounds.of(objective_levels(problem, "total")[0], bounds.capacities, 0)


def _limits_at(level: Level, steps: int, limits: Limits) -> list[int | None]:
    """Limits on the peaks if the level may cost at most ``steps``."""
    if level.rows is not None:
        return list(limits)  # buffers outside the level's rows may end anywhere
    left = steps - sum(min(costs.values()) for costs in level.per_buffer)
    new = [left // cost if cost else None for cost in level.per_byte]
    return [_smallest(pair) for pair in zip(new, limits, strict=True)]


def _smallest(limits: Iterable[int | None]) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)


class _PoolBounds:
    """Bounds on the pools that the buffers of a problem need, as rectangles."""

    def __init__(self, problem: Problem):
        self.problem = problem
        self.rectangles = cut_gaps(problem)
        self.capacities: Limits = [pool.capacity for pool in problem.pools]
        self.units = sorted({1, _common_alignment(problem)})

    def of(self, level: Level, limits: Limits, shared: int) -> int:
        """Steps that a level costs at least, if no peak is above its limit."""
        if level.rows is not None:
            # Without what accesses cost: their bytes alone, as if there were no others.
            some = _PoolBounds(self.problem.subset(np.array(level.rows, np.int64)))
            return some.of(Level(level.per_byte, ()), limits, 0)
        pools = range(len(level.per_byte))
        alone = sum(
            level.per_byte[pool] * self._peak(pool, limits)
            for pool in pools
            if level.per_byte[pool]
        )
        live = max(_cheapest(shared, level, limits), self._live_anywhere(level, limits))
        at_best = sum(min(costs.values()) for costs in level.per_buffer)
        return max(alone, live) + at_best + self._driven_out(level, limits)

    def _peak(self, pool: int, limits: Limits) -> int:
        """Bytes that one pool must hold while the others stay within their limits."""
        problem = self.problem
        others = [limit for k, limit in enumerate(limits) if k != pool]
        here, movable = np.zeros(len(problem), bool), np.zeros(len(problem), bool)
        least = 0
        for row, size in enumerate(problem.size.tolist()):
            end = problem.fixed.get(row, 0) + size
            may_go = problem.candidates_of(row)
            here[row] = pool in may_go
            rooms = [limits[k] for k in may_go if k != pool]
            movable[row] = any(room is None or end <= room for room in rooms)
            if here[row] and not movable[row]:
                least = max(least, end)
        if None in others:
            here &= ~movable
        room = sum(limit for limit in others if limit is not None)
        for unit in self.units:
            # A limit may lie within a unit, and that pool's topmost buffer may end in the unit.
            wider = room + len(others) * (unit - 1)
            least = max(least, self._left_over(here, movable, wider, unit, least))
        return least

    def _left_over(
        self, here: np.ndarray, movable: np.ndarray, room: int, unit: int, least: int
    ) -> int:
        """Bytes, if more than ``least``, that some step leaves if ``room`` bytes lie elsewhere.

        Only offsets at multiples of ``unit`` count, with sizes rounded up. The rounding of the
        topmost buffer need not lie in the pool.
        """
        part = _aligned(self.rectangles, unit)
        part = _those(part, here[part.buffer])
        moves, held = movable[part.buffer], part.end - part.begin
        rounded = -(-held // unit) * unit
        steps = np.unique(np.concatenate([part.lower, part.upper]))
        live = _live(steps, part, rounded)
        retentions = _live(steps, part, np.where(moves, 0, rounded))
        at_least = retentions + np.maximum(0, live - retentions - room)
        work = _MOST_BITS
        for k in np.lexsort((-live, -at_least)).tolist():
            if live[k] <= least or (work <= 0 and at_least[k] <= least):
                continue
            now = (part.lower <= steps[k]) & (steps[k] < part.upper)
            sizes = rounded[now & moves].tolist()
            elsewhere = min(room, sum(sizes))
            if room < sum(sizes):
                work -= _shifted_bits(sizes, room)
                elsewhere = _fullest(sizes, room) if work > 0 else room
            topmost = int((rounded - held)[now].max(initial=0))
            least = max(least, int(live[k]) - elsewhere - topmost)
        return least

    def _live_anywhere(self, level: Level, limits: Limits) -> int:
        """Steps that live bytes cost in the cheapest pools; each pool rounds its topmost buffer."""
        best = 0
        for unit in self.units:
            part = _aligned(self.rectangles, unit)
            held = part.end - part.begin
            rounding = -held % unit
            steps = np.unique(part.lower)
            live = _live(steps, part, held + rounding)
            for k in np.argsort(-live).tolist():
                if _cheapest(int(live[k]), level, limits) <= best:
                    break
                now = (part.lower <= steps[k]) & (steps[k] < part.upper)
                topmost = sum(heapq.nlargest(len(limits), rounding[now].tolist()))
                best = max(best, _cheapest(int(live[k]) - topmost, level, limits))
        return best

    def _driven_out(self, level: Level, limits: Limits) -> int:
        """Extra steps that buffers cost because the cheapest pools cannot hold all of them.

        For each set of pools: a buffer that costs less in each pool of the set than in any other
        pool pays the difference if it leaves the set.
        """
        leaving: dict[frozenset[int], dict[int, int]] = defaultdict(dict)
        for row, costs in enumerate(level.per_buffer):
            prices = sorted(set(costs.values()))
            for cheaper, dearer in pairwise(prices):
                inside = frozenset(pool for pool, cost in costs.items() if cost <= cheaper)
                leaving[inside][row] = dearer - cheaper
        return sum(
            self._leave(inside, price, [limits[pool] for pool in inside])
            for inside, price in leaving.items()
        )

    def _leave(self, inside: frozenset[int], price: dict[int, int], rooms: Limits) -> int:
        """Fewest steps that buffers pay for leaving some pools with these limits."""
        room = [limit for limit in rooms if limit is not None]
        if len(room) < len(rooms):
            return 0
        size = self.problem.size.tolist()
        too_large = {row for row in price if size[row] > max(room)}
        sure = sum(price[row] for row in too_large)
        leaver, retained = np.zeros(len(size), bool), np.zeros(len(size), bool)
        leaver[[row for row in price if row not in too_large]] = True
        retained[[row for row in range(len(size)) if self._only_in(row, inside)]] = True
        part = _those(self.rectangles, (leaver | retained)[self.rectangles.buffer])
        demands = list(_demands(part, leaver[part.buffer], sum(room)))
        payers = _whole_spans(_those(part, leaver[part.buffer]), size)
        if not payers:
            return sure
        rate = min(Fraction(price[row], size[row]) for row in payers)
        return sure + math.ceil(rate * _least_paid(list(payers.values()), demands))

    def _only_in(self, row: int, inside: frozenset[int]) -> bool:
        return inside.issuperset(self.problem.candidates_of(row))


def _common_alignment(problem: Problem) -> int:
    """Greatest number of bytes that divides all offsets in all pools."""
    own = set(problem.alignment.tolist())
    return math.gcd(*(math.lcm(one, pool.alignment) for one in own for pool in problem.pools)) or 1


def _those(rectangles: Rectangles, chosen: np.ndarray) -> Rectangles:
    return Rectangles(*(column[chosen] for column in rectangles))


def _aligned(rectangles: Rectangles, unit: int) -> Rectangles:
    """Rectangles that begin at multiples of a unit relative to their buffer."""
    return _those(rectangles, rectangles.begin % unit == 0)


def _live(steps: Ints, rectangles: Rectangles, held: Ints) -> Ints:
    """Bytes live at the given steps: bytes begun less bytes ended."""
    live = np.zeros(len(steps), np.int64)
    for times, sign in ((rectangles.lower, 1), (rectangles.upper, -1)):
        by_time = np.argsort(times)
        sums = np.concatenate([[0], np.cumsum(held[by_time])])
        live += sign * sums[np.searchsorted(times[by_time], steps, side="right")]
    return live


def _cheapest(amount: int, level: Level, limits: Limits) -> int:
    """Steps that ``amount`` bytes cost, filling the cheapest pools first; the rest is free."""
    steps = 0
    for cost, limit in sorted(zip(level.per_byte, limits, strict=True), key=lambda pool: pool[0]):
        held = amount if limit is None else min(amount, limit)
        steps, amount = steps + cost * held, amount - held
    return steps


def _fullest(sizes: Sequence[int], room: int) -> int:
    """Largest sum of some of the sizes that is at most ``room``."""
    unit = math.gcd(*sizes) or 1
    most = room // unit
    sums = 1  # bit k: some of the sizes add up to k units
    for size in sizes:
        sums |= sums << size // unit
        sums &= (2 << most) - 1
    return unit * (sums.bit_length() - 1)


def _shifted_bits(sizes: Sequence[int], room: int) -> int:
    return len(sizes) * (max(0, room) // (math.gcd(*sizes) or 1))


def _demands(part: Rectangles, leaves: np.ndarray, room: int) -> Iterator[tuple[int, int]]:
    """Steps with more live bytes than ``room``, in order, and the bytes that must lie elsewhere.

    Only steps after which a rectangle ends are listed: the rectangles live at any other step are
    also live at the next such step.
    """
    held = part.end - part.begin
    begins, ends = np.unique(part.lower), np.unique(part.upper)
    following = np.append(begins[1:], part.upper.max(initial=0))
    ended = np.searchsorted(ends, following, "right") > np.searchsorted(ends, begins, "right")
    steps = begins[ended]
    missing = _live(steps, part, held) - room
    steps, missing = steps[missing > 0], missing[missing > 0]
    work = _MOST_BITS
    for k in np.argsort(-missing, kind="stable").tolist():
        now = (part.lower <= steps[k]) & (steps[k] < part.upper)
        sizes = held[now & leaves].tolist()
        left = room - int(held[now & ~leaves].sum())
        work -= _shifted_bits(sizes, left)
        if work <= 0:
            break
        if left > 0:
            missing[k] = sum(sizes) - _fullest(sizes, left)
    yield from zip(steps.tolist(), missing.tolist(), strict=True)


def _whole_spans(part: Rectangles, size: Sequence[int]) -> dict[int, tuple[int, int, int]]:
    """Row -> first step and step after the last step at which the buffer holds bytes, and size."""
    spans: dict[int, tuple[int, int, int]] = {}
    for row, lower, upper in zip(*(c.tolist() for c in part[:3]), strict=True):
        first, end, _ = spans.get(row, (lower, upper, 0))
        spans[row] = min(first, lower), max(end, upper), size[row]
    return spans


def _least_paid(spans: Sequence[tuple[int, int, int]], demands: Iterable[tuple[int, int]]) -> int:
    """Fewest bytes that meet every demand, each byte paid once for all steps of its lifespan.

    At each step, the buffers that live longest from there pay: their bytes count at most later
    steps.
    """
    coming = sorted(spans, reverse=True)
    unpaid: list[tuple[int, int]] = []  # a heap of (-end, bytes)
    paid: list[tuple[int, int]] = []  # a heap of (end, bytes)
    total = standing = 0
    for step, demand in demands:
        while coming and coming[-1][0] <= step:
            _, end, size = coming.pop()
            heapq.heappush(unpaid, (-end, size))
        while paid and paid[0][0] <= step:
            standing -= heapq.heappop(paid)[1]
        while standing < demand and unpaid and -unpaid[0][0] > step:
            end, size = heapq.heappop(unpaid)
            part = min(size, demand - standing)
            if part < size:
                heapq.heappush(unpaid, (end, size - part))
            heapq.heappush(paid, (-end, part))
            total, standing = total + part, standing + part
    return total
