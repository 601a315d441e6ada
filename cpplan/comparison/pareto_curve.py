"""The trade-off curve of peak memory against the cost of recomputation, or of pieces."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cpplan.model.errors import InputError
from cpplan.model.graph import Graph
from cpplan.model.plan import Plan
from cpplan.model.plan_data import Status, of_point
from cpplan.packing.problem import as_program
from cpplan.program.anf import Program
from cpplan.remat.cut_bounds import RUNS_ONCE
from cpplan.remat.known_schedules import CostBound
from cpplan.runtime.interrupts import noting_interrupts
from cpplan.solving.pipeline import solve_request
from cpplan.solving.request import Request
from cpplan.solving.split_curve import split_curve

if TYPE_CHECKING:
    import pandas


def pareto(
    source: Graph | Program, *, points: int = 8, time_limit: float = 60.0, **options: Any
) -> pandas.DataFrame:
    """The curve of peak against cost, in which every point is a verified plan.

    With ``split``, the points are plans in pieces with falling peaks: see
    :func:`cpplan.solving.split_curve`. Otherwise, memory limits are spread evenly from the peak
    with every op run once down to the least footprint: the most bytes that one op needs by itself,
    even with ``in_place`` and ``placement``.

    Parameters
    ----------
    source
        A graph or a program.
    points
        Number of limits, at least 2; the first limit is the peak with every op run once.
    time_limit
        Seconds for all limits together.
    options
        Options of ``solve`` (``split``: ops in pieces instead of ops that run again; ``order``,
        ``in_place``, ``placement``, ``inputs``, ``outputs``, ``constants``, ``workers``, ``seed``).

    Returns
    -------
    pandas.DataFrame
        Columns ``limit``, ``peak``, ``cost``, ``extra`` (cost beyond every op once),
        ``cost_bound``, ``status``, ``plan``; one row a limit, the largest first. A row without a
        plan has no peak. Costs never fall from row to row. Ctrl-C ends the table with the rows
        found so far.

    Raises
    ------
    InputError
        If an option is not understood, or there are fewer than two points.

    Examples
    --------
    >>> from cpplan.model.small_graphs import forward_and_back
    >>> chain = forward_and_back()
    >>> pareto(chain, points=2)[["limit", "peak", "cost", "status"]].values.tolist()
    [[32, 32, 5, 'optimal'], [24, 24, 6, 'optimal']]
    """
    import pandas

    rows = [_row(plan) for plan in pareto_plans(source, points, time_limit, **options)]
    frame: pandas.DataFrame = pandas.DataFrame(rows)
    return frame


def pareto_plans(
    source: Graph | Program, points: int, time_limit: float, **options: Any
) -> list[Plan]:
    """The plans of :func:`pareto`, the one with the most memory first."""
    from cpplan.aliasing.alias_candidates import find_candidates
    from cpplan.remat.footprint import least_footprint, shared_footprint
    from cpplan.remat.problem import remat_problem

    if not isinstance(points, int) or isinstance(points, bool) or points < 2:
        raise InputError(f"points must be at least 2, not {points!r}")
    if options.pop("split", False):
        return split_curve(source, Request(split=True, time_limit=time_limit, **options), points)
    for name in ("remat", "memory_limit", "cost_limit", "capacity", "pools"):
        if name in options:
            raise InputError(f"a trade-off chooses its limits itself: it takes no {name}")
    program = as_program(source)
    if not isinstance(program, Program):
        raise InputError("a trade-off needs a graph: a bare problem has no ops to run again")
    once = Request(**{"order": "search", **options, "time_limit": time_limit})
    once = once.within(time_limit / (points + 1))
    plans: list[Plan] = []
    with noting_interrupts() as interrupted:
        first = solve_request(source, once)
        candidates = find_candidates(program.graph, first.residency, first.sharing)
        problem = remat_problem(program, first.residency)
        least = (
            shared_footprint(problem, candidates) if candidates else least_footprint(problem)
        ).bytes
        most = first.peak or least
        for k in range(points):
            if plans and interrupted():
                break
            limit = most - (most - least) * k // (points - 1)
            watched = of_point(once.progress, k, points)
            asked = replace(once, remat=True, memory_limit=limit, progress=watched)
            plans.append(solve_request(source, asked))
    return _consistent(first, plans)


def _consistent(first: Plan, plans: list[Plan]) -> list[Plan]:
    """The plans with costs and bounds made consistent between limits.

    A plan within a tighter limit also fits a looser limit, so no row costs more than a row with
    less memory. A bound on the cost within a looser limit also holds within a tighter limit.
    ``first`` is the plan that runs every op once.
    """
    bounds: list[CostBound | None] = []
    bound = None if first.base_cost is None else CostBound(first.base_cost, RUNS_ONCE)
    ordered = False
    for plan in plans:
        if plan.cost_bound is not None and (bound is None or plan.cost_bound > bound.cost):
            name, duals = str(plan.cost_bound_by), plan.cost_certificate
            bound = CostBound(plan.cost_bound, name, duals)
            ordered |= plan.scope == "given order"
        # With symbolic shapes, costs are known only at the bounds: no bound on costs is proved.
        bounds.append(bound if plan.symbols is None else None)
    rows: list[Plan] = []
    for plan, bound in zip(reversed(plans), reversed(bounds), strict=True):
        better = [other for other in rows[-1:] if _costs_less(other, plan)]
        rows.append(_within(better[0] if better else plan, plan, bound))
    if rows and rows[-1].symbols is None and _costs_less(first, rows[-1]):
        rows[-1] = _within(first, rows[-1], bounds[0])
    if ordered:
        # Some bounds hold only for first runs in the given order; all rows keep that order then.
        rows = [replace(row, scope="given order") for row in rows]
    return rows[::-1]


def _costs_less(one: Plan, other: Plan) -> bool:
    if one.offset is None or one.cost is None:
        return False
    return other.offset is None or other.cost is None or one.cost < other.cost


def _within(plan: Plan, row: Plan, bound: CostBound | None) -> Plan:
    """``plan`` as the plan found within the limit of ``row``, where ``bound`` holds."""
    if plan is not row:
        plan = replace(
            plan,
            capacity=row.capacity,
            lower_bound=row.lower_bound,
            bound_by=row.bound_by,
            certificate=row.certificate,
            scope=row.scope,
        )
    if bound is None or plan.offset is None or plan.cost is None:
        return plan
    # Sums of floating-point costs may be rounded differently at another limit.
    least = min(bound.cost, plan.cost)
    status: Status = "optimal" if plan.cost == least else "feasible"
    return replace(
        plan,
        cost_bound=least,
        cost_bound_by=bound.name,
        cost_certificate=bound.certificate,
        status=status,
    )


def _row(plan: Plan) -> dict[str, Any]:
    cost = plan.cost if plan.offset is not None else None
    extra = None
    if cost is not None and plan.base_cost:
        extra = cost / plan.base_cost - 1
    return {
        "limit": plan.capacity,
        "peak": plan.peak,
        "cost": cost,
        "extra": extra,
        "cost_bound": plan.cost_bound,
        "status": plan.status,
        "plan": plan,
    }
