"""Best order of a graph's ops and its offsets: orders are searched in turns, and packed.

After packing left a gap to the bound, order, offsets and aliases are searched together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cpplan.aliasing.packed import Packed
from cpplan.aliasing.solve import SharingSearch
from cpplan.model.order_problem import OrderProblem
from cpplan.model.problem import Ints, Problem
from cpplan.model.residency import Residency
from cpplan.ordering.bounds import FORCED
from cpplan.ordering.problem import order_problem
from cpplan.packing.incumbent import Incumbent
from cpplan.packing.problem import as_problem
from cpplan.packing.search.outcome import OrderOutcome
from cpplan.program.anf import Program
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline
from cpplan.solving.order_turns import (
    NO_TIME_TO_ORDER,
    UNSHARED,
    OrderTurn,
    has_many_ops,
    is_late_to_order,
    search_in_turns,
)
from cpplan.solving.run import Run

if TYPE_CHECKING:
    from cpplan.runtime.cp_sat_proof import PeakModel, Proof

# Share of the time left for packing an order if the given one, or one that needs no sharing, may
# pack better.
_FIRST_PACKING_SHARE = 0.7
# Seconds: an order found with less than a moment left, or after Ctrl-C, is packed within this
# grace.
_MOMENT = 0.02

# Reasons for an early end of a run with a searched order.
ALL_ORDERS = "the searches for orders and for orders with offsets have ended"
ORDERS_ALONE = (
    "the searches for orders and for offsets have ended; no search for both together was made, "
    "since the graph is too large, has bodies, or has given first or last ops"
)


def search_orders(run: Run, source: Program | Problem) -> tuple[Packed, OrderOutcome]:
    """The best order and its offsets; the given order if that packs better."""
    assert isinstance(source, Program)
    tuning = run.tuning
    free = not (run.request.first or run.request.last)
    if free and is_late_to_order(run, source):
        run.stop_early(NO_TIME_TO_ORDER)
        packed = _pack(run, source)
        given, live = np.array(source.order, np.int64), packed.problem.live_bytes()
        return packed, OrderOutcome(given, int(live.max(initial=0)), 0, "given order", FORCED)
    turns = search_in_turns(run, source)
    outcome, unshared = next(turns)
    named = {tuple(outcome.order.tolist()): outcome.found_by}
    if unshared is not None:
        named.setdefault(tuple(unshared.tolist()), UNSHARED)
    if free:
        named.setdefault(source.order, "given order")
    programs = [Program(source.graph, order) for order in named]
    # With a single order, floors are not needed.
    rivals = len(programs) > 1
    later = bool(run.sharing) and unshared is None and not has_many_ops(source)
    floors = [_floor(run, program) if rivals else 0 for program in programs]
    best: Packed | None = None
    for k, (program, floor) in enumerate(zip(programs, floors, strict=True)):
        if best is not None and best.good_enough:
            break
        if best is not None and best.cannot_be_beaten_by(floor):
            continue
        rival = any(other < tuning.rival * floor for other in floors[k + 1 :])
        share = _FIRST_PACKING_SHARE if rival or later else 1.0
        packed = _pack(run, program, best, share=share)
        if best is None or packed.value < best.value:
            best, outcome = packed, outcome._replace(found_by=named[program.order])
    assert best is not None
    if run.request.algorithm is not None or best.pooled is not None:
        return best, outcome
    if free:
        best, outcome = _search_jointly(run, best, outcome, tuning.joint_ops)
    best, outcome = _go_on(run, best, outcome, turns)
    if free:
        best, outcome = _search_jointly(run, best, outcome, tuning.joint_ops_in_the_end)
    if not (_settled(run, best, outcome) or run.reasons):
        most_ops = tuning.joint_ops_in_the_end
        joint = free and joint_problem(source, run.residency, most_ops) is not None
        run.stop_early(ALL_ORDERS if joint else ORDERS_ALONE)
    return best, outcome


def search_within(run: Run, source: Program) -> Callable[[Deadline], tuple[Packed, str]]:
    """Function that searches for orders within a deadline and names the search of the best one."""

    def search(deadline: Deadline) -> tuple[Packed, str]:
        packed, outcome = search_orders(replace(run, budget=run.budget.until(deadline)), source)
        return packed, outcome.found_by

    return search


def _settled(run: Run, best: Packed, outcome: OrderOutcome) -> bool:
    """True if the packing is proved best or good enough, or nothing fits."""
    hopeless = run.limit is not None and outcome.bound > run.limit
    return hopeless or best.good_enough or best.peak <= outcome.bound


def _search_jointly(
    run: Run, best: Packed, outcome: OrderOutcome, most_ops: int
) -> tuple[Packed, OrderOutcome]:
    """Improve order, aliases and offsets together, unless the search is over."""
    if _settled(run, best, outcome) or run.deadline.expired():
        return best, outcome
    return improve_jointly(
        best, outcome, run.residency, run.budget, most_ops=most_ops, report=run.record
    )  # fmt: skip


def _go_on(
    run: Run, best: Packed, outcome: OrderOutcome, turns: Iterator[OrderTurn]
) -> tuple[Packed, OrderOutcome]:
    """Search for orders while gap and time are left, and pack those that may be better."""
    if _settled(run, best, outcome) or run.deadline.expired():
        return best, outcome
    source, tried = best.source, {tuple(outcome.order.tolist())}
    assert isinstance(source, Program)
    for found, _ in turns:
        if found.bound > outcome.bound:
            outcome = outcome._replace(
                bound=found.bound, bound_by=found.bound_by, certificate=found.certificate
            )
        order = tuple(found.order.tolist())
        if order not in tried:
            tried.add(order)
            program = Program(source.graph, order)
            if not best.cannot_be_beaten_by(_floor(run, program)):
                packed = _pack(run, program, best)
                if packed.value < best.value:
                    best, outcome = (
                        packed,
                        outcome._replace(
                            order=found.order, peak=found.peak, found_by=found.found_by
                        ),
                    )
        if _settled(run, best, outcome) or run.deadline.expired():
            break
    return best, outcome


def _pack(run: Run, program: Program, best: Packed | None = None, share: float = 1.0) -> Packed:
    """Packing of an order in a share of the time left; if none is left, by heuristics alone.

    An order must be packed, so that these have a grace; but with many buffers, packing makes a
    first plan even without time.
    """
    deadline = run.deadline
    by_clock = not (deadline.deterministic or deadline.cancelled)
    if deadline.remaining() > _MOMENT or (has_many_ops(program) and by_clock):
        return run.pack(program, deadline.share(share) if share < 1 else deadline, best)
    by_work = deadline.deterministic and not deadline.cancelled
    grace = deadline.anew(run.tuning.grace, deterministic=by_work)
    return run.pack(program, grace, best, quick=True)


def _floor(run: Run, program: Program) -> int:
    """Lower bound on the peak in this order, for any choice of aliases."""
    problem = as_problem(program, run.residency)
    if not run.sharing:
        return int(problem.live_bytes().max(initial=0))
    from cpplan.aliasing.alias_candidates import find_candidates
    from cpplan.aliasing.bounds import shared_bound
    from cpplan.aliasing.lives import ProgramLives

    candidates = find_candidates(program.graph, run.residency, run.sharing)
    return shared_bound(problem, candidates, ProgramLives(program, problem, run.residency)).value


def joint_problem(program: Program, residency: Residency, most_ops: int) -> OrderProblem | None:
    """The ordering problem with a storage for every buffer, or ``None`` if models do not apply.

    The models and their proofs apply only to small graphs without bodies.
    """
    graph = program.graph
    if not 0 < len(graph.ops) <= most_ops or any(op.bodies for op in graph.ops):
        return None
    return order_problem(graph, residency, apart=True)


def improve_jointly(
    packed: Packed,
    outcome: OrderOutcome,
    residency: Residency,
    budget: Budget,
    *,
    most_ops: int,
    report: Callable[[int, int, str], None],
) -> tuple[Packed, OrderOutcome]:
    """Packing and outcome after a search for order, offsets and aliases together."""
    program = packed.source
    assert isinstance(program, Program)
    if packed.peak <= outcome.bound or budget.deadline.expired():
        return packed, outcome
    ordering = joint_problem(program, residency, most_ops)
    if ordering is None:
        return packed, outcome
    from cpplan.runtime.cp_sat_proof import prove_peak

    row = {name: k for k, name in enumerate(packed.problem.names)}
    rows = np.array([row[name] for name in ordering.storages], np.int64)
    plain = packed.sharing is None
    model, start, name = (_without_aliases if plain else _with_aliases)(packed, ordering, rows)
    best = packed

    def keep(proof: Proof[Any]) -> None:
        nonlocal best, outcome
        if proof.bound > outcome.bound:
            outcome = outcome._replace(bound=proof.bound, bound_by=name)
        if proof.peak < best.peak:
            order, offset = proof.best.order, proof.best.offset
            address = dict(zip(ordering.storages, offset.tolist(), strict=True))
            ordered = Program(program.graph, tuple(int(op) for op in order))
            better = _packed(ordered, address, packed, residency, name)
            if better.peak < best.peak:
                best, outcome = better, outcome._replace(order=order, found_by=name)
        report(best.peak, outcome.bound, name)

    prove_peak(model, start, budget, bound=outcome.bound, report=keep)
    return best, outcome


def _without_aliases(
    packed: Packed, ordering: OrderProblem, rows: Ints
) -> tuple[PeakModel[Any], Any, str]:
    """The model of orders and offsets, its hint, and its name."""
    from cpplan.ordering.search.cp_sat_joint import NAME, joint_model
    from formulations.joint import Layout

    assert isinstance(packed.source, Program)
    none = np.zeros(len(ordering), np.int64)
    start = Layout(np.array(packed.source.order, np.int64), packed.offsets[rows], none)
    return joint_model(ordering, packed.problem.alignment[rows], none + 1), start, NAME


def _with_aliases(
    packed: Packed, ordering: OrderProblem, rows: Ints
) -> tuple[PeakModel[Any], Any, str]:
    """The model of orders, offsets and aliases, its hint, and its name."""
    from cpplan.aliasing.cp_sat import JOINT_SHARING, joint_sharing_model
    from cpplan.aliasing.distances import find_meetings
    from cpplan.aliasing.value_numbers import Origins
    from formulations.joint_sharing import SharedLayout

    program, search = packed.source, packed.sharing
    assert isinstance(program, Program)
    assert search is not None
    row = {name: k for k, name in enumerate(ordering.storages)}
    candidates = [
        candidate
        for candidate in search.candidates
        if candidate.inner in row and candidate.outer in row
    ]
    origins = Origins(program.graph, search.candidates)
    meetings = find_meetings(row, ordering.size.tolist(), candidates, origins)
    start = SharedLayout(np.array(program.order, np.int64), packed.offsets[rows])
    model = joint_sharing_model(ordering, packed.problem.alignment[rows], meetings)
    return model, start, JOINT_SHARING


def _packed(
    program: Program, address: dict[str, int], before: Packed, residency: Residency, name: str
) -> Packed:
    """The packing of a program with given addresses of its storages."""
    problem = as_problem(program, residency, before.problem.pools)
    offsets = np.array([address.get(name, 0) for name in problem.names], np.int64)
    if before.sharing is None:
        known = before.incumbent
        assert known is not None
        incumbent = Incumbent(problem, target=known.target, limit=known.limit)
        incumbent.offer(offsets[incumbent.reduction.rows], name)
        return Packed(program, problem, incumbent)
    search = SharingSearch(
        program,
        problem,
        residency,
        kinds=before.sharing.kinds,
        target=before.sharing.target,
        limit=before.sharing.limit,
    )
    search.adopt(offsets, name)
    return Packed(program, problem, sharing=search)
