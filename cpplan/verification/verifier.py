"""``verify``: checks that a plan keeps all rules, by geometry only, without a planner."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cpplan.model.certificates import CutFlow, ForcedAt
from cpplan.model.costs import sum_costs
from cpplan.model.cut_duals import CutDuals
from cpplan.model.errors import VerificationError
from cpplan.model.graph import Graph
from cpplan.model.plan import Plan
from cpplan.model.pool import Pool
from cpplan.model.problem import Ints, Problem
from cpplan.program.anf import Program, runs_once
from cpplan.program.timeline import least_time
from cpplan.verification.access_trace import Access, replay
from cpplan.verification.aliasing import Union, shared_unions
from cpplan.verification.bound_table import (
    EVERY_OP_ONCE,
    FOOTPRINT,
    FORCED,
    FORCED_MOVES,
    LARGEST,
    LEAST_PIECE,
    LINEAR_AT_CUTS,
    LIVE_AT_CUTS,
    MINIMUM_CUT,
    ROOM_PRICES,
    SHARED,
)
from cpplan.verification.claims import (
    Floors,
    Proofs,
    check_claims,
    check_moved_claims,
    check_peak,
    check_pooled_claims,
    check_time,
)
from cpplan.verification.cut_bound import holds_no_schedule, least_cost
from cpplan.verification.cut_flow import minimum_cut_bytes
from cpplan.verification.final_values import check_ends
from cpplan.verification.footprint import forced_by, forced_live_bytes, least_footprint
from cpplan.verification.hand_overs import (
    Allowed,
    find_disjoint,
    find_hand_overs,
    least_bytes_handed_over,
)
from cpplan.verification.layout import check_addresses, check_all_apart, check_pools
from cpplan.verification.moved_bound import forced_moves_floor, moved_bytes_floor
from cpplan.verification.moves import (
    check_moves,
    moved_program,
    moving_graph,
    without_moves,
)
from cpplan.verification.needed_buffers import (
    check_costs,
    check_first_last,
    check_types,
    integers,
    needed_buffers,
    planned_offsets,
    planned_program,
)
from cpplan.verification.never_shared import never_shared
from cpplan.verification.piece_bound import least_piece
from cpplan.verification.piece_copies import copied_bytes
from cpplan.verification.pieces import Described, describe_pieces
from cpplan.verification.pool_objective import is_peak
from cpplan.verification.rectangles import check_apart, cut_gaps
from cpplan.verification.relations import check_relations, pairs_in_place
from cpplan.verification.runs import Run
from cpplan.verification.shared_bound import least_bytes
from cpplan.verification.single_runs import buffers_of_single_runs
from cpplan.verification.storages import relaxed_by


def verify(
    source: Graph | Program | Problem, plan: Plan, *, dims: Mapping[str, int] | None = None
) -> None:
    """Check every claim of a plan against the model, from the definitions alone.

    Checked: the pieces of ops that are cut, which write every element of an output just once (the
    rest is then checked of the graph of pieces); the order and its cost; that exactly the buffers the model needs are there, with the
    sizes and lifespans it needs; that every offset is a non-negative multiple of the buffer's
    alignment, and the one that was fixed; that no two buffers share a byte at a step; peak,
    capacity, status; that every bound is at most the value that it bounds, bears the name of a
    known bound that applies to such a plan, and is proved again unless it rests on a search; where
    tensors move between pools, that every op and every move finds their bytes where it looks
    (:mod:`cpplan.verification.bound_table` lists them; :func:`check_plan` says how each was
    checked).
    O(n log n + n × buffers live at once / a machine word).

    Parameters
    ----------
    source
        The model that was planned. Of a program only the graph counts; the order is the plan's.
    plan
        The plan to check.
    dims
        Values at which to check a plan of symbolic sizes; at its bounds, or all the sizes that it
        was made for, if left out.

    Raises
    ------
    InputError
        If the arguments are of other types.
    VerificationError
        At the first broken rule; names the buffers and the step, or what was expected.

    Examples
    --------
    >>> problem = Problem(("a", "b"), lower=[0, 1], upper=[2, 3], size=[4, 8])
    >>> columns = dict(size=problem.size, lower=problem.lower, upper=problem.upper)
    >>> plan = Plan("p", "feasible", ("a", "b"), offset=np.array([0, 2]), peak=10, **columns)
    >>> verify(problem, plan)
    Traceback (most recent call last):
    ...
    cpplan.model.errors.VerificationError: buffers 'a' and 'b' overlap at step 1: bytes 0..4 and 2..10
    """  # noqa: E501
    check_plan(source, plan, dims=dims)


def check_plan(
    source: Graph | Program | Problem, plan: Plan, *, dims: Mapping[str, int] | None = None
) -> Proofs:
    """Check a plan as :func:`verify` does, and say how its bounds were checked.

    Examples
    --------
    >>> problem = Problem(("a", "b"), lower=[0, 1], upper=[2, 3], size=[4, 8])
    >>> columns = dict(size=problem.size, lower=problem.lower, upper=problem.upper)
    >>> claims = dict(peak=12, lower_bound=12, bound_by="live bytes")
    >>> plan = Plan("p", "optimal", ("a", "b"), offset=np.array([0, 4]), **columns, **claims)
    >>> check_plan(problem, plan).bound
    'recomputed'
    """
    check_types(source, plan)
    if plan.spills:
        return _check_plan_with_moves(source, plan, dims)
    if dims:
        from cpplan.program.binding import bind_both

        source, plan = bind_both(source, plan, dims)
    elif plan.symbols is not None and plan.symbols.sizes and plan.offset is not None:
        from cpplan.program.binding import bind_largest

        for values in plan.symbols.sizes:
            verify(source, plan, dims=values)
        source, plan = bind_largest(source, plan)
    offset = planned_offsets(plan)
    for column in ("size", "lower", "upper", "pool"):
        integers(column, getattr(plan, column), len(plan.buffers))
    if isinstance(source, Problem):
        _check_problem_plan(source, plan)
        needs = _Needs(source)
    else:
        needs = _check_program_plan(source, plan)
    needed = needs.buffers
    offset, pool = _match_buffers(needed, plan, offset)
    rectangles = cut_gaps(needed)
    check_pools(needed, pool)
    check_addresses(needed, pool, offset)
    if not needs.disjoint:
        check_all_apart(needed, rectangles, pool, offset, needs.unions)
    check_peak(needed, plan, pool, offset)
    if not is_peak(needed, plan.objective):
        shared, cost = needs.floors.shared, needs.least_cost
        return check_pooled_claims(needed, plan, pool, offset, shared, needs.apart, cost)
    padded = needed.aligned_to(needed.pools[0].alignment)
    return check_claims(padded, plan, rectangles, needs.floors, needs.least_cost)


def _check_plan_with_moves(
    source: Graph | Program | Problem, plan: Plan, dims: Mapping[str, int] | None
) -> Proofs:
    """Check the moves, then the plan for the program that they make of the model."""
    if isinstance(source, Problem) or dims or plan.symbols is not None:
        raise VerificationError("only plans for a graph of fixed sizes have moves")
    graph = source.graph if isinstance(source, Program) else source
    planned_offsets(plan)
    base = sum_costs(op.cost for op in graph.ops)
    if plan.base_cost is None or not math.isclose(plan.base_cost, base, rel_tol=1e-9):
        raise VerificationError(
            f"the plan claims a base_cost of {plan.base_cost!r}, but it is {base}"
        )
    graph, moving, runs = moving_graph(graph, plan)
    again = len(runs) > 0
    program = check_moves(graph, moving)
    check_costs(program, replace(moving, base_cost=moving.cost))
    inner, still = without_moves(graph, replace(moving, base_cost=moving.cost))
    check_plan(inner, still)
    _check_copied_with_moves(source, plan)
    check_time(program, moving)

    def floor(name: str) -> int | float:
        """Bytes moved, or cycles, that a bound of this name proves."""
        moved = 0
        if name == ROOM_PRICES and plan.moved_certificate is not None:
            moved = moved_bytes_floor(graph, program, moving, plan.moved_certificate)
        elif name == FORCED_MOVES:
            moved = forced_moves_floor(graph, program, moving)
        if plan.time_bound is None:
            return moved
        cost = base if name == EVERY_OP_ONCE else program.cost
        return least_time(cost, moved, plan.pools[1])

    return check_moved_claims(moving, floor, again=again)


def _check_copied_with_moves(source: Graph | Program, plan: Plan) -> None:
    """Raise if a plan with moves claims another number of bytes copied to gather bands."""
    model = source.graph if isinstance(source, Program) else source
    copied = copied_with_moves(model, plan) if plan.pieces else None
    if plan.copied_bytes != copied:
        raise VerificationError(
            f"the plan claims {plan.copied_bytes!r} copied bytes, but it copies {copied}"
        )


def copied_with_moves(model: Graph, plan: Plan) -> int:
    """Bytes copied to gather and to paste bands by a plan in pieces whose bands move.

    Examples
    --------
    >>> from cpplan.model.pool import Pool
    >>> none = np.zeros(0, np.int64)
    >>> plan = Plan("g", "optimal", (), none, none, none, none, pools=(Pool("a"), Pool("b")))
    >>> copied_with_moves(Graph("g", (), ()), plan)
    0
    """
    graph, moving, _ = moving_graph(model, plan)
    moved = moved_program(graph, moving)
    inner, still = without_moves(graph, moving)
    described = describe_pieces(model, plan.pieces)
    parts = {
        copy: described.parts[band]
        for copy, band in moved.origin.items()
        if band in described.parts
    }
    accesses, _ = replay(moved.program, still.residency, pairs_in_place(inner, still))
    return copied_bytes(
        replace(described, graph=inner, parts=parts), moved.program, still, accesses
    )


def _check_problem_plan(source: Problem, plan: Plan) -> None:
    claims = plan.order, plan.views, plan.relations, plan.sharing, plan.first, plan.last
    if any(claims) or plan.cost is not None or plan.base_cost is not None:
        raise VerificationError(
            "a bare problem has no order, cost, views or relations, but the plan has"
        )
    if plan.pools != source.pools:
        names = [", ".join(repr(p.name) for p in pools) for pools in (plan.pools, source.pools)]
        raise VerificationError(f"the plan is for pools {names[0]}, not {names[1]} as given")


class _Needs(NamedTuple):
    """Buffers that a plan must have, unions of related buffers, and bounds proved.

    ``apart`` has the bytes that are apart in any plan, if bytes may be shared by choice;
    ``disjoint`` says that no byte belongs to two buffers but where the one takes it over;
    ``least_cost`` is what duals prove of the cost.
    """

    buffers: Problem
    unions: Mapping[str, tuple[Sequence[str], Sequence[Union]]] | None = None
    apart: Problem | None = None
    floors: Floors = Floors()
    disjoint: bool = False
    least_cost: int | float | None = None


def _check_program_plan(source: Graph | Program, plan: Plan) -> _Needs:
    graph = source.graph if isinstance(source, Program) else source
    described = describe_pieces(graph, plan.pieces) if plan.pieces else None
    program = planned_program(source, plan, described)
    # Only the access trace can tell how many bytes are copied.
    alone = tuple(plan.pools) == (Pool(),) and not plan.pieces and plan.copied_bytes is None
    if alone and runs_once(program) and (found := _check_single_runs(program, plan)) is not None:
        return found
    accesses, runs = replay(program, plan.residency, pairs_in_place(program.graph, plan))
    _check_copied(described, program, plan, accesses)
    needed = needed_buffers(accesses, plan.pools)
    check_costs(program, plan)
    check_first_last(plan)
    check_ends(program.graph, plan, runs)
    check_relations(runs, plan)
    unions = shared_unions(plan, accesses, runs)
    cost = _least_cost(program, plan, accesses, runs)
    if is_peak(needed, plan.objective):
        floors = _floors(program, plan, accesses, runs, graph)
        return _Needs(needed, unions, floors=floors, least_cost=cost)
    if not plan.sharing:
        return _Needs(needed, unions, least_cost=cost)
    apart = never_shared(needed, plan.sharing, accesses, runs)
    floors = Floors(shared=least_bytes(plan.sharing, accesses, runs))
    return _Needs(needed, unions, apart, floors)


def _check_single_runs(program: Program, plan: Plan) -> _Needs | None:
    """The buffers of a plan for one arena whose ops run once each, without bodies.

    ``None`` where tensors share bytes and it takes the access trace to tell whether they may.
    """
    needed = buffers_of_single_runs(program, plan.residency)
    peak = is_peak(needed, plan.objective)
    # Whatever else may share bytes, the largest buffer has its own, and 0 is no claim.
    proved = peak and (plan.bound_by == LARGEST or (plan.bound_by, plan.lower_bound) == (FORCED, 0))
    if not plan.relations and (proved or not plan.sharing):
        check_costs(program, plan)
        check_first_last(plan)
        check_ends(program.graph, plan, None)
        floors = _floors(program, plan, (), (), program.graph) if peak else Floors()
        least = _least_cost(program, plan, (), ())
        return _Needs(needed, floors=floors, least_cost=least)
    if not peak or plan.bound_by in (FOOTPRINT, MINIMUM_CUT):
        return None
    allowed = find_hand_overs(program, plan.residency, needed, plan.sharing)
    if allowed is None:
        return None
    try:
        offset, _ = _match_buffers(needed, plan, planned_offsets(plan))
    except VerificationError:
        return None
    if not find_disjoint(plan.relations, allowed.hand_overs, needed, offset):
        return None
    floors = Floors()
    if plan.sharing and plan.bound_by == SHARED:
        shared = least_bytes_handed_over(allowed, needed)
        if shared is None:
            return None
        floors = Floors(shared=shared)
    if plan.bound_by == FORCED:
        floors = Floors(forced=_forced_by_hand_overs(program, plan, needed, allowed))
    check_costs(program, plan)
    check_first_last(plan)
    check_ends(program.graph, plan, None)
    least = _least_cost(program, plan, (), ())
    return _Needs(needed, floors=floors, disjoint=True, least_cost=least)


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


def _floors(
    program: Program, plan: Plan, accesses: Sequence[Access], runs: Sequence[Run], unsplit: Graph
) -> Floors:
    """The bounds on the peak of one pool that the plan cites, proved again.

    The program may be of a graph of pieces; ``unsplit`` is the graph whose ops they are pieces of.
    """
    what = program.graph, plan.residency, plan.sharing, accesses, runs
    ends, flow = (plan.first, plan.last), plan.certificate
    if plan.bound_by == SHARED:
        return (
            Floors(shared=least_bytes(plan.sharing, accesses, runs)) if plan.sharing else Floors()
        )
    if plan.bound_by == FOOTPRINT:
        return Floors(footprint=least_footprint(*what))
    if plan.bound_by == LEAST_PIECE:
        return Floors(piece=least_piece(unsplit, plan.residency, plan.sharing))
    if plan.bound_by == FORCED:
        at = flow.op if isinstance(flow, ForcedAt) else None
        bound = plan.lower_bound if type(plan.lower_bound) is int else None
        if bound == 0:
            return Floors(forced=0)
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


def _least_cost(
    program: Program, plan: Plan, accesses: Sequence[Access], runs: Sequence[Run]
) -> int | float | None:
    """The cost of every schedule that fits, as the duals that the plan carries prove."""
    duals, limit = plan.cost_certificate, plan.capacity
    if plan.cost_bound_by != LINEAR_AT_CUTS or not isinstance(duals, CutDuals):
        return None
    if limit is None and all(pool.capacity is not None for pool in plan.pools):
        limit = sum(pool.capacity or 0 for pool in plan.pools)
    if type(limit) is not int or not _covers(duals, plan):
        return None
    return least_cost(program.graph, plan.residency, duals, limit, plan.order, accesses, runs)


def _covers(duals: CutDuals, plan: Plan) -> bool:
    """True if duals prove something of a plan: of whole ops, which share no bytes by choice."""
    whole = not plan.sharing and not plan.pieces and plan.scope != "every splitting"
    return whole and (plan.scope == "given order" or not duals.given_order)


def _check_copied(
    described: Described | None, program: Program, plan: Plan, accesses: Sequence[Access]
) -> None:
    """Raise if a plan claims another number of bytes copied to gather and to paste bands."""
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


def check_offsets(problem: Problem, offsets: Ints, algorithm: str) -> None:
    """Check an algorithm's offsets: one for each row, aligned, as fixed, and no overlap.

    Raises
    ------
    VerificationError
        Names the algorithm, the buffers and the step.

    Examples
    --------
    >>> problem = Problem(("a", "b"), lower=[0, 1], upper=[2, 3], size=[4, 8])
    >>> check_offsets(problem, np.array([8, 0]), "mine")
    """
    try:
        offset = integers("offset", offsets, len(problem))
        pool = np.zeros(len(problem), np.int64)
        check_addresses(problem, pool, offset)
        check_apart(cut_gaps(problem), problem.names, offset)
    except VerificationError as error:
        raise VerificationError(f"algorithm {algorithm!r}: {error}") from error


def _match_buffers(needed: Problem, plan: Plan, offset: Ints) -> tuple[Ints, Ints]:
    """The plan's offsets and pools, in the order of the buffers needed.

    Each is there once, as needed.
    """
    rows = _matching_rows(needed, plan)
    for column in ("size", "lower", "upper"):
        planned, wanted = np.asarray(getattr(plan, column))[rows], getattr(needed, column)
        if (planned != wanted).any():
            k = int(np.argmax(planned != wanted))
            raise VerificationError(
                f"buffer {needed.names[k]!r} has {column} {planned[k]} in the plan, but needs "
                f"{wanted[k]}"
            )
    planned_gaps = {plan.buffers[k]: sorted(gaps) for k, gaps in plan.gaps.items() if gaps}
    needed_gaps = {needed.names[k]: sorted(gaps) for k, gaps in needed.gaps.items() if gaps}
    if planned_gaps != needed_gaps:
        names = [*planned_gaps, *needed_gaps]
        name = next(name for name in names if planned_gaps.get(name) != needed_gaps.get(name))
        raise VerificationError(f"buffer {name!r} has other gaps in the plan than it needs")
    return offset[rows], np.asarray(plan.pool, np.int64)[rows]


def _matching_rows(needed: Problem, plan: Plan) -> Ints:
    """Row in the plan of each buffer needed; raises unless the plan has exactly these."""
    if tuple(plan.buffers) == tuple(needed.names):
        return np.arange(len(needed), dtype=np.int64)
    row = {name: k for k, name in enumerate(plan.buffers)}
    absent = next((k for k, name in enumerate(needed.names) if name not in row), None)
    if absent is not None:
        raise VerificationError(
            f"buffer {needed.names[absent]!r}, needed from step {needed.lower[absent]}, "
            "is not in the plan"
        )
    if len(row) > len(needed):
        known = set(needed.names)
        extra = next(name for name in row if name not in known)
        raise VerificationError(f"buffer {extra!r} of the plan is not needed in the arena")
    return np.array([row[name] for name in needed.names], np.int64)
