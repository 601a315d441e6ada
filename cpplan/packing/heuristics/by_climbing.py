"""Hill climbing over orders of first fit, after TVM's Unified Static Memory Planner."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cpplan.model.pool import Pool
from cpplan.model.problem import Ints, Problem
from cpplan.packing.bounds import lower_bound
from cpplan.packing.heuristics.greedy import conflict_counts
from cpplan.packing.heuristics.registered import register
from cpplan.packing.pools.objective import objective_levels
from cpplan.runtime.deadline import Deadline, TimeUpError

# USMP makes the same number.
MOVES = 500


@register("hill_climb")
def hill_climb(problem: Problem, deadline: Deadline) -> Ints:
    """Start with the order by size, ties by conflicts; 500 moves, or until the bound is met.

    If the deadline passes, the best layout so far is returned, if there is one. O(n²) a move.
    """
    from cpplan.packing.pools.climb import PoolClimb

    order = np.lexsort((problem.lower, -conflict_counts(problem), -problem.size))
    alone = replace(problem, pools=(Pool(),), candidates={})
    climb = PoolClimb(alone, objective_levels(alone, "total"), order, seed=0)
    try:
        climb.run(MOVES, (lower_bound(problem).value,), deadline)
    except TimeUpError:
        if climb.layout is None:
            raise
    assert climb.layout is not None
    return climb.layout.offset
