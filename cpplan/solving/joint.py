"""Search for order, offsets and aliases together, after packing left a gap to the bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from cpplan.aliasing.packed import Packed
from cpplan.aliasing.solve import SharingSearch
from cpplan.model.order_problem import OrderProblem
from cpplan.model.problem import Ints
from cpplan.model.residency import Residency
from cpplan.ordering.problem import order_problem
from cpplan.packing.incumbent import Incumbent
from cpplan.packing.problem import as_problem
from cpplan.packing.search.outcome import OrderOutcome
from cpplan.program.anf import Program
from cpplan.runtime.budget import Budget

if TYPE_CHECKING:
    from cpplan.runtime.cp_sat_proof import PeakModel, Proof


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

    try:
        prove_peak(model, start, budget, bound=outcome.bound, report=keep)
    except KeyboardInterrupt:
        budget.deadline.cancel()
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
