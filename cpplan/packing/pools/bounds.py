"""Lower bounds for several pools that need no search, each with a name a plan can cite."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cpplan.model.problem import Problem
from cpplan.packing.bounds import Bound
from cpplan.packing.pools.access_bounds import least_access
from cpplan.packing.pools.fullest_steps import (
    LIVE,
    common_units,
    least_peak,
    live_profile,
)
from cpplan.packing.pools.objective import Level, objective_levels

ACCESSES, OUTSIDE = "accesses", "live bytes beyond the preferred pools"


def objective_bound(
    problem: Problem, objective: str, value: Sequence[int | float], floor: int = 0
) -> tuple[tuple[int | float, ...], tuple[str, ...]]:
    """A bound on the objective, level by level, and what proves each.

    Parameters
    ----------
    value
        What a layout costs: where its former levels meet their bounds, the next one's bound holds
        for all layouts that do as well in those.
    floor
        Bytes that all pools together are known to need.

    Examples
    --------
    >>> from cpplan.model.pool import Pool
    >>> pools = Pool("fast", capacity=8), Pool("slow")
    >>> two = Problem(("a", "b"), [0, 0], [1, 1], [4, 8], pools=pools)
    >>> objective_bound(two, "preference", (4, 4, 8))[0]
    (4, 4, 8)
    """
    return bound_levels(problem, objective_levels(problem, objective), value, floor)


def bound_levels(
    problem: Problem, levels: Sequence[Level], value: Sequence[int | float], floor: int = 0
) -> tuple[tuple[int | float, ...], tuple[str, ...]]:
    """:func:`objective_bound` of these levels."""
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
    """Limits on the peaks once a level may not exceed ``value``.

    Examples
    --------
    >>> level = Level((0, 2), (0, 0), np.zeros((0, 2), np.int64))
    >>> lower_limits(level, 9, [None, 8])
    [None, 4]
    """
    if level.rows is not None:
        return list(limits)  # other buffers may end anywhere
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
        Bytes that all pools together are known to need.
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
    """A bound on the bytes beyond the capacities, all pools together; positive if nothing fits.

    The value is a sum over pools; ``step`` is where it shows first.

    Examples
    --------
    >>> from cpplan.model.pool import Pool
    >>> pools = Pool("fast", capacity=7), Pool("slow", capacity=4)
    >>> two = Problem(("a", "b"), [0, 0], [1, 1], [8, 6], pools=pools)
    >>> excess_bound(two)
    Bound(value=3, name='live bytes', step=0)
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
                # What lies elsewhere instead may miss less: one byte is all that is proved.
                best = alone._replace(value=1)
    return best


def _spread(problem: Problem, level: Level, limits: Sequence[int | None]) -> Bound:
    """The least that the bytes live at one step cost, spread over the pools at will.

    Rounded to the alignment that all offsets share, each pool's topmost rounding left out.
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
    """Cost of an amount of bytes in the cheapest pools; bytes that none holds cost nothing."""
    cost = 0
    for price, limit in sorted(zip(weight, limits, strict=True), key=lambda pair: pair[0]):
        part = amount if limit is None else min(amount, limit)
        cost += price * part
        amount -= part
    return cost
