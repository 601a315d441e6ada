"""The trade-off curve of bytes moved, or of time, against the capacity of the fast pool."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cpplan.comparison.spill_comparison import ordered_program
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph
from cpplan.model.plan import Plan
from cpplan.model.plan_data import of_point
from cpplan.model.pool import Pool, check_pools
from cpplan.model.residency import choose_residency
from cpplan.model.spill_problem import SpillProblem
from cpplan.program.anf import Program
from cpplan.runtime.deadline import Deadline, TimeUpError
from cpplan.runtime.interrupts import noting_interrupts
from cpplan.solving.pipeline import solve
from cpplan.spilling import heuristics
from cpplan.spilling.problem import spill_problem

# Time for all eviction rules at one capacity of a curve, as a share of the plan's time.
_CURVE_RULES_SHARE = 0.08

Rules = dict[str, int | float | None]


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Bytes moved at one capacity of the fast pool.

    Attributes
    ----------
    capacity
        Capacity of the fast pool, bytes.
    moved_bytes, moved_bytes_bound
        Bytes moved by the best plan that fits, and their bound; ``None`` if there is no plan.
    status
        Status of that plan.
    rules
        Eviction rule -> bytes that it moves, before packing, or cycles if time is minimised;
        ``None`` if it does not fit, or did not finish in time.
    time, time_bound
        Cycles of the plan of least time, and their bound, if time is minimised.
    """

    capacity: int
    moved_bytes: int | None
    moved_bytes_bound: int | None
    status: str
    rules: Rules
    time: int | float | None = None
    time_bound: int | float | None = None


def spill_curve(
    source: Graph | Program,
    *,
    points: int = 8,
    time_limit: float = 60.0,
    pools: Sequence[Pool] | None = None,
    **options: Any,
) -> list[CurvePoint]:
    """Bytes moved, or least time, at several capacities of the fast pool, each a verified plan.

    Capacities are spread evenly from the bytes that the given order needs without moves down to the
    least with which every op can run; down to a part of these bytes if ops may access the slow pool
    directly.

    Parameters
    ----------
    source
        A graph or a program.
    points
        Number of capacities, at least 2.
    time_limit
        Seconds for all capacities together.
    pools
        The fast pool, whose capacity is not used, and the slow pool; ``sram`` and ``dram`` if left
        out.
    options
        Options of ``solve``.

    Raises
    ------
    InputError
        If an option is not understood, or there are fewer than two points.
    """
    if not isinstance(points, int) or isinstance(points, bool) or points < 2:
        raise InputError(f"points must be at least 2, not {points!r}")
    regions = check_pools([Pool("sram"), Pool("dram")] if pools is None else pools)
    if len(regions) != 2:
        raise InputError(f"a curve of bytes moved needs a fast and a slow pool, not {len(regions)}")
    program, share = ordered_program(source), bool(options.get("in_place"))
    where = {key: options[key] for key in ("inputs", "outputs", "constants") if key in options}
    residency = choose_residency(**where)
    endless = replace(regions[0], capacity=1 << 60), regions[1]
    problem = spill_problem(program, residency, endless, share=share)
    most = int(problem.load(problem.all_kept()).max())
    least = max(int(problem.least_load().max()), most // (2 * points))
    plans: list[tuple[int, Plan, Rules]] = []
    with noting_interrupts() as interrupted:
        for k in range(points):
            if plans and interrupted():
                break
            capacity = most - (most - least) * k // (points - 1)
            fast = replace(regions[0], capacity=capacity)
            plan = solve(
                source,
                spill=True,
                pools=[fast, regions[1]],
                time_limit=time_limit / points,
                **{**options, "progress": of_point(options.get("progress"), k, points)},
            )
            timed = plan.time_bound is not None
            here = spill_problem(program, residency, (fast, regions[1]), share=share, time=timed)
            seconds = _CURVE_RULES_SHARE * time_limit / points
            deadline = Deadline(seconds, deterministic=bool(options.get("deterministic")))
            rules = _by_rules(here, program.cost if timed else 0, deadline)
            plans.append((capacity, plan, rules))
    return _consistent(plans)


def _consistent(plans: Sequence[tuple[int, Plan, Rules]]) -> list[CurvePoint]:
    """Points whose values never rise, and whose bounds never rise, with more capacity.

    A plan also fits into every larger capacity.
    """
    bounds: list[int | float | None] = []
    known: int | float = 0
    for _, plan, _ in plans:
        known = max(known, _value(plan)[1] or 0)
        bounds.append(known)
    points: list[CurvePoint] = []
    best: Plan | None = None
    for (capacity, plan, rules), bound in zip(reversed(plans), reversed(bounds), strict=True):
        value, least = _value(plan)[0], None if best is None else _value(best)[0]
        if value is not None and (least is None or value <= least):
            best, least = plan, value
        timed = plan.time_bound is not None
        status: str = plan.status
        if least is not None:
            status = "optimal" if least == bound else "feasible"
        points.append(
            CurvePoint(
                capacity,
                None if best is None else best.moved_bytes,
                None if timed else int(bound or 0),
                status,
                rules,
                None if best is None else best.time,
                bound if timed else None,
            )
        )
    return points[::-1]


def _value(plan: Plan) -> tuple[int | float | None, int | float | None]:
    """Minimised value of a plan, cycles or bytes moved, and its bound."""
    if plan.time_bound is not None:
        return plan.time, plan.time_bound
    return plan.moved_bytes, plan.moved_bytes_bound


def _by_rules(problem: SpillProblem, cost: int | float, deadline: Deadline) -> Rules:
    """Eviction rule -> cost of its moves; if time is minimised, with the cost of the ops."""
    found: Rules = {}
    for name in heuristics.names():
        kept = None
        with suppress(TimeUpError):
            kept = heuristics.get(name)(problem, deadline)
        fits = kept is not None and bool(np.all(problem.load(kept) <= problem.capacity))
        found[name] = cost + int(problem.paid(kept).sum()) if fits and kept is not None else None
    return found
