"""Greedy eviction: values are freed when memory runs out along an order, and computed on demand.

The value is freed with the largest ``bytes × distance / price``, if it can be computed again. The
price is the cost of that, including all freed values that it needs. Before a unit reads a freed
value, the value is computed again, recursively, within the limit.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from cpplan.model.problem import Ints
from cpplan.model.remat_problem import RematProblem
from cpplan.remat.heuristics.eviction_kernel import begin_evicting, run_evicting, scratch_for
from cpplan.remat.loops import EVICTION
from cpplan.remat.search.flat_problem import flatten
from cpplan.runtime.compiled import prepare
from cpplan.runtime.deadline import Deadline, TimeUpError

# Runs, as a multiple of the units, above which these heuristics give up a schedule.
_EVICTION_LONGEST = 12

# Pairs of units and storages visited in a second, about, for deadlines that count work.
_RATE = 8e7
# Units and storages visited between two looks at the clock.
_A_TURN = 10_000_000
# Returned in place of a length by a run that has not ended.
_TO_GO_ON = -2


def evict(
    problem: RematProblem,
    order: Iterable[int],
    limit: int,
    deadline: Deadline,
    *,
    ahead: bool = True,
) -> tuple[int, ...] | None:
    """A schedule within ``limit`` bytes along an order of units; ``None`` if none is found.

    O(units × evictions) at worst.

    Parameters
    ----------
    ahead
        True if the distance of a value is the number of units of the order before its next use
        (Belady, "A study of replacement algorithms for a virtual-storage computer", 1966,
        weighted), false if it is the number of units run since its last use (Kirisame et al.,
        "Dynamic Tensor Rematerialization", ICLR 2021).

    Raises
    ------
    TimeUpError
        If the deadline passes.
    """
    deadline.check()
    units: Ints = np.fromiter(order, np.int64)
    if problem.peak(units.tolist()) <= limit:
        return tuple(units.tolist())
    if not prepare(EVICTION, deadline):
        raise TimeUpError
    flat = flatten(problem)
    runs, scratch = np.empty(_EVICTION_LONGEST * len(problem) + 16, np.int64), scratch_for(flat)
    begin_evicting(flat, units, scratch)
    length = _TO_GO_ON
    while length == _TO_GO_ON:
        deadline.check()
        length = run_evicting(flat, units, limit, ahead, runs, scratch, _A_TURN)
    deadline.spend((max(length, 0) + len(units)) * len(flat.size) / _RATE)
    # Where no value is left to free, the schedule exceeds the limit; too long a one has no length.
    found = tuple(runs[: max(length, 0)].tolist())
    return found if length >= 0 and problem.peak(found) <= limit else None
