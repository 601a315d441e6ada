"""First schedules for a search: by dropping values and minimum cuts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import NamedTuple

from cpplan.model.problem import Ints
from cpplan.model.remat_problem import RematProblem
from cpplan.remat.heuristics.dropping import NAME as DROPPING
from cpplan.remat.heuristics.dropping import drop, without_unread_runs
from cpplan.remat.heuristics.minimum_cuts import NAME as CUTS
from cpplan.remat.heuristics.minimum_cuts import orders_by_need, retain_by_cuts
from cpplan.remat.objectives import Halving
from cpplan.remat.tuning import active
from cpplan.runtime.deadline import Deadline, TimeUpError

# Orders along which values are also retained by minimum cuts, besides those by need.
_CUT_ORDERS = 2
# Extra cost of a start, as a share of that of every op once, above which values are also retained
# by minimum cuts.
_CUT_EXTRA = 0.2
# Limits for them, as shares of the limit, until a schedule is within it: they do not look at
# bytes live while values are computed again.
_CUT_LIMITS = (1.0, 0.98)
# Part of the least peak known by which dropping along another order must lower it at first.
_STEP = 0.01


class Start(NamedTuple):
    """A schedule, and the name of the heuristic that made it."""

    schedule: tuple[int, ...]
    name: str


def first_schedules(
    problem: RematProblem,
    limit: int,
    orders: Iterable[Sequence[int] | Ints],
    deadline: Deadline,
    *,
    reorder: bool = True,
) -> list[Start]:
    """The best schedule derived from each order, the cheapest within ``limit`` bytes first.

    Schedules that do not fit follow by their peak. Each order is a candidate itself. When the
    deadline passes, the schedules made so far are returned.

    Parameters
    ----------
    orders
        Orders of the units, at least one; the next is asked for when the last has been tried.
    reorder
        True to try further orders, by need, if these leave much to gain.
    """
    base = problem.total_cost(range(len(problem)))
    made: dict[tuple[int, ...], list[Start]] = {}

    def rank(start: Start) -> tuple[int, int | float, int]:
        """Sort key of a start: bytes beyond the limit, then cost, then peak."""
        peak = problem.peak(start.schedule)
        return max(peak - limit, 0), problem.total_cost(start.schedule), peak

    def leaves_much(starts: Iterable[Start]) -> bool:
        """True if the best of some starts does not fit, or costs much more than every op once."""
        excess, cost, _ = min(map(rank, starts))
        return excess > 0 or cost > (1 + _CUT_EXTRA) * base

    def by_cuts(order: tuple[int, ...]) -> Iterator[Start]:
        """Yield starts along an order by minimum cuts, until one fits."""
        for part in _CUT_LIMITS:
            schedule = retain_by_cuts(problem, int(part * limit), order, deadline)
            fits = problem.peak(schedule) <= limit
            yield Start(schedule if fits else drop(problem, schedule, limit, deadline), CUTS)
            if fits:
                return

    try:
        for units in orders:
            order = tuple(int(unit) for unit in units)
            if order in made:
                continue
            starts = made[order] = [Start(order, "order")]
            if problem.peak(order) > limit:
                starts.append(Start(drop(problem, order, limit, deadline), DROPPING))
            # Where dropping is dear, a cut takes less time than to drop along all other orders.
            fits = problem.peak(starts[-1].schedule) <= limit
            if len(made) == 1 and fits and leaves_much(starts):
                starts.extend(by_cuts(order))
        if leaves_much(chain.from_iterable(made.values())):
            first = [order for order in islice(made, _CUT_ORDERS) if made[order][-1].name != CUTS]
            for order in (*first, *(orders_by_need(problem) if reorder else [])):
                if order in first or order not in made:
                    made.setdefault(order, [Start(order, "order")]).extend(by_cuts(order))
    except TimeUpError:
        pass  # schedules made until then are kept
    return sorted((min(found, key=rank) for found in made.values()), key=rank)


def smallest_by_dropping(
    problem: RematProblem,
    least: int,
    below: int,
    orders: Iterable[Sequence[int] | Ints],
    deadline: Deadline,
    *,
    most_cost: float,
    reorder: bool = True,
) -> Start | None:
    """The schedule of least peak by dropping values that costs at most ``most_cost``.

    Along the first order, limits are halved between ``least`` and ``below`` bytes; along each other
    one, they fall from the least peak so far in ever longer steps. Returns ``None`` if no schedule
    has a peak below ``below``; when the deadline passes, the best schedule so far.

    Parameters
    ----------
    reorder
        True if first runs may change places.
    """
    best: Start | None = None
    peak = below

    def lowers(order: tuple[int, ...], limit: int) -> bool:
        """True if dropping along an order ends within a limit; the schedule is kept."""
        nonlocal best, peak
        made = drop(problem, order, limit, deadline)
        made = without_unread_runs(problem, made, joint=reorder)
        if problem.total_cost(made) > most_cost or problem.peak(made) >= peak:
            return False
        best, peak = Start(made, DROPPING), problem.peak(made)
        return peak <= limit

    tried = set[tuple[int, ...]]()
    with suppress(TimeUpError):  # the schedule kept until then
        for units in orders:
            order = tuple(int(unit) for unit in units)
            if order in tried:
                continue
            tried.add(order)
            if len(tried) == 1:
                limits = Halving(least, peak, active().halvings)
                for limit in limits:
                    if not lowers(order, limit):
                        limits.missed(limit)
                    limits.high = peak
            else:
                step = _STEP
                while peak > least and lowers(order, max(least, int(peak * (1 - step)))):
                    step *= 2
    return best


def smallest_by_cuts(
    problem: RematProblem,
    least: int,
    orders: Iterable[Sequence[int] | Ints],
    deadline: Deadline,
    *,
    most_cost: float,
    reorder: bool = True,
) -> Start | None:
    """The schedule of least peak by minimum cuts that costs at most ``most_cost``.

    Limits are halved between ``least`` and the peak of each order. A schedule that exceeds its
    limit is lowered by dropping values. Returns ``None`` if no schedule is cheap enough; when the
    deadline passes, the best schedule so far.

    Parameters
    ----------
    reorder
        True to try orders by need as well.
    """
    found = list[tuple[int, int | float, tuple[int, ...]]]()
    more = orders_by_need(problem) if reorder else []

    def take(schedule: tuple[int, ...]) -> float:
        """Keep a schedule that is cheap enough; returns its peak, infinity if it is not."""
        cost = problem.total_cost(schedule)
        if cost > most_cost:
            return math.inf
        found.append((problem.peak(schedule), cost, schedule))
        return found[-1][0]

    tried = dict.fromkeys(tuple(int(unit) for unit in order) for order in (*orders, *more))
    try:
        for order in tried:
            limits = Halving(least, problem.peak(order), active().halvings)
            for limit in limits:
                made = retain_by_cuts(problem, limit, order, deadline)
                peak = take(made)
                if limit < peak < math.inf:
                    peak = take(drop(problem, made, limit, deadline))
                if peak <= limit:
                    limits.high = int(peak)
                else:
                    limits.missed(limit)
    except TimeUpError:
        pass  # schedules made until then are kept
    return Start(min(found)[2], CUTS) if found else None
