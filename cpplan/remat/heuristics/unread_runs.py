"""Runs whose results nothing reads, which other heuristics leave in their schedules.

A value that is dropped until its next reader may be an output, which has none: it is then computed
early for nothing, and again at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from cpplan.model.remat_problem import RematProblem


def without_unread_runs(
    problem: RematProblem, schedule: Sequence[int], *, joint: bool = True
) -> tuple[int, ...]:
    """The schedule without runs of a unit that runs again before any of its results is read.

    Neither peak nor cost is larger. O(accesses) for each round; all but the last leave out a run.

    Parameters
    ----------
    joint
        True if first runs may change places, so that a later run may become the first one.
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
