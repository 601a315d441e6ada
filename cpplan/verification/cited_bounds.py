"""Bounds that a plan cites, proved again from the program and from the plan's certificate."""

from __future__ import annotations

from collections.abc import Sequence

from cpplan.model.certificates import CutDuals, CutFlow, ForcedAt
from cpplan.model.graph import Graph
from cpplan.model.plan import Plan
from cpplan.program.anf import Program
from cpplan.verification.access_trace import Access
from cpplan.verification.bound_table import (
    FOOTPRINT,
    FORCED,
    LEAST_PIECE,
    LINEAR_AT_CUTS,
    LIVE_AT_CUTS,
    MINIMUM_CUT,
    SHARED,
)
from cpplan.verification.claims import Floors
from cpplan.verification.cut_bound import holds_no_schedule, least_cost
from cpplan.verification.cut_flow import minimum_cut_bytes
from cpplan.verification.footprint import forced_live_bytes, least_footprint
from cpplan.verification.piece_bound import least_piece
from cpplan.verification.runs import Run
from cpplan.verification.shared_bound import least_bytes


def cited_floors(
    program: Program, plan: Plan, accesses: Sequence[Access], runs: Sequence[Run], unsplit: Graph
) -> Floors:
    """The bounds on the peak of one pool that the plan cites, proved again.

    The program may be one of a graph of pieces; ``unsplit`` is the graph before it was split.
    """
    what = program.graph, plan.residency, plan.sharing, accesses, runs
    ends, flow = (plan.first, plan.last), plan.certificate
    if plan.bound_by == SHARED:
        if not plan.sharing:
            return Floors()
        return Floors(shared=least_bytes(plan.sharing, accesses, runs))
    at = flow.op if isinstance(flow, ForcedAt) else None
    bound = plan.lower_bound if type(plan.lower_bound) is int else None
    if bound == 0 and plan.bound_by in (FORCED, FOOTPRINT, LEAST_PIECE):
        return Floors(forced=0, footprint=0, piece=0)
    if plan.bound_by == FOOTPRINT:
        return Floors(footprint=least_footprint(*what, at=at, enough=bound))
    if plan.bound_by == LEAST_PIECE:
        return Floors(piece=least_piece(unsplit, plan.residency, plan.sharing))
    if plan.bound_by == FORCED:
        return Floors(forced=forced_live_bytes(*what, ends, at=at, enough=bound))
    if plan.bound_by == MINIMUM_CUT and isinstance(flow, CutFlow):
        found = minimum_cut_bytes(
            program.graph, plan.residency, flow, accesses, runs, ends, plan.sharing
        )
        return Floors(cut=found)
    if plan.bound_by == LIVE_AT_CUTS and isinstance(flow, CutDuals):
        bound = plan.lower_bound
        if type(bound) is int and _covers(flow, plan):
            none = holds_no_schedule(
                program.graph, plan.residency, flow, bound - 1, plan.order, accesses, runs
            )
            return Floors(cuts=bound if none else None)
    return Floors()


def cited_cost(
    program: Program, plan: Plan, accesses: Sequence[Access], runs: Sequence[Run]
) -> int | float | None:
    """Lower bound on the cost of every schedule that fits, proved from the plan's duals."""
    duals, limit = plan.cost_certificate, plan.capacity
    if plan.cost_bound_by != LINEAR_AT_CUTS or not isinstance(duals, CutDuals):
        return None
    if limit is None and all(pool.capacity is not None for pool in plan.pools):
        limit = sum(pool.capacity or 0 for pool in plan.pools)
    if type(limit) is not int or not _covers(duals, plan):
        return None
    return least_cost(program.graph, plan.residency, duals, limit, plan.order, accesses, runs)


def _covers(duals: CutDuals, plan: Plan) -> bool:
    """True if duals prove a bound of this plan: its ops are whole and share no bytes by choice."""
    whole = not plan.sharing and not plan.pieces and plan.scope != "every splitting"
    return whole and (plan.scope == "given order" or not duals.given_order)
