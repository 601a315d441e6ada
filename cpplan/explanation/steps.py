"""Ops by step, if a plan alone determines them."""

from __future__ import annotations

import numpy as np

from cpplan.model.plan import Plan
from cpplan.model.problem import Ints


def ops_by_step(plan: Plan) -> tuple[str, ...] | None:
    """Name of the op at every step, or ``None`` if the plan does not determine it.

    An op with bodies takes several steps, and a plan does not tell which ops have bodies. If a
    tensor is kept to the end, the number of steps tells if there are any.
    """
    stays = plan.outputs or (plan.inputs and plan.residency.inputs == "keep")
    if not stays or int(np.max(plan.upper, initial=0)) != len(plan.order):
        return None
    return tuple(plan.order)


def repeated_steps(plan: Plan) -> Ints:
    """Steps at which an op runs again, ascending, as far as the plan determines them."""
    seen: set[str] = set()
    again = []
    for step, op in enumerate(ops_by_step(plan) or ()):
        if op in seen:
            again.append(step)
        seen.add(op)
    return np.array(again, np.int64)
