"""Reasons why several pools cannot hold a problem: bytes missing, pool, and buffers live there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cpplan.model.problem import Ints, Problem
from cpplan.packing.bounds import Bound
from cpplan.packing.heuristics.in_pools import PoolLayout
from cpplan.packing.pools.fullest_steps import least_peak
from cpplan.packing.pools.objective import pool_peaks
from cpplan.packing.shortfall import live_text


def explain_pool_shortfall(problem: Problem, layout: PoolLayout, bound: Bound) -> str:
    """One line for a layout that does not fit.

    Parameters
    ----------
    problem
        As given, in its own steps.
    layout
        The one with the fewest bytes beyond the capacities.
    bound
        On these bytes; positive if it is proved that nothing fits.

    Examples
    --------
    >>> from cpplan.model.pool import Pool
    >>> problem = Problem(("a", "b"), [0, 0], [1, 2], [4, 8], pools=[Pool("sram", capacity=10)])
    >>> layout = PoolLayout(np.array([0, 0]), np.array([8, 0]))
    >>> explain_pool_shortfall(problem, layout, Bound(2, "live bytes"))
    "does not fit: 2 B are missing in pool 'sram' of 10 B (live bytes); live at step 0: b (8 B), \
a (4 B)"
    """
    limits = [pool.capacity for pool in problem.pools]
    short = _short_pools(problem, limits)
    if short:
        missing, place, least = short[0]
        return (
            f"does not fit: {missing} B are missing in {_pool(problem, place)} ({least.name}); "
            f"{_live(problem, least.step, _candidates(problem, place))}"
        )
    peaks = pool_peaks(problem, layout.pool, layout.offset).tolist()
    over = [(peak - limit, -k) for k, peak in enumerate(peaks) if (limit := limits[k]) is not None]
    missing, place = max(over)
    rows = np.flatnonzero(layout.pool == -place)
    where = _live(problem, None, rows)
    if bound.value:
        return (
            f"does not fit: the best found misses {missing} B in {_pool(problem, -place)}, at "
            f"least {bound.value} B are missing in all ({bound.name}); {where}"
        )
    return (
        f"no plan within the capacities was found in time: the best misses {missing} B in "
        f"{_pool(problem, -place)}; {where}"
    )


def _short_pools(problem: Problem, limits: Sequence[int | None]) -> list[tuple[int, int, Bound]]:
    """Bytes missing, pool, and what proves it; first the one to name.

    That is a pool that would be short if all others were unlimited: the one that misses most. Else
    more room in either would help: the one that misses least.
    """
    found = []
    for others_unlimited in (True, False):
        for k, limit in enumerate(limits):
            given = [None if others_unlimited and k != j else at for j, at in enumerate(limits)]
            least = least_peak(problem, k, given)
            if limit is not None and least.value > limit:
                found.append((least.value - limit, k, least))
        if found:
            return sorted(found, key=lambda each: each[0], reverse=others_unlimited)
    return found


def _pool(problem: Problem, number: int) -> str:
    pool = problem.pools[number]
    return f"pool {pool.name!r} of {pool.capacity} B"


def _candidates(problem: Problem, number: int) -> Ints:
    rows = [row for row in range(len(problem)) if number in problem.candidates_of(row)]
    return np.array(rows, np.int64)


def _live(problem: Problem, step: int | None, rows: Ints) -> str:
    """Text that lists the buffers of these rows live at a step, or at their fullest one."""
    part = problem.subset(rows)
    if step is None:
        times, live = part.live_profile()
        step = int(times[live.argmax()]) if len(times) else 0
    return live_text(part, step)
