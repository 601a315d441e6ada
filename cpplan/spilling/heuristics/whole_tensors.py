"""Each tensor in one pool for its whole life, as planners without moves place them."""

from __future__ import annotations

import numpy as np

from cpplan.model.spill_problem import Flags, SpillProblem
from cpplan.runtime.deadline import Deadline
from cpplan.spilling.heuristics.registered import register
from cpplan.spilling.loads import Loads


@register("whole tensors")
def whole_tensors(problem: SpillProblem, deadline: Deadline) -> Flags | None:
    """Gaps kept if each tensor lies in one pool for life; the largest ones go to the fast pool.

    A tensor in the slow pool is copied to the fast one for each op that needs it there.

    Source: ExecuTorch's memory planning algorithm ``banked_greedy``, which places whole tensors,
    the largest first, and never moves them.
    """
    loads = Loads(problem, problem.gap_fixed == 1)
    if (loads.load > problem.capacity).any():
        return None
    of: dict[int, list[int]] = {}
    for gap, storage in enumerate(problem.gap_storage.tolist()):
        of.setdefault(storage, []).append(gap)
    for storage in np.argsort(-problem.room, kind="stable").tolist():
        deadline.check()
        gaps = [gap for gap in of.get(storage, ()) if not loads.kept[gap]]
        if any(problem.gap_fixed[gap] == 0 for gap in gaps):
            continue
        taken = []
        for gap in gaps:
            if not loads.fits_with(gap):
                break
            loads.keep(gap)
            taken.append(gap)
        if len(taken) < len(gaps):
            for gap in taken:
                loads.drop(gap)
    return loads.kept
