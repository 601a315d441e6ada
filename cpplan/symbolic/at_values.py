"""``Plan.at``: a plan of symbolic sizes at some values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from cpplan.byte_sizes import format_bytes
from cpplan.errors import InputError
from cpplan.problem import Ints, Problem
from cpplan.symbolic.layout import SymbolicLayout
from cpplan.symbolic.sized import SizedPlan
from cpplan.symbols import check_values

if TYPE_CHECKING:
    from cpplan.plan import Plan

# Plans remembered, of each plan at its bounds.
MOST_CACHED = 256
# Seconds to plan anew where a value is beyond its bound.
GROWTH_LIMIT = 10.0


def at_values(plan: Plan, values: Mapping[str, int], *, grow: bool = False) -> SizedPlan:
    """See :meth:`cpplan.plan.Plan.at`."""
    layout = plan.symbols
    if layout is None:
        raise InputError("the plan has no symbolic dimensions")
    if plan.offset is None:
        raise InputError("there is no plan to bind: nothing that fits was found")
    key = (grow, *(values.get(name) for name in layout.dims))
    if len(values) == len(layout.dims) and key in layout.cache:
        return layout.cache[key]
    values = check_values(layout.dims, values)
    numbers = layout.table.evaluate(values)
    beyond = [
        (name, within.upper)
        for name, within in layout.dims.items()
        if within.upper is not None and values[name] > within.upper
    ]
    sized = SizedPlan(plan, values, numbers)
    if beyond:
        if not grow:
            (name, bound), needed = beyond[0], _problem(plan, layout, numbers)
            live = int(needed.live_bytes().max(initial=0))
            raise InputError(
                f"dimension {name!r} is {values[name]}, above its bound {bound}: the plan holds "
                f"{plan.peak} B, and at least {live} B ({format_bytes(live)}) would be needed"
            )
        sized = _grown(sized, layout)
    while len(layout.cache) >= MOST_CACHED:
        del layout.cache[next(iter(layout.cache))]
    layout.cache[key] = sized
    return sized


def _problem(plan: Plan, layout: SymbolicLayout, numbers: Ints) -> Problem:
    """The buffers at their new sizes; those that lie within others are part of them."""
    rows = [row for name, row in plan.row.items() if name not in layout.moving]
    names = [plan.buffers[row] for row in rows]
    size, lower, upper = plan.size[rows].copy(), plan.lower[rows].copy(), plan.upper[rows].copy()
    new = {name: k for k, name in enumerate(names)}
    for name, k in new.items():
        if name in layout.rows:
            size[k] = numbers[layout.rows[name]]
    for name in layout.moving:
        k, row = new[layout.tensors[name].buffer], plan.row[name]
        lower[k], upper[k] = min(lower[k], plan.lower[row]), max(upper[k], plan.upper[row])
    gaps = {new[plan.buffers[row]]: gap for row, gap in plan.gaps.items() if row in rows}
    held = {layout.tensors[name].buffer for name in layout.moving}
    return Problem(
        names=tuple(names),
        lower=lower,
        upper=upper,
        size=size,
        alignment=np.array([layout.alignment.get(name, 1) for name in names], np.int64),
        gaps={k: gap for k, gap in gaps.items() if names[k] not in held},
        name=plan.name,
    )


def _grown(sized: SizedPlan, layout: SymbolicLayout) -> SizedPlan:
    """Planned anew in the same order; nothing is shared but what lies within another."""
    from cpplan.pipeline import solve

    plan = sized.plan
    if len(plan.pools) > 1:
        raise InputError("a plan of several pools cannot grow: plan the graph anew")
    problem = _problem(plan, layout, sized.numbers)
    found = solve(problem, time_limit=GROWTH_LIMIT, workers=1)
    offset, size = plan.offset.copy(), plan.size.copy()  # type: ignore[union-attr]
    assert found.offset is not None
    for k, name in enumerate(problem.names):
        offset[plan.row[name]], size[plan.row[name]] = found.offset[k], problem.size[k]
    relations = tuple(r for r in plan.relations if layout.moving & {r.tensor, r.other})
    grown = replace(
        plan, offset=offset, size=size, peak=found.peak, relations=relations, lower_bound=None,
        bound_by=None, status="feasible", capacity=None, found_by=found.found_by,
    )  # fmt: skip
    return SizedPlan(grown, sized.values, sized.numbers, grown=True)
