"""Comparison of published splitting rules with ``solve``, on one model at one cost limit."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from cpplan.comparison import SOLVE
from cpplan.comparison.in_turn import rows_in_turn
from cpplan.comparison.remat_comparison import LEAST_PACKING
from cpplan.model.errors import InputError, VerificationError
from cpplan.model.graph import Graph
from cpplan.model.plan import Plan
from cpplan.model.registry import chosen_names
from cpplan.packing.problem import as_program
from cpplan.program.anf import Program
from cpplan.runtime.deadline import Deadline, TimeUpError
from cpplan.runtime.interrupts import noting_interrupts
from cpplan.solving.pipeline import solve_request
from cpplan.solving.request import Request
from cpplan.splitting import heuristics
from cpplan.splitting.between_pieces import NAME as LIVE_BETWEEN
from cpplan.splitting.bounds import NAME as LEAST_PIECE
from cpplan.splitting.bounds import least_piece
from cpplan.splitting.copies import count_copied_bytes
from cpplan.splitting.problem import SplitProblem
from cpplan.splitting.schedule import join
from cpplan.verification.verifier import verify

# Share of a row's time for a rule's pieces; the rest is for packing the pieces.
_PIECES_SHARE = 0.6


@dataclass(frozen=True, slots=True)
class SplitBaseline:
    """One row of a comparison of splitting.

    Attributes
    ----------
    algorithm
        Name of the rule, or ``"cpplan"`` for ``solve``.
    bytes
        Peak of the arena, packed and verified, or ``None`` if there is none.
    ratio
        ``bytes`` divided by the bound on every splitting, or, if the plan does no more work than
        running every op once, by the one on splittings that do not; ``None`` if unknown.
    extra
        Cost divided by the cost of every op once, minus 1 (0.1 is 10 % more), or ``None``.
    runs
        Number of ops run, including pieces, or ``None``.
    copied
        Bytes copied to gather and paste bands, if kernels need each operand in one part; or
        ``None``.
    seconds
        Seconds by the clock, including packing.
    status
        ``solve``'s status; a rule is ``optimal`` if it meets the bound, else ``feasible``; ``not
        split`` if it splits no op within the cost limit, ``unknown`` if it did not finish in time,
        or ``invalid`` if the checker rejects its plan.
    """

    algorithm: str
    bytes: int | None
    ratio: float | None
    extra: float | None
    runs: int | None
    copied: int | None
    seconds: float
    status: str


def compare_split_rows(
    source: Graph | Program,
    *,
    algorithms: Iterable[str] | None = None,
    time_limit: float = 10.0,
    cost_limit: float = 1.1,
    **options: Any,
) -> list[SplitBaseline]:
    """Run every splitting rule and ``solve``; one row each, the smallest peak first.

    A rule's pieces are packed as ``solve`` packs its own, in the rule's order, and verified by the
    same checker. ``solve`` may also search for the order of ops (``order="search"``).
    """
    chosen = chosen_names(heuristics, algorithms)
    program = as_program(source)
    if not isinstance(program, Program):
        raise InputError("split=True needs a graph: a bare problem has no ops to split")
    request = Request(split=True, time_limit=time_limit, cost_limit=cost_limit, **options)
    with noting_interrupts() as interrupted:
        plan = solve_request(program, request)
        rows = [_row(SOLVE, plan, plan.runtime or 0.0, plan.status)]
        rows += rows_in_turn(
            chosen,
            lambda name: _run(name, program, plan, request),
            interrupted,
            request.progress,
        )
    return sorted(rows, key=lambda row: (row.bytes is None, row.bytes or 0))


def _run(name: str, program: Program, ours: Plan, request: Request) -> SplitBaseline:
    """The row of one rule."""
    deadline, start = Deadline(request.time_limit), time.perf_counter()

    def none(status: str) -> SplitBaseline:
        seconds = time.perf_counter() - start
        return SplitBaseline(name, None, None, None, None, None, seconds, status)

    problem = SplitProblem(program, ours.residency, frozenset(ours.sharing))
    base = ours.base_cost or 0
    most = base * (request.cost_limit or math.inf)
    try:
        parts = heuristics.get(name)(problem, most, deadline.share(_PIECES_SHARE))
    except TimeUpError:
        return none("unknown")
    if parts is None:
        return none("not split")
    found, pieces = join(problem, parts)
    if not found.cuts:
        return none("not split")
    packing = replace(request, split=False, cost_limit=None, order="given")
    packed = solve_request(pieces, packing.within(max(deadline.remaining(), LEAST_PACKING)))
    if packed.offset is None:
        return none(packed.status)
    places = {
        buffer: (int(pool), int(offset))
        for buffer, pool, offset in zip(packed.buffers, packed.pool, packed.offset, strict=True)
    }
    plan = replace(
        packed,
        name=ours.name,
        pieces=found.cuts,
        base_cost=base,
        copied_bytes=count_copied_bytes(found, pieces, places),
        scope="every splitting",
        **_bound(ours, problem, packed),
    )
    plan = replace(plan, status="optimal" if plan.peak == plan.lower_bound else "feasible")
    try:
        verify(program, plan)
    except VerificationError:
        return none("invalid")
    return _row(name, plan, time.perf_counter() - start, plan.status)


def _bound(ours: Plan, problem: SplitProblem, packed: Plan) -> dict[str, Any]:
    """The bound of ``solve``, if it covers the work that a rule's plan does."""
    if ours.bound_by == LIVE_BETWEEN and packed.cost != ours.base_cost:
        bytes_ = least_piece(problem).bytes
        return {"lower_bound": bytes_, "bound_by": LEAST_PIECE, "certificate": None}
    names = ("lower_bound", "bound_by", "certificate", "cost_limit")
    return {name: getattr(ours, name) for name in names}


def _row(name: str, plan: Plan, seconds: float, status: str) -> SplitBaseline:
    """The row of a plan."""
    bound, peak, base = plan.lower_bound, plan.peak, plan.base_cost
    ratio = peak / bound if peak is not None and bound else None
    extra = None if plan.cost is None else (plan.cost / base - 1 if base else 0.0)
    runs = None if plan.offset is None else len(plan.order)
    return SplitBaseline(name, peak, ratio, extra, runs, plan.copied_bytes, seconds, status)
