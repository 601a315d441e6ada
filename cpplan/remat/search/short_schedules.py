"""Enumeration of the short schedules of a small problem.

They are tried at the end of a search. Of two schedules whose live bytes fit, one may have a packing
that fits and the other none; with several pools or aliases, live bytes are a poor guide. A problem
of few units has few schedules, so that all of them can be packed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from cpplan.model.remat_problem import RematProblem
from cpplan.runtime.deadline import Deadline

# Units up to which short schedules are tried, and most repetitions in them. There are too many
# schedules beyond that.
_SHORT_AGAIN = 3

NAME = "short schedules"
# Seconds to extend a schedule by a run, for each of its runs, for deadlines that count work.
_WORK = 1e-5


def short_schedules(
    problem: RematProblem,
    limit: float,
    most: float,
    deadline: Deadline,
    *,
    order: Sequence[int] | None = None,
    again: int | None = None,
) -> Iterator[tuple[int, ...]]:
    """Yield the schedules within ``limit`` live bytes that cost at most ``most``.

    Schedules without repetitions come first, then those with one more run, and so on.

    Parameters
    ----------
    problem
        Units and storages.
    limit
        Limit on live bytes.
    most
        Limit on the cost of a schedule.
    deadline
        Ends the enumeration with ``TimeUpError`` when it passes.
    order
        Order of the units' first runs, if it is given.
    again
        Most repetitions; by default ``RematTuning.short_again``.
    """
    again = _SHORT_AGAIN if again is None else again
    units = range(len(problem))
    before = [set(ops) for ops in problem.ordering.predecessors]
    if order is not None:
        for k, unit in enumerate(order):
            before[unit] |= set(order[:k])
    # A kept storage may be freed and computed again, so that it need not stay live until the end.
    ordering = problem.ordering
    begun = replace(problem, ordering=replace(ordering, kept=np.zeros_like(ordering.kept)))
    for longest in range(len(problem), len(problem) + again + 1):
        waiting: list[tuple[int, ...]] = [()]
        while waiting:
            schedule = waiting.pop()
            deadline.check(_WORK * (len(schedule) + 1))
            done = set(schedule)
            left = len(problem) - len(done)
            cost = problem.total_cost([*schedule, *(unit for unit in units if unit not in done)])
            if cost > most or (schedule and begun.peak(schedule) > limit):
                continue
            if len(schedule) == longest:
                if problem.peak(schedule) <= limit:
                    yield schedule
                continue
            spare = longest - len(schedule) > left
            waiting += [
                (*schedule, unit)
                for unit in reversed(units)
                if (before[unit] <= done)
                and (unit not in done or (spare and problem.repeatable[unit]))
                and unit not in schedule[-1:]
            ]
