"""Repair of a choice whose packing does not fit: gaps dropped where buffers end too high."""

from __future__ import annotations

import numpy as np

from cpplan.program.anf import Program
from cpplan.spilling.heuristics.eviction import drop_cost, drop_gaps
from cpplan.spilling.loads import Loads
from cpplan.spilling.outcome import Choice, make_choice
from cpplan.spilling.packed import Layout
from cpplan.spilling.problem import Flags, SpillProblem


def repair_choice(
    program: Program, problem: SpillProblem, choice: Choice, layout: Layout
) -> Choice | None:
    """The choice with gaps dropped at the steps of buffers that end above the fast pool.

    Half of the excess becomes free there, at the least bytes moved for each byte of room. ``None``
    if nothing ends above it, or no gap is left to drop.
    """
    if not layout.excess:
        return None
    held = _steps_above(program, problem, layout)
    loads = Loads(problem, choice.kept)
    free = problem.gap_fixed < 0
    target = problem.capacity - max(1, layout.excess // 2)
    limit = np.maximum(np.minimum(loads.load, target), problem.least_load())
    dropped = 0
    while True:
        over = np.flatnonzero(held & (loads.load > limit))
        gaps = np.zeros(0, np.int64)
        if len(over):
            step = int(over[np.argmax(loads.load[over])])
            here = (problem.gap_lower <= step) & (step < problem.gap_upper)
            gaps = np.flatnonzero(loads.kept & free & here)
            if not len(gaps):
                held[step] = False
                continue
        if not len(gaps):
            break
        cost = drop_cost(problem, loads, gaps)
        gap = int(gaps[np.argmin(cost / problem.room[problem.gap_storage[gaps]])])
        drop_gaps(loads, [gap])
        dropped += 1
    if not dropped:
        # Gaps of no length still tie two accesses to one address.
        gaps = np.flatnonzero(loads.kept & free)
        if not len(gaps):
            return None
        cost = drop_cost(problem, loads, gaps)
        drop_gaps(loads, [int(gaps[np.argmin(cost)])])
    return make_choice(problem, loads.kept, choice.found_by)


def _steps_above(program: Program, problem: SpillProblem, layout: Layout) -> Flags:
    """Steps of the ops at which a buffer lives that ends above the fast pool."""
    buffers, capacity = layout.problem, layout.problem.pools[0].capacity
    assert capacity is not None
    above = (layout.pool == 0) & (layout.offset + buffers.size > capacity)
    op_steps = np.cumsum([name in program.graph.op for name in layout.order])
    held: Flags = np.zeros(problem.steps, bool)
    for row in np.flatnonzero(above).tolist():
        lower, upper = int(buffers.lower[row]), int(buffers.upper[row])
        held[max(0, int(op_steps[lower]) - 1) : int(op_steps[upper - 1])] = True
    return held
