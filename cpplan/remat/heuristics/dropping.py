"""Greedy dropping: values are freed where most bytes are live, and computed again when read.

At the fullest position, every value that is not used there may be freed until its next reader. Then
its writer runs again, and the writer's inputs must be live: they are kept from their last use if
that fits, else computed again too. The chosen value saves the most bytes beyond the limit, added up
over all positions, for the cost of its repetition. Eviction along an order, in contrast, knows the
cost of a freed value only later, and may free values that are costly to compute again.

What was freed first may not have been worth it in the end. So values are then retained again where
that stays within the limit, the costliest first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from cpplan.model.remat_problem import RematProblem
from cpplan.remat.loops import SCHEDULES
from cpplan.remat.search.flat_problem import flatten
from cpplan.remat.search.schedule_kernel import (
    drop_values,
    none_judged,
    retain_values,
    space_for,
)
from cpplan.runtime.compiled import prepare
from cpplan.runtime.deadline import Deadline, TimeUpError

# Runs, as a multiple of the units, above which these heuristics give up a schedule.
_DROPPING_LONGEST = 8
NAME = "greedy dropping"
# Values freed between two looks at the deadline.
_STEPS = 20
# The most that retaining a value may save, in costs of the costliest unit; and levels, each half of
# the one before: values that save as much are retained first.
_MOST_AGAIN, _LEVELS = 8, 20


def drop(
    problem: RematProblem,
    start: Iterable[int],
    limit: int,
    deadline: Deadline,
    *,
    aim: float = 1.0,
    retain: bool = True,
) -> tuple[int, ...]:
    """A schedule derived from another by dropping values until it is within ``limit`` bytes.

    It exceeds the limit if no further value saves bytes. At worst O(units × storages) for each
    dropped value.

    Parameters
    ----------
    start
        A valid schedule; first runs keep its order.
    aim
        Bytes down to which values are dropped, as a part of the limit.
    retain
        False to leave free what was dropped in the end for nothing: that packs in fewer bytes.

    Raises
    ------
    TimeUpError
        If the deadline passes.
    """
    if not prepare(SCHEDULES, deadline):
        raise TimeUpError
    units = np.fromiter(start, np.int64)
    length = len(units)
    schedule = np.zeros(_DROPPING_LONGEST * len(problem) + length + 16, np.int64)
    schedule[:length] = units
    flat, random = flatten(problem), np.random.default_rng(0)
    progress, space = np.array([1.0, 0.0]), space_for(flat, len(schedule))
    judged = none_judged(flat)
    while length and progress[0]:
        deadline.check()
        length = drop_values(
            flat, int(aim * limit), schedule, length, _STEPS, progress, random, space, judged
        )
        deadline.spend(progress[1])
    limit = max(limit, problem.peak(schedule[:length].tolist()))
    least = _MOST_AGAIN * float(flat.cost.max(initial=0.0))
    for left in range(_LEVELS if retain and length > len(problem) else 0, 0, -1):
        progress[0] = length
        while progress[0] and not deadline.expired():
            length = retain_values(
                flat, limit, least if left > 1 else 0.0, schedule, length, _STEPS, progress, space
            )
            deadline.spend(progress[1])
        least /= 2
    return tuple(schedule[:length].tolist())


def without_unread_runs(
    problem: RematProblem, schedule: Sequence[int], *, joint: bool = True
) -> tuple[int, ...]:
    """The schedule without runs of a unit that runs again before any of its results is read.

    A value that is dropped until its next reader may be an output, which has none: it is then
    computed early for nothing, and again at the end.
    Neither peak nor cost is larger. O(accesses) for each round; all but the last leave out a run.
    """
    found = tuple(schedule)
    while len(found) > len(problem):
        shorter = _shorter(problem, found, first=joint)
        if joint and not problem.is_schedule(shorter):
            shorter = _shorter(problem, found, first=False)
        if len(shorter) == len(found):
            break
        found = shorter
    return found


def _shorter(problem: RematProblem, schedule: Sequence[int], *, first: bool) -> tuple[int, ...]:
    """The schedule without runs that no later run reads, first runs only if ``first`` is true."""
    runs = Counter(schedule)
    before = Counter(schedule)
    needed = set(np.flatnonzero(problem.ordering.kept).tolist())
    found: list[int] = []
    for unit in reversed(schedule):
        before[unit] -= 1
        written = problem.writes[unit]
        if runs[unit] > 1 and (before[unit] or first) and needed.isdisjoint(written):
            runs[unit] -= 1
        else:
            needed.difference_update(written)
            needed.update(problem.reads[unit])
            found.append(unit)
    return tuple(reversed(found))
