"""``pack_pools``: the stages that place buffers in several pools, under one deadline.

Bound, heuristics; where a gap is left, in turns: hill climbing, CP-SAT on the assignment as if
bytes were a liquid, each pool of that assignment packed as a problem of its own, and CP-SAT on
everything. The objective's levels are settled one after another. A proof ends the run; so does the
deadline.
"""

from __future__ import annotations

from collections.abc import Sequence

from cpplan.model.pool import Objective
from cpplan.model.problem import Problem
from cpplan.packing.pools.objective import Level, objective_levels
from cpplan.packing.pools.pooled_packing import PooledPacking
from cpplan.packing.pools.run import PoolRun, Report
from cpplan.program.pool_candidates import check_candidates
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import TimeUpError


def pack_pools(
    problem: Problem,
    objective: Objective,
    budget: Budget,
    *,
    levels: Sequence[Level] | None = None,
    report: Report = lambda value, bound, source: None,
) -> PooledPacking:
    """The best layout found by the deadline, or by Ctrl-C.

    Parameters
    ----------
    problem
        With one pool or more.
    objective
        ``"total"``, ``"preference"`` or ``"cost"``.
    levels
        What stands for the objective, if its own levels do not: where rows stand for many buffers.
    budget
        For all of it. Without an end, the run may take for ever unless a proof ends it.
    report
        Called at every improvement with value (``None`` while nothing fits), bound, and source.

    Raises
    ------
    InputError
        If a buffer cannot lie in one of its pools, see ``check_candidates``, or the objective is
        not known.

    Examples
    --------
    >>> from cpplan.model.pool import Pool
    >>> from cpplan.runtime.deadline import Deadline
    >>> pools = Pool("fast", capacity=8), Pool("slow")
    >>> problem = Problem(("a", "b", "c"), [0, 0, 1], [2, 1, 2], [4, 8, 4], pools=pools)
    >>> packing = pack_pools(problem, "preference", Budget(Deadline(60)))
    >>> packing.status, packing.objective_value, packing.pool.tolist()
    ('optimal', (4, 4, 8), [1, 0, 0])
    """
    check_candidates(problem)
    if levels is None:
        levels = objective_levels(problem, objective)
    run = PoolRun(problem, levels, budget, report)
    try:
        run.improve()
    except TimeUpError:
        pass
    except KeyboardInterrupt:
        budget.deadline.cancel()
    return run.packing()
