"""Which op runs at a step, as far as a plan alone tells."""

from __future__ import annotations

import numpy as np

from cpplan.model.plan import Plan
from cpplan.model.problem import Ints


def ops_by_step(plan: Plan) -> tuple[str, ...] | None:
    """Name of the op at every step, or ``None`` where the plan does not say it.

    An op with bodies spans several steps, and a plan does not list which do. Where something stays
    to the end, the number of steps tells whether there are any.

    Examples
    --------
    >>> from cpplan.model.graph import Graph, Op, Tensor
    >>> from cpplan.solving.pipeline import solve
    >>> graph = Graph("g", (Tensor("y", 8, kind="output"),), (Op("f", outputs=("y",)),))
    >>> ops_by_step(solve(graph))
    ('f',)
    """
    stays = plan.outputs or (plan.inputs and plan.residency.inputs == "keep")
    if not stays or int(np.max(plan.upper, initial=0)) != len(plan.order):
        return None
    return tuple(plan.order)


def repeated_steps(plan: Plan) -> Ints:
    """Steps at which an op runs that has run before, as far as the plan tells; ascending.

    Examples
    --------
    >>> columns = dict(lower=np.array([0]), upper=np.array([3]), size=np.array([4]))
    >>> plan = Plan("p", "unknown", ("y",), offset=None, order=("f", "g", "f"), **columns)
    >>> from dataclasses import replace
    >>> repeated_steps(replace(plan, outputs=("y",))).tolist()
    [2]
    """
    seen: set[str] = set()
    again = []
    for step, op in enumerate(ops_by_step(plan) or ()):
        if op in seen:
            again.append(step)
        seen.add(op)
    return np.array(again, np.int64)
