"""All bounds that a plan may name, with the statement proved, its scope and its check.

A plan names its bounds in ``bound_by``, ``cost_bound_by`` and ``moved_bytes_bound_by``. The checker
refuses a name that is not in these tables, and a bound that proves nothing about the plan that
cites it.

The bounds at cuts that rest on a linear program (``linear bound at cuts`` and ``live bytes at
cuts``) are proved again from its duals, which the plan carries; the checker derives the rows from
the graph by itself (:mod:`cpplan.verification.cut_rows`).

If tensors may share bytes by choice, orders are bounded on a relaxed problem, which the checker
derives itself (:func:`~cpplan.verification.storages.relaxed_storages`). Aliases that hold in every
order may prove more: the bound is then ``aliases in every order``, and counts as searched.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from cpplan.model.certificates import (
    CutDuals,
    CutFlow,
    ForcedAt,
    ForcedMoves,
    LiveBetween,
    RoomPrices,
)
from cpplan.model.errors import VerificationError
from cpplan.model.plan import Plan

# The plans that a bound covers; each value includes the ones before it.
Reach = Literal["given order", "every order", "every schedule", "every splitting"]
Sharing = Literal["no", "yes", "only"]
Proof = Literal["recomputed", "certificate", "searched"]

LIVE, FIXED, LARGEST = "live bytes", "fixed offset", "largest buffer"
# Bounds in several pools; ``OUTSIDE`` may be added to each of the others.
BEYOND, ACCESSES = "live bytes beyond the other pools", "accesses"
OUTSIDE = "live bytes beyond the preferred pools"
SHARED, FOOTPRINT = "live bytes, shared", "least footprint"
FORCED, MINIMUM_CUT = "forced live bytes", "minimum cut"
EVERY_OP_ONCE, LEAST_PIECE = "every op once", "least piece"
# Bounds on the cost and the live bytes of schedules that run ops again.
LINEAR_AT_CUTS, LIVE_AT_CUTS = "linear bound at cuts", "live bytes at cuts"
COST_AT_CUTS = "cost at cuts"
# Bound on the live bytes of splittings that run every step once.
LIVE_BETWEEN = "live between pieces"
# Bounds on the bytes moved between two pools.
NOTHING, ROOM_PRICES, FORCED_MOVES = "nothing moves", "room prices", "forced moves"
LEAST_PEAK = "least peak of all orders"


class ProvedBound(NamedTuple):
    """One bound that a plan may name.

    Attributes
    ----------
    name
        Name of the bound in plans.
    reach
        The plans that it covers: plans of one order, of every order that runs each op once, of
        every schedule (ops may also run again), or of every splitting (ops may also run in pieces).
    sharing
        ``"no"`` if it proves nothing about plans whose tensors may share bytes by choice,
        ``"only"`` if it applies to such plans alone.
    proof
        ``"recomputed"`` by the checker; proved from the plan's ``"certificate"``; or
        ``"searched"``: it rests on an exhausted search, and only the same search can prove it
        again.
    proves
        The statement, as one clause.
    any_order
        True if it holds for every order, with any repetitions, although it is computed from one
        that runs each op once.
    carries
        Type of the certificate that a plan carries for it; it must be there if that is the proof.
    """

    name: str
    reach: Reach
    sharing: Sharing
    proof: Proof
    proves: str
    any_order: bool = False
    carries: type | None = None


_PACKING = "no packing of the buffers at this order has a smaller peak"
_ORDER = "no order has fewer live bytes"
_LEVEL = "no layout over the pools has a smaller value at this level of the objective"

# Bounds on the peak in one pool.
PEAK_BOUNDS = (
    ProvedBound(LIVE, "given order", "no", "recomputed", "these bytes are live at one step"),
    ProvedBound(FIXED, "given order", "yes", "recomputed", "a buffer of fixed offset ends there"),
    ProvedBound(
        LARGEST, "given order", "yes", "recomputed", "one buffer has these bytes", any_order=True
    ),
    ProvedBound(
        SHARED,
        "given order",
        "only",
        "recomputed",
        "one step needs these bytes, however they are shared",
    ),
    *(
        ProvedBound(name, "given order", "no", "searched", _PACKING)
        for name in (
            "niche search",
            "CP-SAT",
            "CP-SAT TWA",
            "CP-SAT WAT",
            "CP-SAT TAW",
            "CP-SAT ATW",
        )
    ),
    ProvedBound(
        "CP-SAT sharing", "given order", "only", "searched", f"{_PACKING}, with any aliases"
    ),
    ProvedBound(
        FORCED,
        "every order",
        "yes",
        "recomputed",
        "these bytes are live at one op in every order",
        carries=ForcedAt,
    ),
    ProvedBound(
        MINIMUM_CUT,
        "every order",
        "yes",
        "certificate",
        "these bytes are live at one op: a flow proves it",
        carries=CutFlow,
    ),
    ProvedBound(
        "aliases in every order",
        "every order",
        "only",
        "searched",
        "no order has fewer live bytes, with the aliases that hold in every order",
    ),
    ProvedBound("Liu's algorithm", "every order", "yes", "searched", f"{_ORDER} of a tree"),
    ProvedBound("downset search", "every order", "yes", "searched", _ORDER),
    ProvedBound("CP-SAT order", "every order", "yes", "searched", _ORDER),
    ProvedBound(
        "CP-SAT order and offsets",
        "every order",
        "no",
        "searched",
        "no order packs into fewer bytes",
    ),
    ProvedBound(
        "CP-SAT order, offsets and sharing",
        "every order",
        "only",
        "searched",
        "no order packs into fewer bytes, with any aliases",
    ),
    ProvedBound(
        FOOTPRINT,
        "every schedule",
        "yes",
        "recomputed",
        "one op, or the end of the model, needs these bytes",
        carries=ForcedAt,
    ),
    ProvedBound(
        LEAST_PIECE,
        "every splitting",
        "yes",
        "recomputed",
        "one piece, or the model's inputs or outputs, need these bytes",
    ),
    ProvedBound(
        LIVE_BETWEEN,
        "every splitting",
        "yes",
        "certificate",
        "at no more work, these bytes are live when one op has done a share of its steps",
        carries=LiveBetween,
    ),
    ProvedBound(
        "least reach",
        "every schedule",
        "no",
        "searched",
        "one op cannot be reached with fewer bytes",
    ),
    ProvedBound(
        "optimum of the chain",
        "every schedule",
        "no",
        "searched",
        "no schedule of a chain has fewer live bytes",
    ),
    ProvedBound(
        LIVE_AT_CUTS,
        "every schedule",
        "no",
        "certificate",
        "no schedule has fewer live bytes: duals prove it",
        carries=CutDuals,
    ),
    ProvedBound(
        COST_AT_CUTS,
        "every schedule",
        "no",
        "certificate",
        "every schedule of fewer live bytes costs more than the limit on the cost: duals prove it",
        carries=CutDuals,
    ),
)

# Bounds on the levels of an objective, in several pools.
POOL_BOUNDS = (
    ProvedBound(
        SHARED,
        "given order",
        "only",
        "recomputed",
        "all pools together need these bytes, however they are shared",
    ),
    *(
        ProvedBound(name, "given order", "no", "recomputed", _LEVEL)
        for first in (LIVE, BEYOND, FIXED, LARGEST, ACCESSES)
        for name in (first, f"{first} and {OUTSIDE}")
    ),
    ProvedBound(OUTSIDE, "given order", "no", "recomputed", _LEVEL),
    ProvedBound("CP-SAT", "given order", "no", "searched", _LEVEL),
    ProvedBound("CP-SAT on live bytes", "given order", "no", "searched", _LEVEL),
)

# Bounds on the cost of a schedule within the capacity.
COST_BOUNDS = (
    ProvedBound(
        EVERY_OP_ONCE, "every schedule", "yes", "recomputed", "every op runs at least once"
    ),
    ProvedBound(
        LINEAR_AT_CUTS,
        "every schedule",
        "no",
        "certificate",
        "no schedule that fits costs less: duals prove it",
        carries=CutDuals,
    ),
    *(
        ProvedBound(name, "every schedule", "no", "searched", "no schedule that fits costs less")
        for name in (
            "chain program",
            "CP-SAT at cuts",
            "CP-SAT rematerialization",
        )
    ),
)

# Bounds on the bytes moved between two pools, if tensors may move.
MOVED_BOUNDS = (
    ProvedBound(
        NOTHING, "every splitting", "yes", "recomputed", "no plan moves fewer than 0 bytes"
    ),
    ProvedBound(
        ROOM_PRICES,
        "given order",
        "yes",
        "certificate",
        "no plan at this order moves fewer bytes: prices of room in the fast pool prove it",
        carries=RoomPrices,
    ),
    ProvedBound(
        FORCED_MOVES,
        "every order",
        "yes",
        "certificate",
        "in every order, the tensors live at some ops do not all fit beside their own",
        carries=ForcedMoves,
    ),
    ProvedBound(
        LEAST_PEAK,
        "every order",
        "yes",
        "searched",
        "in every order, more is live at some op than the fast pool holds: the rest moves",
    ),
    ProvedBound(
        EVERY_OP_ONCE, "every schedule", "yes", "recomputed", "every op runs at least once"
    ),
    *(
        ProvedBound(
            name, "given order", "yes", "searched", "no plan at this order moves fewer bytes"
        )
        for name in ("CP-SAT spilling", "search of all gaps")
    ),
    ProvedBound(
        "search of all orders and gaps",
        "every order",
        "yes",
        "searched",
        "no plan at any order moves fewer bytes",
    ),
)


def find_bound(table: Iterable[ProvedBound], name: object) -> ProvedBound | None:
    """The bound with exactly this name, or ``None``."""
    return next((bound for bound in table if bound.name == name), None)


def why_not(bound: ProvedBound, plan: Plan) -> str | None:
    """The reason for which a bound proves nothing about a plan, or ``None`` if it applies."""
    name = bound.name
    once = plan.scope == "every order" and len(plan.order) == len(set(plan.order))
    one_order = bound.reach == "given order" and not (bound.any_order and once)
    if one_order and plan.scope != "given order":
        return f"bound {name!r} is of one order, but the plan's scope is {plan.scope!r}"
    if bound.reach != "every splitting" and (plan.scope == "every splitting" or plan.pieces):
        return f"bound {name!r} is of ops that run whole, but the plan's ops may run in pieces"
    if bound.reach != "given order" and plan.base_cost is None:
        return f"bound {name!r} is about ops, which a bare problem does not have"
    if bound.reach == "every order" and may_run_again(plan):
        return f"bound {name!r} is of orders that run every op once, but the plan may run ops again"
    if name == COST_AT_CUTS and plan.cost_limit is None:
        return f"bound {name!r} is of schedules within a limit on the cost, but the plan has none"
    if name == LIVE_BETWEEN and (plan.cost_limit is None or plan.cost_limit != plan.base_cost):
        return f"bound {name!r} is of plans that do no more work, but the plan may do more"
    if bound.sharing == "no" and plan.sharing:
        return f"bound {name!r} is of tensors that share no bytes, but in the plan they may"
    if bound.sharing == "only" and not plan.sharing:
        return f"bound {name!r} is of tensors that may share bytes, but in the plan they may not"
    return None


def applying(
    table: Iterable[ProvedBound], name: object, plan: Plan, carried: object
) -> ProvedBound:
    """The bound of that name, after a check that it applies to the plan and to what this carries.

    Raises
    ------
    VerificationError
        If the table has no such bound, if it proves nothing about the plan, or if its certificate
        is missing or another bound's.
    """
    found = find_bound(table, name)
    if found is None:
        raise VerificationError(f"{name!r} is no known bound for plans of this kind")
    reason = why_not(found, plan)
    if reason is not None:
        raise VerificationError(reason)
    if carried is None and found.proof == "certificate":
        raise VerificationError(f"the plan cites {name!r}, but has no certificate of it")
    if carried is not None and (found.carries is None or not isinstance(carried, found.carries)):
        raise VerificationError(f"the plan has a certificate that bound {name!r} does not use")
    return found


def may_run_again(plan: Plan) -> bool:
    """True if a plan's ops run again, or if the plan says that they might have."""
    found = find_bound(PEAK_BOUNDS, plan.bound_by)
    repeats = len(plan.order) > len(set(plan.order)) or plan.cost_bound is not None
    return repeats or (found is not None and found.reach in ("every schedule", "every splitting"))
