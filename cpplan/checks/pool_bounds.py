"""Lower bounds for several pools that need no search, each with a name a plan can cite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cpplan.checks.pool_objective import Level, objective_levels
from cpplan.problem import Ints, Problem

# Subset sums are kept as bits of one integer; so many are shifted in all, which takes about 0.1 s.
_MOST_BITS = 1 << 32

ACCESSES, FIXED, LARGEST = "accesses", "fixed offset", "largest buffer"
LIVE, BEYOND = "live bytes", "live bytes beyond the other pools"


class PoolBound(NamedTuple):
    """No layout has less than ``value``; ``step`` and ``pool`` are where that shows, if at one."""

    value: int
    name: str
    step: int | None = None
    pool: int | None = None


def objective_bound(
    problem: Problem, objective: str, value: Sequence[int | float]
) -> tuple[tuple[int | float, ...], tuple[str, ...]]:
    """A bound on the objective, level by level, and what proves each.

    Parameters
    ----------
    value
        What a layout costs: where its former levels meet their bounds, the next one's bound holds
        for all layouts that do as well in those.

    Examples
    --------
    >>> from cpplan.pool import Pool
    >>> pools = Pool("fast", capacity=8), Pool("slow")
    >>> two = Problem(("a", "b"), [0, 0], [1, 1], [4, 8], pools=pools)
    >>> objective_bound(two, "preference", (4, 8))
    ((4, 8), ('live bytes beyond the other pools', 'live bytes beyond the other pools'))
    """
    limits: list[int | None] = [pool.capacity for pool in problem.pools]
    bounds: list[int | float] = []
    names: list[str] = []
    for level, reached in zip(objective_levels(problem, objective), value, strict=True):
        bound = level_bound(problem, level, limits)
        bounds.append(level.shown(bound.value))
        names.append(bound.name)
        if bounds[-1] == reached:
            limits = lower_limits(level, bound.value, limits)
        else:
            limits = [pool.capacity for pool in problem.pools]
    return tuple(bounds), tuple(names)


def shared_objective_bound(
    problem: Problem, objective: str, value: Sequence[int | float], floor: int
) -> tuple[int | float, ...]:
    """A bound on the objective where tensors may share bytes, from one on the sum of all peaks.

    Parameters
    ----------
    value
        What a layout costs; see :func:`objective_bound`.
    floor
        Bytes that all pools together need at least, whatever is shared.

    Examples
    --------
    >>> from cpplan.pool import Pool
    >>> pools = Pool("fast", capacity=8), Pool("slow")
    >>> two = Problem(("a", "b"), [0, 0], [1, 1], [4, 8], pools=pools)
    >>> shared_objective_bound(two, "preference", (4, 8), floor=12)
    (4, 8)
    """
    if objective == "total":
        return (floor,)
    if objective == "cost":
        return (floor * min(pool.cost_per_byte for pool in problem.pools),)
    bounds: list[int] = []
    used = 0
    for number in reversed(range(len(problem.pools))):
        others = [pool.capacity for pool in problem.pools[:number]]
        room = None if None in others else used + sum(filter(None, others))
        bounds.append(0 if room is None else max(0, floor - room))
        peak = int(value[len(bounds) - 1])
        if peak != bounds[-1]:
            break
        used += peak
    return (*bounds, *[0] * (len(problem.pools) - len(bounds)))


def lower_limits(level: Level, value: int, limits: Sequence[int | None]) -> list[int | None]:
    """Limits on the peaks once a level may not exceed ``value``.

    Examples
    --------
    >>> level = Level((0, 2), (0, 0), np.zeros((0, 2), np.int64))
    >>> lower_limits(level, 9, [None, 8])
    [None, 4]
    """
    left = value - int(level.access.min(axis=1).sum())
    found: list[int | None] = []
    for weight, beyond, limit in zip(level.weight, level.beyond, limits, strict=True):
        new = beyond + left // weight if weight else None
        found.append(min((at for at in (limit, new) if at is not None), default=None))
    return found


def level_bound(problem: Problem, level: Level, limits: Sequence[int | None]) -> PoolBound:
    """The best bound on one level, in its units.

    Parameters
    ----------
    limits
        The largest peak each pool may have, bytes, or ``None``.
    """
    rows = np.arange(len(problem))
    least = sum(
        int(min(level.access[row, list(problem.candidates_of(row))])) for row in rows.tolist()
    )
    best = PoolBound(0, ACCESSES if least else LIVE)
    total = 0
    for pool, (weight, beyond) in enumerate(zip(level.weight, level.beyond, strict=True)):
        if weight:
            alone = least_peak(problem, pool, limits)
            part = weight * max(0, alone.value - beyond)
            total += part
            if part:
                best = alone._replace(value=total)
    if not any(level.beyond):
        best = max(best, _spread(problem, level, limits), key=lambda bound: bound.value)
    return best._replace(value=best.value + least)


def excess_bound(problem: Problem) -> PoolBound:
    """A bound on the bytes beyond the capacities, all pools together; positive if nothing fits.

    The value is a sum over pools; ``pool`` and ``step`` say where it shows first.

    Examples
    --------
    >>> from cpplan.pool import Pool
    >>> pools = Pool("fast", capacity=7), Pool("slow", capacity=4)
    >>> two = Problem(("a", "b"), [0, 0], [1, 1], [8, 6], pools=pools)
    >>> excess_bound(two)
    PoolBound(value=3, name='live bytes', step=0, pool=1)
    """
    limits = [pool.capacity for pool in problem.pools]
    best = PoolBound(0, LIVE)
    if None not in limits:
        everything = sum(limit for limit in limits if limit is not None)
        times, live = problem.live_profile()
        most = int(live.max(initial=0))
        if most > everything:
            step = int(times[np.argmax(live)])
            best = PoolBound(most - everything, LIVE, step, len(limits) - 1)
    for pool, limit in enumerate(limits):
        if limit is not None and best.value == 0:
            alone = least_peak(problem, pool, limits)
            if alone.value > limit:
                # What lies elsewhere instead may miss less: one byte is all that is proved.
                best = alone._replace(value=1)
    return best


def least_peak(problem: Problem, pool: int, limits: Sequence[int | None]) -> PoolBound:
    """A bound on one pool's peak, bytes, if the others' stay within their limits.

    At every step the pool holds what is live and does not fit into the others: at most the largest
    sum of live sizes that is no more than the others' limits together. Buffers that may only go to
    this pool, and those larger than each other pool that they may go to, are in it in any case.

    Where all offsets are multiples of some ``a``, sizes rounded up to ``a`` may be counted, and
    limits too, if the largest rounding in the pool is given back (only that may stick out).

    Examples
    --------
    >>> from cpplan.pool import Pool
    >>> pools = Pool("fast", capacity=7), Pool("slow")
    >>> three = Problem(("a", "b", "c"), [0, 0, 0], [1, 1, 1], [4, 5, 6], pools=pools)
    >>> least_peak(three, 1, [7, None])
    PoolBound(value=9, name='live bytes beyond the other pools', step=0, pool=1)
    """
    others = [k for k in range(len(problem.pools)) if k != pool]
    movable = np.zeros(len(problem), bool)
    allowed = np.zeros(len(problem), bool)
    for row in range(len(problem)):
        candidates = problem.candidates_of(row)
        allowed[row] = pool in candidates
        movable[row] = any(_fits(problem, row, limits[k]) for k in candidates if k != pool)
    forced = np.flatnonzero(allowed & ~movable)
    best = PoolBound(0, BEYOND if others else LIVE, None, pool)
    largest = int(problem.size[forced].max(initial=0))
    fixed = [row for row in forced.tolist() if row in problem.fixed]
    ends = [problem.fixed[row] + int(problem.size[row]) for row in fixed]
    apart = (
        PoolBound(largest, LARGEST, None, pool),
        PoolBound(max(ends, default=0), FIXED, None, pool),
    )
    # With an unlimited pool beside it, only what is forced counts.
    room = 0
    for k in others:
        limit = limits[k]
        if limit is None:
            allowed &= ~movable
        else:
            room += limit
    for unit in _units(problem):
        best = _fullest_step(problem, best, allowed, movable, room, len(others), unit)
    return max((best, *apart), key=lambda bound: bound.value)


def _fits(problem: Problem, row: int, limit: int | None) -> bool:
    return limit is None or problem.fixed.get(row, 0) + int(problem.size[row]) <= limit


def _units(problem: Problem) -> list[int]:
    """1, and the alignment that all offsets in all pools have in common."""
    pools = [pool.alignment for pool in problem.pools]
    own = np.unique(problem.alignment)
    return sorted({1, int(np.gcd.reduce([*np.lcm.outer(own, pools).ravel().tolist(), 0]) or 1)})


def _fullest_step(
    problem: Problem,
    best: PoolBound,
    allowed: np.ndarray,
    movable: np.ndarray,
    room: int,
    others: int,
    unit: int,
) -> PoolBound:
    """A step at which more than ``best`` cannot go elsewhere, if there is one."""
    spans = problem.spans
    counted = allowed[spans.buffer] & (spans.end > spans.begin) & (spans.begin % unit == 0)
    lower, upper, held, buffer = (
        column[counted] for column in (spans.lower, spans.upper, spans.end - spans.begin, spans[0])
    )
    rounded = -(-held // unit) * unit
    moves = movable[buffer]
    times, live = _profile(lower, upper, rounded)
    _, forced = _profile(lower, upper, np.where(moves, 0, rounded))
    # Each of the other pools may end anywhere within the unit in which its limit lies.
    room += others * (unit - 1)
    plain = forced + np.maximum(0, live - forced - room)
    name, bits = (BEYOND if others else LIVE), _MOST_BITS
    for k in np.lexsort((-live, -plain)).tolist():
        if live[k] <= best.value or (bits <= 0 and plain[k] <= best.value):
            continue
        here = (lower <= times[k]) & (times[k] < upper)
        goes = rounded[here & moves].tolist()
        elsewhere = min(room, sum(goes))
        if elsewhere < sum(goes):
            step = int(np.gcd.reduce(goes))
            bits -= len(goes) * (room // step)
            elsewhere = _largest_sum(goes, room, step) if bits > 0 else room
        value = int(live[k]) - elsewhere - int((rounded - held)[here].max(initial=0))
        if value > best.value:
            best = PoolBound(value, name, int(times[k]), best.pool)
    return best


def _profile(lower: Ints, upper: Ints, held: Ints) -> tuple[Ints, Ints]:
    """Steps at which something changes, and bytes live from each on."""
    times = np.unique(np.concatenate([lower, upper]))
    change = np.zeros(len(times), np.int64)
    np.add.at(change, np.searchsorted(times, lower), held)
    np.add.at(change, np.searchsorted(times, upper), -held)
    return times, np.cumsum(change)


def _largest_sum(sizes: Sequence[int], room: int, unit: int) -> int:
    """The largest sum of some of these multiples of ``unit`` that is at most ``room``.

    One bit for every sum that can be reached.
    """
    mask, reached = (1 << (room // unit + 1)) - 1, 1
    for size in sizes:
        reached |= (reached << (size // unit)) & mask
    return (reached.bit_length() - 1) * unit


def _spread(problem: Problem, level: Level, limits: Sequence[int | None]) -> PoolBound:
    """The least that the bytes live at one step cost, spread over the pools at will.

    Rounded to the alignment that all offsets share, each pool's topmost rounding left out.
    """
    best = PoolBound(0, LIVE)
    spans = problem.spans
    for unit in _units(problem):
        counted = (spans.end > spans.begin) & (spans.begin % unit == 0)
        held = (spans.end - spans.begin)[counted]
        rounding = -held % unit
        lower, upper = spans.lower[counted], spans.upper[counted]
        times, live = _profile(lower, upper, held + rounding)
        for k in np.argsort(-live, kind="stable").tolist():
            if _cheapest(int(live[k]), level.weight, limits) <= best.value:
                break
            here = (lower <= times[k]) & (times[k] < upper)
            topmost = int(np.sort(rounding[here])[-len(level.weight) :].sum())
            value = _cheapest(int(live[k]) - topmost, level.weight, limits)
            if value > best.value:
                best = PoolBound(value, LIVE, int(times[k]))
    return best


def _cheapest(amount: int, weight: Sequence[int], limits: Sequence[int | None]) -> int:
    """What so many bytes cost in the cheapest pools that hold them; what none holds, nothing."""
    cost = 0
    for price, limit in sorted(zip(weight, limits, strict=True), key=lambda pair: pair[0]):
        part = amount if limit is None else min(amount, limit)
        cost += price * part
        amount -= part
    return cost
