"""Packing: buffers with gaps, windows, alignments and fixed offsets, against every layout."""

from __future__ import annotations

import random

from cpplan import Plan, Problem, simulate, solve, verify

from .boxes import apart, boxes_of, least_height
from .case import Case, python_of
from .made import random_problem


def packing(rng: random.Random) -> Case:
    """One problem packed; now and then under a capacity."""
    problem, options = random_problem(rng, 6), {"deterministic": True, "time_limit": 3.0}
    if rng.random() < 0.2:
        options["memory_limit"] = rng.randint(0, 16)
    lines = (
        f"problem = {python_of(problem)}",
        f"plan = solve(problem, {arguments(options)})",
        "simulate(problem, plan)" if "memory_limit" not in options else "# a limit may not be met",
    )

    def false() -> list[str]:
        plan = solve(problem, **options)
        if plan.offset is not None:
            verify(problem, plan)
            simulate(problem, plan)
        return false_peak(plan, least_height(boxes_of(problem))) + false_layout(problem, plan)

    return Case(lines, false)


def arguments(options: dict[str, object]) -> str:
    """Keyword arguments as Python."""
    return ", ".join(f"{name}={python_of(value)}" for name, value in options.items())


def false_peak(plan: Plan, least: int | None) -> list[str]:
    """Assertions on peak, bound, status and limit that fail, where ``least`` is the optimum."""
    assert least is not None
    wrong = []
    if plan.lower_bound is not None and plan.lower_bound > least:
        wrong.append(f"assert plan.lower_bound <= {least}  # {plan.lower_bound}: {plan.bound_by}")
    if plan.peak is not None and plan.peak < least:
        wrong.append(f"assert plan.peak >= {least}  # {plan.peak}: {plan.found_by}")
    if plan.status == "optimal" and plan.peak != least:
        wrong.append(f"assert plan.peak == {least}  # {plan.peak}, called optimal")
    if plan.status == "infeasible" and (plan.capacity is None or plan.capacity >= least):
        wrong.append(f"assert plan.status != 'infeasible'  # {least} B fit {plan.capacity}")
    if plan.peak is not None and plan.capacity is not None and plan.peak > plan.capacity:
        wrong.append(f"assert plan.peak <= {plan.capacity}  # {plan.peak}")
    return wrong


def false_layout(problem: Problem, plan: Plan) -> list[str]:
    """Assertions on offsets that fail."""
    if plan.offset is None:
        return []
    offset = plan.offset.tolist()
    broken = apart(boxes_of(problem), offset)
    wrong = [] if broken is None else [f"assert plan.offset.tolist() != {offset}  # {broken}"]
    peak = max(
        (at + size for at, size in zip(offset, problem.size.tolist(), strict=True)), default=0
    )
    if peak != plan.peak:
        wrong.append(f"assert plan.peak == {peak}  # {plan.peak}")
    return wrong
