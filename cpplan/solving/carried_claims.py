"""Claims of a search, carried over to the plan of a search with fewer freedoms.

A plan of a smaller search is one of the larger search as well. What the smaller one proved holds
for fewer plans: the larger search's bounds take the place of its own, or those that always hold.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cpplan.model.graph import Graph
from cpplan.model.plan import Plan
from cpplan.model.plan_data import Scope, Status
from cpplan.solving.request import Request
from cpplan.splitting.piece_graph import split_graph
from cpplan.verification.bound_table import EVERY_OP_ONCE, NOTHING

# Fields of a plan that are decisions, or follow from them; all others are claims.
_DECIDED = (
    "buffers", "size", "lower", "upper", "gaps", "offset", "pool", "peak", "found_by", "order",
    "cost", "inputs", "outputs", "views", "relations", "pieces", "copied_bytes", "moves", "time",
)  # fmt: skip


def with_claims_of(own: Plan | None, plan: Plan, request: Request) -> Plan:
    """The plan of a smaller search with the claims of the own search, if that ended with a plan."""
    if own is None:
        return _without_bounds(plan)
    return _with_cost_bound(plan, own) if plan.objective_value else _with_claims(plan, own, request)


def _with_claims(plan: Plan, own: Plan, request: Request) -> Plan:
    """The plan of a smaller search with the bounds of the own search."""
    decided = {name: getattr(plan, name) for name in _DECIDED}
    if request.split and not request.spill and plan.copied_bytes is None:
        decided["copied_bytes"] = 0
    found = replace(own, **decided, message=None)
    weighed = bool(request.piece_bytes and found.pieces)
    return replace(found, status="feasible" if weighed else _status(found))


def _with_cost_bound(plan: Plan, own: Plan) -> Plan:
    """The plan of a smaller search over several pools, where only bounds on the cost carry over."""
    found = replace(
        plan,
        lower_bound=None,
        bound_by=None,
        objective_bound=(),
        cost_bound=own.cost_bound,
        cost_bound_by=own.cost_bound_by,
        cost_certificate=own.cost_certificate,
    )
    return replace(found, status=_status(found))


def _without_bounds(plan: Plan) -> Plan:
    """The plan of a smaller search without its bounds, which do not hold for the own search."""
    if not plan.spills:
        return replace(
            plan, status="feasible", lower_bound=None, bound_by=None, certificate=None,
            objective_bound=(), cost_bound=None, cost_bound_by=None, cost_certificate=None,
        )  # fmt: skip
    timed = plan.time_bound is not None
    found = replace(
        plan, scope="every splitting", moved_certificate=None,
        **{"time_bound": plan.base_cost, "time_bound_by": NOTHING}
        if timed
        else {"moved_bytes_bound": 0, "moved_bytes_bound_by": NOTHING},
    )  # fmt: skip
    return replace(found, status=_status(found))


def may_move(graph: Graph, plan: Plan) -> bool:
    """True if a plan of one pool is one of two as well, in which nothing moves.

    Beside moves, no piece runs again, and inputs that nothing reads lie in the slow pool.
    """
    if len(set(plan.order)) < len(plan.order):
        return False
    pieces = split_graph(graph, plan.pieces).graph if plan.pieces else graph
    read = {pieces.root[name][0] for op in pieces.ops for name in op.inputs}
    return all(pieces.root[name][0] in read for name in plan.inputs)


def in_two_pools(plan: Plan, request: Request) -> Plan:
    """The plan of the fast pool alone as one in which tensors may move, and none does."""
    every: Scope = "every order" if request.remat or request.order == "search" else "given order"
    found = replace(
        plan,
        pools=tuple(request.pools or ()),
        capacity=None,
        message=None,
        scope="every splitting" if request.split else every,
        objective="total",
        objective_value=(),
        objective_bound=(),
        lower_bound=None,
        bound_by=None,
        certificate=None,
        cost_bound=None,
        cost_bound_by=None,
        cost_certificate=None,
        time=plan.cost if request.objective == "time" else None,
        **_no_move_needed(plan, request),
    )
    return replace(found, status=_status(found))


def for_all_that_may_fit(plan: Plan, request: Request) -> Plan:
    """The plan of a search for moves if nothing excludes that the fast pool alone is enough."""
    if plan.offset is None:
        return replace(plan, status="unknown")
    found = replace(plan, moved_certificate=None, **_no_move_needed(plan, request))
    return replace(found, status=_status(found))


def _no_move_needed(plan: Plan, request: Request) -> dict[str, Any]:
    """The bound that holds for every plan."""
    name = EVERY_OP_ONCE if request.remat else NOTHING
    if request.objective == "time":
        return {"time_bound": plan.base_cost, "time_bound_by": name}
    return {"moved_bytes_bound": 0, "moved_bytes_bound_by": name}


def _status(plan: Plan) -> Status:
    """Optimal if the plan's value meets its bound."""
    pairs: tuple[tuple[object, object], ...] = (
        (plan.time, plan.time_bound),
        (plan.moved_bytes, plan.moved_bytes_bound),
        (plan.cost, plan.cost_bound),
        (plan.objective_value, plan.objective_bound or None),
        (plan.peak, plan.lower_bound),
    )
    value, bound = next(pair for pair in pairs if pair[1] is not None or pair is pairs[-1])
    return "optimal" if value == bound else "feasible"
