"""Plans made from a layout for several sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from cpplan.model.plan import Plan
from cpplan.model.plan_data import Status
from cpplan.model.problem import Ints, Problem
from cpplan.packing.bounds import lower_bound
from cpplan.packing.shortfall import explain_shortfall
from cpplan.packing.sizes.size_set import SizesLayout
from cpplan.program.anf import Program
from cpplan.program.binding import bind
from cpplan.solving.plan_maker import make_plan
from cpplan.solving.run import Run
from cpplan.solving.sizes.choices import Choices
from cpplan.solving.sizes.sizes_plan import PlannedLevel, PlannedSize, SizesPlan
from cpplan.symbolic.layout import symbolic_layout


def plan_of(
    run: Run,
    choices: Choices,
    listed: Sequence[Mapping[str, int]],
    problems: Sequence[Problem],
    rows: Ints,
    layout: SizesLayout,
) -> Plan:
    """Plan of the layout at the size with the largest arena, with its symbolic expressions.

    Parameters
    ----------
    run
        The run.
    choices
        The order, and the aliases in place used.
    listed
        The sizes.
    problems
        The packing problem at each size.
    rows
        Row of every buffer in these problems, shape ``(buffers,)``.
    layout
        The layout of these problems.
    """
    program, relations = choices
    needed: Ints = layout.lower_bound if layout.arena is None else layout.arena
    k = int(np.argmax(needed))
    here = Program(bind(program.graph, listed[k]), program.order)
    packed = run.place(here, layout.alone_offset[k][rows], layout.found_by or "no plan")
    plan = make_plan(packed, run.residency, runtime=layout.runtime or 0.0, history=())
    if relations:
        # The bound holds only without aliases.
        plan = replace(plan, lower_bound=None, bound_by=None, certificate=None)
    if layout.offset is None:
        plan = replace(
            plan, status=layout.status, offset=None, peak=None, found_by=None,
            message=_shortfall(problems, layout),
        )  # fmt: skip
    else:
        peak = int(needed[k])
        status: Status = "optimal" if peak == plan.lower_bound else "feasible"
        plan = replace(
            plan, offset=layout.offset[rows], peak=peak, status=status, relations=relations,
            sharing=("in place",) if relations else (),
        )  # fmt: skip
    found = symbolic_layout(program.graph, plan)
    return replace(plan, symbols=replace(found, sizes=tuple(listed)))


def _shortfall(problems: Sequence[Problem], layout: SizesLayout) -> str:
    """Message for a missing plan: a size that does not fit alone, or the sizes together."""
    for k, capacity in enumerate(layout.capacities):
        bound = lower_bound(problems[k])
        if capacity is not None and bound.value > capacity:
            alone = int(layout.alone[k])
            return f"{layout.labels[k]} {explain_shortfall(problems[k], bound, alone, capacity)}"
    if layout.status == "infeasible":
        return f"no layout is within all capacities: at some size {layout.bound[0]} B are missing"
    return (
        "no layout within all capacities was found in time: at some size the best layout needs "
        f"{layout.value[0]} B more"
    )


def sizes_plan_of(
    layout: SizesLayout, listed: Sequence[Mapping[str, int]], plan: Plan, runtime: float
) -> SizesPlan:
    """Plan for several sizes with the bytes needed at each, and the seconds it took."""
    limits = layout.capacities or (None,) * len(listed)
    sizes = tuple(
        PlannedSize(
            values,
            None if layout.arena is None else int(layout.arena[k]),
            int(layout.lower_bound[k]),
            int(layout.alone[k]),
            int(layout.alone_bound[k]),
            limits[k],
        )
        for k, values in enumerate(listed)
    )
    rows = zip(layout.levels, layout.value, layout.bound, strict=True)
    levels = tuple(PlannedLevel(name, int(value), int(bound)) for name, value, bound in rows)
    return SizesPlan(layout.status, sizes, levels, plan, runtime)
