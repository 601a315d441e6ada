"""Plans made from the packings and bounds that the stages found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from cpplan.aliasing.packed import Packed
from cpplan.model.certificates import Certificate
from cpplan.model.costs import sum_costs
from cpplan.model.levels import pool_peaks
from cpplan.model.plan import Plan
from cpplan.model.plan_data import Progress, Scope, Status
from cpplan.model.printable import printable
from cpplan.model.problem import Problem
from cpplan.model.residency import Residency
from cpplan.ordering.bounds import FORCED
from cpplan.ordering.cuts import NAME as MINIMUM_CUT
from cpplan.packing.bounds import LARGEST, Bound, largest_buffer_bound
from cpplan.packing.pools.bounds import objective_bound
from cpplan.packing.search.outcome import OrderOutcome
from cpplan.packing.shortfall import explain_shortfall
from cpplan.program.anf import Program
from cpplan.program.final_places import FinalPlaces, final_places
from cpplan.remat.cut_bounds import RELAXED, RUNS_ONCE
from cpplan.remat.footprint import CHAIN, COST_AT_CUTS, CUTS, REACH
from cpplan.splitting.between_pieces import NAME as LIVE_BETWEEN
from cpplan.splitting.bounds import NAME as LEAST_PIECE
from cpplan.splitting.copies import count_copied_bytes

if TYPE_CHECKING:
    from cpplan.remat.known_schedules import RematOutcome
    from cpplan.remat.solve import Rematerialized
    from cpplan.splitting.outcome import Split


def make_plan(
    packed: Packed,
    residency: Residency,
    *,
    searched: OrderOutcome | None = None,
    ends: tuple[tuple[str, ...], tuple[str, ...]] = ((), ()),
    limit: int | None = None,
    runtime: float,
    history: Sequence[Progress],
) -> Plan:
    """The plan of a packing; above the limit, it has no offsets but a message with the reason.

    Parameters
    ----------
    packed
        The best packing.
    residency
        Residency of the boundary.
    limit
        The limit, if there is one, bytes.
    searched
        The outcome of the search for orders. Its bound replaces that of the packing, which holds
        for one order only.
    ends
        First and last ops that every order had to have.
    runtime
        Seconds so far.
    history
        Every improvement.
    """
    first, last = ends
    if packed.pooled is not None:
        pooled = _make_pooled_plan(packed, residency, searched, runtime, history)
        source = packed.source
        if searched is not None and isinstance(source, Program) and source.may_reorder:
            pooled = _for_every_order(pooled, searched.bound)
        return replace(pooled, first=first, last=last)
    problem, peak = packed.problem, packed.peak
    bound, scope, found_by = packed.bound, _scope(searched), packed.found_by
    certificate: Certificate | None = None
    if searched is not None:
        bound, certificate = _searched_bound(searched, problem, bound.step)
        found_by = f"{searched.found_by}, {found_by}"
    fits = limit is None or peak <= limit
    status: Status = "optimal" if peak == bound.value else "feasible"
    if not fits:
        status = "infeasible" if bound.value > (limit or 0) else "unknown"
    return Plan(
        **_columns(packed),
        status=status,
        offset=packed.offsets if fits else None,
        peak=peak if fits else None,
        lower_bound=bound.value,
        scope=scope,
        capacity=limit,
        found_by=found_by if fits else None,
        bound_by=bound.name,
        residency=residency,
        sharing=tuple(sorted(packed.sharing.kinds)) if packed.sharing is not None else (),
        relations=packed.relations if fits else (),
        runtime=runtime,
        history=tuple(history),
        message=None if fits else explain_shortfall(problem, bound, peak, limit or 0),
        first=first,
        last=last,
        certificate=certificate,
    )


def _searched_bound(
    searched: OrderOutcome, problem: Problem, step: int | None
) -> tuple[Bound, Certificate | None]:
    """Bound on every order with its certificate, if any; or the largest buffer if that is more.

    A search that had no time proves no bound. ``step`` is the fullest step of the plan's order.
    """
    largest = largest_buffer_bound(problem)
    if largest.value > searched.bound:
        return largest, None
    certified = searched.bound_by in (FORCED, MINIMUM_CUT)
    bound = Bound(searched.bound, searched.bound_by, step)
    return bound, searched.certificate if certified else None


def make_remat_plan(
    found: Rematerialized,
    residency: Residency,
    *,
    runtime: float,
    history: Sequence[Progress],
) -> Plan:
    """A plan with ops that run again: the cheapest within a limit, or the smallest within a cost.

    Parameters
    ----------
    found
        The schedule, packed.
    residency
        Residency of the boundary.
    runtime
        Seconds so far.
    history
        Every improvement.
    """
    packed, outcome, limit = found.packed, found.outcome, found.limit
    if packed.pooled is not None:
        plan = _without_pool_bounds(_make_pooled_plan(packed, residency, None, runtime, history))
        fits = plan.offset is not None
    else:
        fits = limit is None or packed.peak <= limit
        plan = Plan(
            **_columns(packed),
            status="optimal" if packed.peak == found.least else "feasible",
            offset=packed.offsets if fits else None,
            peak=packed.peak if fits else None,
            lower_bound=found.least,
            scope=_remat_scope(found),
            capacity=limit,
            found_by=packed.found_by if fits else None,
            bound_by=found.least_by,
            certificate=found.least_certificate,
            cost_limit=found.most,
            residency=residency,
            sharing=tuple(sorted(packed.sharing.kinds)) if packed.sharing is not None else (),
            relations=packed.relations if fits else (),
            runtime=runtime,
            history=tuple(history),
        )
    if not fits:
        rooms = [limit] if limit is not None else [pool.capacity for pool in plan.pools]
        room = None if None in rooms else sum(filter(None, rooms))
        status: Status = "infeasible" if room is not None and found.least > room else "unknown"
        return replace(plan, status=status, message=_remat_shortfall(found, room))
    names = dict.fromkeys((outcome.found_by, str(plan.found_by)))
    plan = replace(plan, found_by=", ".join(names))
    if limit is None:
        return plan
    bound = _cost_bound(outcome, plan)
    return replace(
        plan,
        status="optimal" if plan.cost == bound else "feasible",
        cost_bound=bound,
        cost_bound_by=outcome.bound_by,
        cost_certificate=found.cost_certificate,
    )


def _remat_scope(found: Rematerialized) -> Scope:
    """Scope of the bounds: every order, unless a bound holds only for the given first runs."""
    once = found.limit is None or found.outcome.bound_by == RUNS_ONCE
    every = found.joint or (once and found.least_by not in (CUTS, COST_AT_CUTS))
    return "every order" if every else "given order"


def _cost_bound(outcome: RematOutcome, plan: Plan) -> int | float:
    """Lower bound on the cost of every plan, adapted to the rounding of the plan's sums."""
    assert plan.cost is not None
    assert plan.base_cost is not None
    if outcome.bound_by == RUNS_ONCE:
        return plan.base_cost
    if outcome.bound_by != RELAXED and outcome.cost <= outcome.bound:
        return plan.cost
    return min(outcome.bound, plan.cost)


