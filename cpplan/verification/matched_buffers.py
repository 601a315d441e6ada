"""Buffers of a plan, matched by name with the buffers that the model needs."""

from __future__ import annotations

import numpy as np

from cpplan.model.errors import VerificationError
from cpplan.model.plan import Plan
from cpplan.model.problem import Ints, Problem


def match_buffers(needed: Problem, plan: Plan, offset: Ints) -> tuple[Ints, Ints]:
    """The plan's offsets and pools, in the order of the buffers needed.

    Raises unless the plan has each buffer once, with the size and lifespan needed.
    """
    rows = _matching_rows(needed, plan)
    for column in ("size", "lower", "upper"):
        planned, wanted = np.asarray(getattr(plan, column))[rows], getattr(needed, column)
        if (planned != wanted).any():
            k = int(np.argmax(planned != wanted))
            raise VerificationError(
                f"buffer {needed.names[k]!r} has {column} {planned[k]} in the plan, but needs "
                f"{wanted[k]}"
            )
    planned_gaps = {plan.buffers[k]: sorted(gaps) for k, gaps in plan.gaps.items() if gaps}
    needed_gaps = {needed.names[k]: sorted(gaps) for k, gaps in needed.gaps.items() if gaps}
    if planned_gaps != needed_gaps:
        names = [*planned_gaps, *needed_gaps]
        name = next(name for name in names if planned_gaps.get(name) != needed_gaps.get(name))
        raise VerificationError(f"buffer {name!r} has other gaps in the plan than it needs")
    return offset[rows], np.asarray(plan.pool, np.int64)[rows]


def _matching_rows(needed: Problem, plan: Plan) -> Ints:
    """Row in the plan of each buffer needed; raises unless the plan has exactly these buffers."""
    if tuple(plan.buffers) == tuple(needed.names):
        return np.arange(len(needed), dtype=np.int64)
    row = {name: k for k, name in enumerate(plan.buffers)}
    absent = next((k for k, name in enumerate(needed.names) if name not in row), None)
    if absent is not None:
        raise VerificationError(
            f"buffer {needed.names[absent]!r}, needed from step {needed.lower[absent]}, "
            "is not in the plan"
        )
    if len(row) > len(needed):
        known = set(needed.names)
        extra = next(name for name in row if name not in known)
        raise VerificationError(f"buffer {extra!r} of the plan is not needed in the arena")
    return np.array([row[name] for name in needed.names], np.int64)
