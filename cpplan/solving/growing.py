"""Plans of symbolic sizes at given values, planned again for values beyond the bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from cpplan.model.errors import InputError, error_without_plan
from cpplan.model.plan import SizedPlan
from cpplan.solving.pipeline import solve
from cpplan.symbolic.at_values import at_values

if TYPE_CHECKING:
    from cpplan.model.plan import Plan
    from cpplan.model.problem import Problem

# Seconds to plan symbolic sizes again if a value is beyond its bound.
_GROWTH_SECONDS = 10.0


def grown_at(plan: Plan, values: Mapping[str, int]) -> SizedPlan:
    """A plan at any values of its variables; see :meth:`cpplan.model.plan.Plan.at`."""
    return at_values(plan, values, grow=_grown)


def _grown(sized: SizedPlan, problem: Problem) -> SizedPlan:
    """Plan of other sizes in the same order; placements within tensors are the only aliases."""
    plan, layout = sized.plan, sized.layout
    if len(plan.pools) > 1:
        raise InputError("a plan of several pools cannot grow: plan the graph again")
    found = solve(problem, time_limit=_GROWTH_SECONDS, workers=1)
    if found.offset is None:
        raise error_without_plan(found.status, f"the plan cannot grow: {found.message}")
    assert plan.offset is not None
    offset, size = plan.offset.copy(), plan.size.copy()
    for k, name in enumerate(problem.names):
        offset[plan.row[name]], size[plan.row[name]] = found.offset[k], problem.size[k]
    relations = tuple(r for r in plan.relations if layout.moving & {r.tensor, r.other})
    grown = replace(
        plan, offset=offset, size=size, peak=found.peak, relations=relations, lower_bound=None,
        bound_by=None, certificate=None, status="feasible", capacity=None, found_by=found.found_by,
    )  # fmt: skip
    return SizedPlan(grown, sized.values, sized.numbers, grown=True)