def _remat_shortfall(found: Rematerialized, limit: int | None) -> str:
    """Reason why nothing fits into ``limit`` bytes; with ``None``, into pools without limits."""
    least, op, packed = found.least, found.least_op, found.packed
    by = f"op {printable(op)} alone needs {least} B" if op else f"{least} B stay live to the end"
    if found.least_by == LARGEST:
        by = f"one buffer alone needs {least} B"
    elif found.least_by == REACH:
        by = f"op {printable(str(op))} cannot be reached with less than {least} B"
    elif found.least_by in (CHAIN, CUTS):
        by = f"every schedule has at least {least} B live"
    elif found.least_by == COST_AT_CUTS:
        by = f"every schedule within the limit on the cost has at least {least} B live"
    if limit is None:
        assert packed.pooled is not None
        return f"no plan was found in time: {packed.pooled.packing.message}"
    if least > limit:
        return f"does not fit into {limit} B in any order, with any repetition: {by}"
    text = f"no plan within {limit} B was found in time: "
    live = found.outcome.peak
    if packed.pooled is not None:
        return f"{text}{packed.pooled.packing.message}"
    if live > limit and not packed.sharing:
        text += f"the best schedule has {live} B live, {live - limit} B more"
    else:
        text += f"the best needs {packed.peak} B, {packed.peak - limit} B more"
    return f"{text}; at least {least} B are needed ({by})"


