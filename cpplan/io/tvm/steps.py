"""Storages that grow with the variables of shapes: offsets in steps, in one order.

A plan at the upper bounds holds for every size, but is as large as the largest. In steps, a run
takes the storage of the first step whose limits hold for its values: limits halve from step to
step. Every step has the plan's order and its tensors in place, so that the same kernels run; only
offsets differ. The size of a storage and the offset of a tensor are then expressions of the
variables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from cpplan.model.errors import error_without_plan
from cpplan.model.plan import Plan
from cpplan.model.problem import Problem
from cpplan.solving.pipeline import solve

# Seconds of counted work for the offsets of a step.
_STEP_SECONDS = 5.0


@dataclass(frozen=True)
class Step:
    """Offsets for all values up to some limits.

    Attributes
    ----------
    limits
        Variable -> largest value.
    offset
        Buffer of the plan -> its offset.
    bytes
        Pool -> bytes of its storage.
    """

    limits: Mapping[str, int]
    offset: Mapping[str, int]
    bytes: Mapping[str, int]


def steps_of(plan: Plan, count: int) -> tuple[Step, ...]:
    """The steps of a plan, those of the smallest limits first; the last is the plan itself."""
    assert plan.offset is not None
    dims = {} if plan.symbols is None else plan.symbols.dims
    upper = {name: dim.upper or 0 for name, dim in dims.items()}
    lower = {name: dim.lower or 0 for name, dim in dims.items()}
    peaks = plan.pool_peaks or {plan.pools[0].name: plan.peak or 0}
    last = Step(upper, dict(zip(plan.buffers, plan.offset.tolist(), strict=True)), peaks)
    found: list[Step] = []
    for halvings in range(count - 1, 0, -1):
        limits = {name: max(lower[name], -(-most >> halvings)) for name, most in upper.items()}
        if limits != upper and (not found or limits != found[-1].limits):
            found.append(_step(plan, limits))
    return (*found, last)


def _step(plan: Plan, limits: Mapping[str, int]) -> Step:
    """The step up to some limits: buffers in place of one another are packed as one."""
    layout = plan.symbols
    assert layout is not None
    numbers = layout.table.evaluate(limits)
    offset: dict[str, int] = {}
    peaks: dict[str, int] = {}
    for number, pool in enumerate(plan.pools):
        groups = [g for g in _groups(plan) if int(plan.pool[plan.row[g[0]]]) == number]
        rows = [[plan.row[name] for name in group] for group in groups]
        problem = Problem(
            tuple(group[0] for group in groups),
            lower=np.array([plan.lower[of].min() for of in rows], np.int64),
            upper=np.array([plan.upper[of].max() for of in rows], np.int64),
            size=np.array([numbers[[layout.rows[n] for n in g]].max() for g in groups], np.int64),
            alignment=np.array(
                [max(layout.alignment.get(name, 1) for name in group) for group in groups], np.int64
            ),
        )
        packed = solve(problem, time_limit=_STEP_SECONDS, deterministic=True)
        if packed.offset is None:
            raise error_without_plan(packed.status, str(packed.message))
        for group, at in zip(groups, packed.offset.tolist(), strict=True):
            offset |= dict.fromkeys(group, at)
        peaks[pool.name] = packed.peak or 0
    return Step(limits, offset, peaks)


def _groups(plan: Plan) -> Iterator[list[str]]:
    """Yield the buffers of the plan that lie in place of one another, each group once."""
    group = {name: [name] for name in plan.buffers}
    for relation in plan.relations:
        one, other = group[relation.tensor], group[relation.other]
        if one is not other:
            one += other
            group |= dict.fromkeys(other, one)
    seen: set[int] = set()
    for several in group.values():
        if id(several) not in seen:
            seen.add(id(several))
            yield several
