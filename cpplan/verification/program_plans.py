"""Plans of programs: checks of order, aliases and costs, and the buffers that they need.

Buffers of a program in one arena, found in bulk if its ops run once each, without bodies.

Every storage then has one retention, so its lifespan follows from the steps at which it is
accessed; the access trace (:mod:`cpplan.verification.access_trace`) would give the same. Like the
trace, the buffers follow from the graph and the order alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from cpplan.model.certificates import ForcedAt
from cpplan.model.errors import VerificationError
from cpplan.model.plan import Plan
from cpplan.model.pool import Pool
from cpplan.model.problem import Problem
from cpplan.model.residency import Residency
from cpplan.model.tensor import LIMIT
from cpplan.program.anf import Program, runs_once
from cpplan.verification.access_trace import Access
from cpplan.verification.aliasing import Union, shared_unions
from cpplan.verification.bound_table import (
    FOOTPRINT,
    FORCED,
    LARGEST,
    LEAST_PIECE,
    LIVE_BETWEEN,
    MINIMUM_CUT,
    SHARED,
)
from cpplan.verification.cited_bounds import cited_bytes, cited_cost
from cpplan.verification.final_values import check_ends
from cpplan.verification.footprint import forced_by
from cpplan.verification.hand_overs import (
    Allowed,
    find_disjoint,
    find_hand_overs,
    least_bytes_handed_over,
)
from cpplan.verification.layout import check_addresses, check_pools
from cpplan.verification.lowering import Lowered
from cpplan.verification.matched_buffers import match_buffers
from cpplan.verification.needed_buffers import (
    check_costs,
    check_first_last,
    in_pools,
    needed_buffers,
    planned_offsets,
)
from cpplan.verification.never_shared import never_shared
from cpplan.verification.piece_copies import copied_bytes
from cpplan.verification.pieces import Described
from cpplan.verification.pool_objective import is_peak
from cpplan.verification.relations import check_relations
from cpplan.verification.shared_bound import least_bytes
from cpplan.verification.storages import relaxed_by

# Bounds that hold for any aliases, and for ops in pieces.
_PIECES = (LEAST_PIECE, LIVE_BETWEEN)


class Needs(NamedTuple):
    """Buffers that a plan must have, unions of related buffers, and bounds proved.

    ``proved`` has the bytes that the bound cited proves; in several pools, the bytes needed with
    any aliases. ``apart`` is the problem of bytes that no plan shares, if bytes may be shared by
    choice; ``disjoint`` is true if buffers share bytes only where one takes them over from another;
    ``least_cost`` is the lower bound on the cost that duals prove.
    """

    buffers: Problem
    unions: Mapping[str, tuple[Sequence[str], Sequence[Union]]] | None = None
    apart: Problem | None = None
    proved: int | None = None
    disjoint: bool = False
    least_cost: int | float | None = None


def check_program_plan(lowered: Lowered) -> Needs:
    """Needs of a plan in which nothing moves, after a check of everything except its buffers.

    Raises
    ------
    VerificationError
        Names the op or tensor for which the order, the cost, an alias or a view is wrong.
    """
    plan, program = lowered.plan, lowered.program
    if not plan.pieces:
        _check_copied(None, program, plan, ())
    # Bytes that pieces copy can only be counted on the access trace.
    alone = tuple(plan.pools) == (Pool(),) and not plan.pieces
    if alone and runs_once(program) and (found := _check_single_runs(program, plan)) is not None:
        return found
    if _moves_alone(plan) and runs_once(program) and (found := _check_pooled(program, plan)):
        return found
    accesses, runs = lowered.accesses, lowered.runs
    needed = needed_buffers(accesses, plan.pools)
    if plan.pieces:  # bytes copied depend on the offsets
        match_buffers(needed, plan, planned_offsets(plan))
        _check_copied(lowered.described, program, plan, accesses)
    check_costs(program, plan)
    check_first_last(plan)
    check_ends(program.graph, plan, runs)
    check_relations(runs, plan)
    unions = shared_unions(plan, accesses, runs)
    cost = cited_cost(program, plan, accesses, runs)
    if is_peak(needed, plan.objective):
        proved = cited_bytes(program, plan, accesses, runs, lowered.model)
        return Needs(needed, unions, proved=proved, least_cost=cost)
    claims = bool(plan.objective_bound) or plan.lower_bound is not None
    if not (plan.sharing and claims):
        return Needs(needed, unions, least_cost=cost)
    apart = never_shared(needed, plan.sharing, accesses, runs)
    return Needs(needed, unions, apart, least_bytes(plan.sharing, accesses, runs))


def _check_single_runs(program: Program, plan: Plan) -> Needs | None:
    """The buffers of a plan for one arena whose ops run once each, without bodies.

    ``None`` if tensors share bytes and only the access trace can tell if they may.
    """
    needed = buffers_of_single_runs(program, plan.residency)
    peak = is_peak(needed, plan.objective)
    # These bounds hold for any aliases: the largest buffer, those of pieces, and 0 bytes.
    none = (plan.bound_by, plan.lower_bound) == (FORCED, 0)
    proved = peak and (plan.bound_by in (LARGEST, *_PIECES) or none)
    if not plan.relations and (proved or not plan.sharing):
        check_costs(program, plan)
        check_first_last(plan)
        check_ends(program.graph, plan, None)
        found = cited_bytes(program, plan, (), (), program.graph) if peak else None
        least = cited_cost(program, plan, (), ())
        return Needs(needed, proved=found, least_cost=least)
    if not peak or plan.bound_by in (FOOTPRINT, MINIMUM_CUT):
        return None
    allowed = find_hand_overs(program, plan.residency, needed, plan.sharing)
    if allowed is None:
        return None
    try:
        offset, _ = match_buffers(needed, plan, planned_offsets(plan))
    except VerificationError:
        return None
    if not find_disjoint(plan.relations, allowed.hand_overs, needed, offset):
        return None
    found = None
    if plan.sharing and plan.bound_by == SHARED:
        found = least_bytes_handed_over(allowed, needed)
        if found is None:
            return None
    if plan.bound_by in _PIECES:
        found = cited_bytes(program, plan, (), (), program.graph)
    if plan.bound_by == FORCED:
        found = _forced_by_hand_overs(program, plan, needed, allowed)
    check_costs(program, plan)
    check_first_last(plan)
    check_ends(program.graph, plan, None)
    least = cited_cost(program, plan, (), ())
    return Needs(needed, proved=found, disjoint=True, least_cost=least)


def _moves_alone(plan: Plan) -> bool:
    """True for a plan in several pools, without pieces, that bounds neither its peaks nor cost."""
    bounds = plan.lower_bound, plan.bound_by, plan.cost_bound, plan.cost_bound_by
    claims = plan.objective_bound, plan.objective_value, plan.certificate, plan.cost_certificate
    plain = not plan.pieces and plan.copied_bytes is None
    return plain and len(plan.pools) > 1 and not any(claims) and set(bounds) == {None}


def _check_pooled(program: Program, plan: Plan) -> Needs | None:
    """The buffers of a plan in several pools whose ops run once each, without bodies or bounds.

    ``None`` if tensors share bytes and only the access trace can tell if they may.
    """
    needed = in_pools(buffers_of_single_runs(program, plan.residency), program.graph, plan.pools)
    if plan.relations:
        allowed = find_hand_overs(program, plan.residency, needed, plan.sharing)
        if allowed is None:
            return None
        try:
            offset, pool = match_buffers(needed, plan, planned_offsets(plan))
            check_pools(needed, pool)
            check_addresses(needed, pool, offset)
        except VerificationError:
            return None
        # One pool above the other, buffers of two pools have no address in common.
        ends = np.zeros(len(plan.pools), np.int64)
        np.maximum.at(ends, pool, offset + needed.size)
        if sum(ends.tolist()) >= LIMIT:
            return None
        address = offset + (np.cumsum(ends) - ends)[pool]
        if not find_disjoint(plan.relations, allowed.hand_overs, needed, address):
            return None
    check_costs(program, plan)
    check_first_last(plan)
    check_ends(program.graph, plan, None)
    return Needs(needed, disjoint=bool(plan.relations))


def _forced_by_hand_overs(program: Program, plan: Plan, needed: Problem, allowed: Allowed) -> int:
    """Forced live bytes of a plan whose buffers share bytes in the ways allowed."""
    bound, at = plan.lower_bound, plan.certificate
    names = needed.names
    joined = [(names[inner], names[outer], shift) for inner, outer, shift in allowed.joined]
    return forced_by(
        relaxed_by(program.graph, plan.residency, joined, allowed.saved.tolist()),
        (plan.first, plan.last),
        at=at.op if isinstance(at, ForcedAt) else None,
        enough=bound if type(bound) is int else None,
    )


def _check_copied(
    described: Described | None, program: Program, plan: Plan, accesses: Sequence[Access]
) -> None:
    """Raise if a plan claims a wrong number of bytes copied to gather and to paste bands."""
    if plan.copied_bytes is None:
        if described is not None:
            raise VerificationError("the plan cuts ops, but does not say how many bytes it copies")
        return
    copied = 0
    if described is not None:
        copied = copied_bytes(described, program, plan, accesses)
    if plan.copied_bytes != copied:
        raise VerificationError(
            f"the plan claims {plan.copied_bytes!r} copied bytes, but it copies {copied}"
        )


def buffers_of_single_runs(program: Program, residency: Residency) -> Problem:
    """The buffers that a program needs in one arena, if ops run once each, without bodies.

    O(ops + tensors).

    Raises
    ------
    VerificationError
        If the sizes or an alignment exceed 2**62 bytes.
    """
    columns = program.graph.columns
    last = max(1, len(program.order)) - 1
    order = np.array(program.order, np.int64)
    reading, writing = columns.read.taken(order), columns.written.taken(order)
    # Buffers in the order of first access: constants, tensors that the caller brings, results.
    made = np.zeros(len(columns.names), np.bool_)
    made[writing.item] = True
    constant = columns.are({"constant"})
    constants = np.flatnonzero(columns.storage & ~made & constant)
    brought = np.flatnonzero(columns.storage & ~made & ~constant)
    listed = np.concatenate([constants, brought, columns.root[writing.item]])
    _, first = np.unique(listed, return_index=True)
    storages = listed[np.sort(first)]
    begun, count = len(constants) + len(brought), len(storages)
    row_of_root = np.zeros(len(columns.names), np.int64)
    row_of_root[storages] = np.arange(count)
    row = row_of_root[columns.root]
    lower, upper = np.full(count, last, np.int64), np.zeros(count, np.int64)
    for accessed in (reading, writing):
        np.minimum.at(lower, row[accessed.item], accessed.owner)
        np.maximum.at(upper, row[accessed.item], accessed.owner + 1)
    lower[:begun], upper[:begun] = 0, np.maximum(upper[:begun], 1)
    upper[: len(constants)] = last + 1
    outside = np.zeros(count, np.bool_)
    wanted = {"input": residency.inputs, "output": residency.outputs}
    for kind, where in wanted.items():
        of_kind = row[columns.are({kind})]
        outside[of_kind] |= where == "outside"
        if where == "keep":
            upper[of_kind] = last + 1
    outside[row[constant]] |= residency.constants != "keep"
    alignment = [1] * count
    for k in np.flatnonzero(columns.alignment != 1).tolist():
        alignment[row[k]] = math.lcm(alignment[row[k]], int(columns.alignment[k]))
    # An op that reads and writes the same storage passes it on.
    read, write = row[reading.item], row[writing.item]
    # ``isin`` would import masked arrays, which takes longer than checking a small plan.
    known, asked = np.sort(reading.owner * count + read), writing.owner * count + write
    passed = np.searchsorted(known, asked) < np.searchsorted(known, asked, "right")
    placed = np.flatnonzero(~outside)
    rows, size = placed.tolist(), columns.size[storages[placed]]
    # Each size is below 2**62: a sum of floats tells if the total may be above that.
    many = sum(size.tolist()) if size.sum(dtype=np.float64) > LIMIT / 2 else 0
    if max(many, *(alignment[k] for k in rows), 0) >= LIMIT:
        raise VerificationError("the sizes or an alignment of the model exceed 2**62 bytes")
    return Problem(
        names=tuple([columns.names[k] for k in storages[placed].tolist()]),
        lower=lower[placed],
        upper=upper[placed],
        size=size,
        alignment=np.array([alignment[k] for k in rows], np.int64),
        reads=np.bincount(read, minlength=count)[placed],
        writes=np.bincount(write[~passed], minlength=count)[placed],
    )
