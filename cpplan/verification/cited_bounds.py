"""Bounds that a plan cites, proved again from the program and from the plan's certificate.

The bound "minimum cut", proved again from the flow that a plan carries.

While an op runs, the ops that have run before it form a set ``D`` that is closed under
predecessors: it holds the op's ancestors, but neither the op nor its descendants. A flow starts at
the ancestors (and at present storages), is conserved at every other op, and ends at the op, its
descendants and kept storages. It leaves ``D`` only through storages that an op of ``D`` has begun
and an op outside needs, since all other arcs lead from later ops to earlier ones. So the flow that
arrives is at most the bytes of these storages, in every order.

The bounds "linear bound at cuts" and "live bytes at cuts", proved again from duals.

The rows that a certificate cites are derived from the graph (:mod:`cpplan.verification.cut_rows`),
multiplied by the duals and added up in integers. The sum, with the least value that the remaining
coefficients allow, is at most the cost of every schedule within the limit (weak duality). If it is
positive although all costs are zero, no schedule is within the limit. The bound "cost at cuts" is
of a plan whose cost is limited: within fewer bytes, the duals add up to more than that limit.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from typing import NoReturn

from cpplan.model.certificates import (
    MOST_COLUMNS,
    MOST_PLACES,
    MOST_TERMS,
    CutDuals,
    CutFlow,
    ForcedAt,
    LiveBetween,
)
from cpplan.model.errors import VerificationError
from cpplan.model.graph import Graph
from cpplan.model.plan import Plan
from cpplan.model.residency import Residency
from cpplan.program.anf import Program
from cpplan.verification.access_trace import Access
from cpplan.verification.around import Surroundings
from cpplan.verification.bound_table import (
    COST_AT_CUTS,
    FOOTPRINT,
    FORCED,
    LEAST_PIECE,
    LINEAR_AT_CUTS,
    LIVE_AT_CUTS,
    LIVE_BETWEEN,
    MINIMUM_CUT,
    SHARED,
)
from cpplan.verification.cut_rows import Column, CutRows
from cpplan.verification.footprint import (
    bytes_in_bodies,
    forced_live_bytes,
    least_footprint,
    with_ends,
)
from cpplan.verification.groups import Groups
from cpplan.verification.piece_bound import least_piece
from cpplan.verification.piece_moment import bytes_at_moment
from cpplan.verification.runs import Run
from cpplan.verification.shared_bound import least_bytes
from cpplan.verification.storages import Storages, relaxed_storages


def cited_bytes(
    program: Program, plan: Plan, accesses: Sequence[Access], runs: Sequence[Run], unsplit: Graph
) -> int | None:
    """Bytes that the plan's bound on the peak of one pool proves; ``None`` if it proves nothing.

    The program may be one of a graph of pieces; ``unsplit`` is the graph before it was split.
    """
    name, cited = plan.bound_by, plan.certificate
    claimed = plan.lower_bound if type(plan.lower_bound) is int else None
    at = cited.op if isinstance(cited, ForcedAt) else None
    what = program.graph, plan.residency, plan.sharing, accesses, runs
    ends = plan.first, plan.last
    if claimed == 0 and name in (FORCED, FOOTPRINT, LEAST_PIECE):
        return 0
    if name == SHARED and plan.sharing:
        return least_bytes(plan.sharing, accesses, runs)
    if name == FOOTPRINT:
        return least_footprint(*what, at=at, enough=claimed)
    if name == FORCED:
        return forced_live_bytes(*what, ends, at=at, enough=claimed)
    if name == MINIMUM_CUT and isinstance(cited, CutFlow):
        return minimum_cut_bytes(
            program.graph, plan.residency, cited, accesses, runs, ends, plan.sharing
        )
    if name == LEAST_PIECE:
        return least_piece(unsplit, plan.residency, plan.sharing)
    if name == LIVE_BETWEEN and isinstance(cited, LiveBetween):
        return bytes_at_moment(unsplit, plan.residency, plan.sharing, cited)
    if claimed is None or not isinstance(cited, CutDuals) or not _covers(cited, plan):
        return None
    less = program.graph, plan.residency, cited, claimed - 1, plan.order, accesses, runs
    most = plan.cost_limit
    if name == LIVE_AT_CUTS and holds_no_schedule(*less):
        return claimed
    if name == COST_AT_CUTS and most is not None and least_cost(*less) > most:
        return claimed
    return None


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


def minimum_cut_bytes(
    graph: Graph,
    residency: Residency,
    flow: CutFlow,
    accesses: Sequence[Access],
    runs: Sequence[Run],
    ends: tuple[Sequence[str], Sequence[str]] = ((), ()),
    sharing: Collection[str] = (),
) -> int:
    """Bytes that one op needs in every order that runs each op once, as a flow proves.

    If bytes may be shared, the flow passes through the stretches of
    :func:`~cpplan.verification.storages.relaxed_storages`.
    """
    if sharing:
        storages = relaxed_storages(graph, residency, sharing, accesses, runs)
    else:
        storages = Storages(graph, residency, repeats=False)
    op, beside = proved_by_flow(storages, with_ends(graph, *ends), flow)
    inside = bytes_in_bodies(graph, accesses, runs)
    own = sum(storages.size[root] for root in storages.accessed[op]) - storages.saved[op]
    return inside.constants + storages.untouched(kept=True) + own + int(inside.most[op]) + beside


def proved_by_flow(
    storages: Storages, predecessors: Sequence[Sequence[int]], flow: CutFlow
) -> tuple[int, int]:
    """Position of the certificate's op, and bytes live while it runs besides those it accesses.

    Raises
    ------
    VerificationError
        Names the part of the certificate that is not a flow.
    """
    ops = storages.graph.ops
    number = {op.name: k for k, op in enumerate(ops)}
    around, here = Surroundings(predecessors), _known(number, flow.op)
    before, after = around.before(here), around.after(here)
    gained, into, out_of = [0] * len(ops), Counter[str](), Counter[str]()
    kept, own, ending = set(storages.kept), set(storages.accessed[here]), 0
    for rows, through, sign, boundary in (
        (flow.begun, into, -1, storages.brought),
        (flow.ended, out_of, 1, kept),
    ):
        for storage, name, amount in rows:
            if storage not in storages.size or storage in own:
                _refuse(f"storage {storage!r} is not one that op {flow.op!r} leaves untouched")
            through[storage] += _positive(amount)
            if name is not None:
                if _known(number, name) not in storages.accessors[storage]:
                    _refuse(f"op {name!r} does not access {storage!r}")
                gained[number[name]] += sign * amount
            elif storage not in boundary:
                _refuse(f"{storage!r} is neither brought nor kept by the caller, as it says")
            else:
                ending += amount if sign > 0 else 0
    for name, earlier, amount in flow.waits:
        one, other = _known(number, name), _known(number, earlier)
        gained[one] -= _positive(amount)
        gained[other] += amount
    idle = around.all_wait((number[name], number[earlier]) for name, earlier, _ in flow.waits)
    if idle is not None:
        _refuse(f"op {ops[idle[0]].name!r} does not wait for {ops[idle[1]].name!r}")
    for storage in {*into, *out_of}:
        if not into[storage] == out_of[storage] <= storages.size[storage]:
            _refuse(
                f"{into[storage]} B flow into {storage!r}, {out_of[storage]} B out of it, and it "
                f"has {storages.size[storage]} B"
            )
    for k, op in enumerate(ops):
        later = k == here or k in after
        if later:
            ending += gained[k]
        elif gained[k] and k not in before:
            _refuse(f"op {op.name!r} does not pass on what flows into it")
    return here, ending


def _known(number: Mapping[str, int], name: str) -> int:
    if name not in number:
        _refuse(f"it names unknown op {name!r}")
    return number[name]


def _positive(amount: object) -> int:
    if type(amount) is not int or amount <= 0:
        _refuse(f"an amount must be a positive number of bytes, not {amount!r}")
    return amount


def _refuse(why: str) -> NoReturn:
    raise VerificationError(f"the certificate is not a valid flow: {why}")


def least_cost(
    graph: Graph,
    residency: Residency,
    duals: CutDuals,
    limit: int,
    order: Sequence[str],
    accesses: Sequence[Access],
    runs: Sequence[Run],
) -> int | float:
    """Lower bound on the cost of every schedule within a limit on live bytes, from duals."""
    _check_scale(duals)
    inside = bytes_in_bodies(graph, accesses, runs)
    groups = Groups(graph, residency, inside, order if duals.given_order else None)
    unit = Fraction(*duals.cost_unit)
    costs = [math.floor(cost / unit) for cost in groups.cost]
    total = _added_up(CutRows(groups, duals, limit), duals, costs)
    # Costs are rounded down to multiples of the unit, so their sum is one as well: round it up.
    more = -(-total >> duals.places)
    exact = sum((Fraction(op.cost) for op in graph.ops), max(0, more) * unit)
    if any(isinstance(op.cost, float) for op in graph.ops):
        return float(exact)  # rounded to the nearest float, like a plan's cost
    return math.ceil(exact)


def holds_no_schedule(
    graph: Graph,
    residency: Residency,
    duals: CutDuals,
    limit: int,
    order: Sequence[str],
    accesses: Sequence[Access],
    runs: Sequence[Run],
) -> bool:
    """True if duals prove that no schedule is within a limit on live bytes.

    It has the same parameters and errors as :func:`least_cost`.
    """
    _check_scale(duals)
    inside = bytes_in_bodies(graph, accesses, runs)
    groups = Groups(graph, residency, inside, order if duals.given_order else None)
    return _added_up(CutRows(groups, duals, limit), duals, [0] * len(groups)) > 0


def _check_scale(duals: CutDuals) -> None:
    """Raise unless the unit of costs is positive, and the binary places are a small number."""
    places = duals.places
    whole = all(type(number) is int and number > 0 for number in duals.cost_unit)
    if len(duals.cost_unit) != 2 or not whole:
        raise VerificationError(
            "cost_unit of the certificate must be two positive integers, "
            f"not {duals.cost_unit!r:.120}"
        )
    if type(places) is not int or not 0 <= places <= MOST_PLACES:
        raise VerificationError(
            f"places of the certificate must be from 0 to {MOST_PLACES}, not {places!r:.120}"
        )


def _added_up(rows: CutRows, duals: CutDuals, costs: Sequence[int]) -> int:
    """Least cost beyond one run of every group, in units of ``2**-places``."""
    if len({(rule, indices) for rule, indices, _ in duals.rows}) < len(duals.rows):
        raise VerificationError("the certificate has the same row twice")
    left: defaultdict[Column, int] = defaultdict(int)
    total, terms = 0, 0
    for cited in duals.rows:
        row, at_least = rows.row(cited)
        terms += len(row)
        if terms > MOST_TERMS or len(left) > MOST_COLUMNS:
            raise VerificationError(
                f"the certificate has more than {MOST_TERMS} terms or {MOST_COLUMNS} columns"
            )
        total += cited.multiplier * at_least
        for coefficient, column in row:
            left[column] -= cited.multiplier * coefficient
    for group, cost in enumerate(costs):
        # Subtract the first run: the sum below counts every cited run of the group.
        if not rows.fixed(group):
            total -= cost << duals.places
    for column, rest in left.items():
        least, most = rows.domain(column)
        if column.letter == "r" and column.interval == column.until:
            cost = costs[int(column.of)] << duals.places
            rest += cost
            total -= least * cost
        total += min(least * rest, most * rest)
    return total
