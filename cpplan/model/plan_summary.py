"""Summary of a plan as a short aligned block of text, for ``str(plan)`` and ``cpplan plan``."""

from __future__ import annotations

from collections import Counter

import numpy as np

from cpplan.model.byte_sizes import format_bytes
from cpplan.model.plan_data import PlanData
from cpplan.model.printable import MESSAGE, printable


def summarize(plan: PlanData) -> str:
    """Summary of a plan, one line for each known field."""
    exact = "" if plan.peak is None or plan.peak < 10240 else f" ({plan.peak} B)"
    rows = {
        "plan": printable(plan.name),
        "status": plan.status,
        "peak": f"{format_bytes(plan.peak)}{exact}",
        "lower bound": None if plan.spills else format_bytes(plan.lower_bound),
        "moved": _moved(plan),
        "time": _time(plan),
        "gap": "unknown" if plan.gap is None else f"{plan.gap:.2%}",
        "objective": _objective(plan),
        "capacity": format_bytes(plan.capacity) if plan.capacity is not None else None,
        "pools": _pools(plan),
        "cost": _cost(plan),
        "buffers": f"{len(plan.buffers)}",
        "shared": _relations(plan),
        "steps": f"{int(np.max(plan.upper, initial=0))}",
        "method": plan.method and printable(plan.method),
        "runtime": f"{plan.runtime:.3f} s" if plan.runtime is not None else None,
        "reason": plan.message and printable(plan.message, MESSAGE),
    }
    return "\n".join(f"{key:<12} {value}" for key, value in rows.items() if value is not None)


def _moved(plan: PlanData) -> str | None:
    """Bytes moved, their bound, and the number of moves of each kind."""
    if plan.moved_bytes is None:
        return None
    kinds = Counter(move.kind for move in plan.moves if move.size)
    counts = ", ".join(
        f"{count} {kind}{'s' * (count != 1)}" for kind, count in sorted(kinds.items())
    )
    bound = ""
    if plan.moved_bytes_bound is not None:
        bound = f" (at least {format_bytes(plan.moved_bytes_bound)})"
    return f"{format_bytes(plan.moved_bytes)}{bound}" + (f": {counts}" if counts else "")


def _time(plan: PlanData) -> str | None:
    """Cycles, their bound, and the cycles of the ops alone."""
    if plan.time is None:
        return None
    return f"{plan.time:.10g} cycles (at least {plan.time_bound:.10g}), ops {plan.cost:.10g}"


def _objective(plan: PlanData) -> str | None:
    if not plan.objective_value:
        return None
    value, bound = (
        ", ".join(f"{number:g}" if isinstance(number, float) else str(number) for number in n)
        for n in (plan.objective_value, plan.objective_bound)
    )
    return f"{plan.objective}: {value}" + (f" (at least {bound})" if bound else "")


def _pools(plan: PlanData) -> str | None:
    if len(plan.pools) == 1 or plan.pool_peaks is None:
        return None
    parts = []
    for pool in plan.pools:
        used = format_bytes(plan.pool_peaks[pool.name])
        limit = "" if pool.capacity is None else f" of {format_bytes(pool.capacity)}"
        parts.append(f"{printable(pool.name)} {used}{limit}")
    return ", ".join(parts)


def _cost(plan: PlanData) -> str | None:
    if plan.cost is None or not plan.base_cost or plan.cost == plan.base_cost:
        return None
    bound = ""
    if plan.cost_bound is not None:
        bound = f" (at least +{plan.cost_bound / plan.base_cost - 1:.3%})"
    again = len(plan.order) - len(set(plan.order))
    return f"+{plan.cost / plan.base_cost - 1:.3%}{bound}, {again} ops run again"


def _relations(plan: PlanData) -> str | None:
    if not plan.relations:
        return None
    in_place = sum(relation.kind == "in place" for relation in plan.relations)
    return f"{in_place} in place, {len(plan.relations) - in_place} placed within another"
