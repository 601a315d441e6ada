"""Lower bounds for several pools that need no search, each with a name a plan can cite."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cpplan.model.levels import Level
from cpplan.model.problem import Problem
from cpplan.packing.bounds import Bound
from cpplan.packing.pools.access_bounds import least_access
from cpplan.packing.pools.fullest_steps import (
    LIVE,
    common_units,
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
    """Limits on the peaks, bytes, given that a level must not exceed ``value``.

    Examples
    --------
    >>> level = Level((0, 2), (0, 0), np.zeros((0, 2), np.int64))
    >>> lower_limits(level, 9, [None, 8])
    [None, 4]
    """
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
