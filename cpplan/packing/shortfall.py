"""Reasons why a problem does not fit: bytes missing, and buffers live at the fullest step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cpplan.model.levels import pool_peaks
from cpplan.model.printable import printable
from cpplan.model.problem import Ints, Problem
from cpplan.packing.bounds import Bound
from cpplan.packing.heuristics.in_pools import PoolLayout
from cpplan.packing.pools.fullest_steps import least_peak

_NAMED = 8


def explain_shortfall(problem: Problem, bound: Bound, best_peak: int, capacity: int) -> str:
    """One-line message about a problem that does not fit."""
    where = _where(problem, bound)
    if bound.value <= capacity:
        return (
            f"no plan within {capacity} B was found in time: the best needs {best_peak} B, "
            f"{best_peak - capacity} B more; at least {bound.value} B are needed ({bound.name}); "
            f"{where}"
        )
    missing = bound.value - capacity
    return f"does not fit into {capacity} B: {missing} B are missing ({bound.name}); {where}"


def _where(problem: Problem, bound: Bound) -> str:
    """Text on the cause: a buffer that ends at the bound, else those live at the fullest step."""
    ends = problem.size.copy()
    for row, offset in problem.fixed.items():
        ends[row] += offset
    highest = int(np.argmax(ends))
    if bound.step is None and ends[highest] >= bound.value:
        return f"{printable(problem.names[highest])} ends at {ends[highest]} B or higher"
    times, live = problem.live_profile()
    step = bound.step if bound.step is not None else int(times[live.argmax()])
    return live_text(problem, step)


def live_text(problem: Problem, step: int) -> str:
    """Text that lists the buffers live at a step."""
    rows = problem.live_at(step).tolist()
    named = [f"{printable(problem.names[row])} ({problem.size[row]} B)" for row in rows[:_NAMED]]
    if len(rows) > _NAMED:
        named.append(f"and {len(rows) - _NAMED} more")
    return f"live at step {step}: {', '.join(named)}"


def explain_pool_shortfall(problem: Problem, layout: PoolLayout, bound: Bound) -> str:
    """One-line message about a problem without a layout that fits.

    Parameters
    ----------
    problem
        The problem as given, before any reduction.
    layout
        The layout with the fewest bytes beyond the capacities.
    bound
        Bound on these bytes; positive if it is proved that no layout fits.
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
            f"does not fit: the best layout misses {missing} B in {_pool(problem, -place)}; at "
            f"least {bound.value} B are missing in all pools together ({bound.name}); {where}"
        )
    return (
        f"no plan within the capacities was found in time: the best layout misses {missing} B in "
        f"{_pool(problem, -place)}; {where}"
    )


def _short_pools(problem: Problem, limits: Sequence[int | None]) -> list[tuple[int, int, Bound]]:
    """Bytes missing, pool and bound of every pool that is too small; the one to name comes first.

    First choice: pools too small even if all others were unlimited, by decreasing bytes missing.
    Else more room in any of several pools would help: by increasing bytes missing.
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
    """Text that lists the buffers of these rows live at a step, by default at their fullest."""
    part = problem.subset(rows)
    if step is None:
        times, live = part.live_profile()
        step = int(times[live.argmax()]) if len(times) else 0
    return live_text(part, step)