def make_split_plan(
    found: Split,
    residency: Residency,
    *,
    runtime: float,
    history: Sequence[Progress],
) -> Plan:
    """A plan with ops in pieces, and a bound on every splitting.

    Parameters
    ----------
    found
        The program of pieces, packed.
    residency
        Residency of the boundary.
    runtime
        Seconds so far.
    history
        Every improvement.
    """
    packed, limit, least = found.packed, found.limit, found.least
    bound: dict[str, Any] = {"lower_bound": least.bytes, "bound_by": LEAST_PIECE}
    between = found.between
    if between is not None and between.bytes > least.bytes and limit is None:
        bound = {"lower_bound": between.bytes, "bound_by": LIVE_BETWEEN}
        bound |= {"certificate": between.certificate, "cost_limit": found.base}
    plan = make_plan(packed, residency, limit=limit, runtime=runtime, history=history)
    copied = None
    if plan.offset is not None:
        copied = 0
        if found.graph is not None:
            assert isinstance(packed.source, Program)
            places = {
                name: (int(plan.pool[k]), int(plan.offset[k]))
                for k, name in enumerate(plan.buffers)
            }
            copied = count_copied_bytes(found.graph, packed.source, places)
    proved = plan.peak is not None and plan.peak <= bound["lower_bound"] and not found.weighed
    status: Status = "optimal" if proved else "feasible"
    message = None
    if plan.offset is None:
        assert limit is not None
        status = "infeasible" if least.bytes > limit else "unknown"
        message = _split_shortfall(found, limit)
    return replace(
        plan,
        status=status,
        message=message,
        scope="every splitting",
        base_cost=found.base,
        pieces=found.pieces,
        copied_bytes=copied,
        **{"certificate": None, **bound},
    )


def _split_shortfall(found: Split, limit: int) -> str:
    from cpplan.splitting.bounds import describe

    least, peak = found.least, found.packed.peak
    by = describe(least)
    if least.bytes > limit:
        return f"does not fit into {limit} B, for any pieces: {by} needs {least.bytes} B"
    return (
        f"no plan within {limit} B was found in time: the best needs {peak} B, "
        f"{peak - limit} B more; at least {least.bytes} B are needed ({by} alone)"
    )


def _make_pooled_plan(
    packed: Packed,
    residency: Residency,
    searched: OrderOutcome | None,
    runtime: float,
    history: Sequence[Progress],
) -> Plan:
    """A plan for several pools; the bounds on its objective hold for its order alone."""
    problem, result = packed.problem, packed.pooled
    assert result is not None
    packing = result.packing
    found_by = packing.found_by
    if searched is not None:
        found_by = f"{searched.found_by}, {found_by}"
    peak = None
    if packing.offset is not None and packing.pool is not None:
        peak = int(pool_peaks(problem, packing.pool, packing.offset).sum())
    (total,), _ = objective_bound(problem, "total", (0,))
    return Plan(
        **_columns(packed),
        status=packing.status,
        offset=packing.offset,
        pool=packing.pool if packing.pool is not None else np.zeros(len(problem), np.int64),
        peak=peak,
        lower_bound=None if result.sharing else int(total),
        found_by=found_by if packing.offset is not None else None,
        bound_by="; ".join(dict.fromkeys(packing.bound_by)) or None,
        residency=residency,
        sharing=tuple(sorted(result.sharing)),
        relations=result.relations if packing.offset is not None else (),
        objective=result.objective,
        objective_value=packing.objective_value,
        objective_bound=packing.objective_bound if packing.offset is not None else (),
        runtime=runtime,
        history=tuple(history),
        message=packing.message,
    )


def _for_every_order(plan: Plan, least: int) -> Plan:
    """A plan of a searched order in several pools, with what holds for every order.

    ``least`` are the bytes that every order needs. All other bounds are of one order.
    """
    if plan.offset is not None:
        return _without_pool_bounds(plan)
    rooms = [pool.capacity for pool in plan.pools]
    room = sum(each for each in rooms if each is not None)
    if None not in rooms and least > room:
        return plan
    largest = int(plan.size.max(initial=0))
    if None not in rooms and all(largest > each for each in rooms if each is not None):
        return plan
    message = f"in the order of fewest live bytes: {plan.message}"
    return _without_pool_bounds(replace(plan, status="unknown", message=message))


def _without_pool_bounds(plan: Plan) -> Plan:
    """A plan in several pools without its bounds, which hold for one order without repetitions."""
    return replace(
        plan,
        status="feasible" if plan.offset is not None else plan.status,
        lower_bound=None,
        bound_by=None,
        objective_bound=(),
    )


def _columns(packed: Packed) -> dict[str, Any]:
    """Fields of a plan that follow from the packing alone."""
    problem, source = packed.problem, packed.source
    program = source if isinstance(source, Program) else None
    ends = final_places(program, problem.names) if program else FinalPlaces({}, (), ())
    return {
        "name": program.graph.name if program else problem.name,
        "buffers": tuple(problem.names),
        "size": problem.size,
        "lower": problem.lower,
        "upper": problem.upper,
        "gaps": problem.gaps,
        "pools": tuple(problem.pools),
        "order": program.names if program else (),
        "cost": program.cost if program else None,
        "base_cost": sum_costs(map(attrgetter("cost"), program.graph.ops)) if program else None,
        "inputs": ends.inputs,
        "outputs": ends.outputs,
        "views": ends.views,
    }


def _scope(searched: OrderOutcome | None) -> Scope:
    return "given order" if searched is None else "every order"
