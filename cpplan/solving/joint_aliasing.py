"""Search for order, aliases and offsets together, if the best packing is not proved smallest."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from cpplan.aliasing.distances import find_meetings
from cpplan.aliasing.packed import Packed
from cpplan.aliasing.solve import SharingSearch
from cpplan.aliasing.value_numbers import Origins
from cpplan.model.residency import Residency
from cpplan.packing.problem import as_problem
from cpplan.packing.search.outcome import OrderOutcome
from cpplan.program.anf import Program
from cpplan.runtime.budget import Budget
from cpplan.solving.joint import joint_problem

if TYPE_CHECKING:
    from cpplan.runtime.cp_sat_proof import Proof
    from formulations.joint_sharing import SharedLayout


def improve_sharing_jointly(
    packed: Packed,
    outcome: OrderOutcome,
    residency: Residency,
    budget: Budget,
    *,
    most_ops: int,
    report: Callable[[int, int, str], None],
) -> tuple[Packed, OrderOutcome]:
    """Packing and outcome improved by order, links and offsets together, or unchanged."""
    program, search = packed.source, packed.sharing
    assert isinstance(program, Program)
    assert search is not None
    gap = packed.peak > outcome.bound
    if not gap or budget.deadline.expired():
        return packed, outcome
    ordering = joint_problem(program, residency, most_ops)
    if ordering is None:
        return packed, outcome
    from cpplan.aliasing.cp_sat_joint_sharing import NAME, joint_sharing_model
    from cpplan.runtime.cp_sat_proof import prove_peak
    from formulations.joint_sharing import SharedLayout

    row = {name: k for k, name in enumerate(ordering.storages)}
    number = {name: k for k, name in enumerate(packed.problem.names)}
    rows = np.array([number[name] for name in ordering.storages], np.int64)
    links = [link for link in search.links if link.inner in row and link.outer in row]
    origins = Origins(program.graph, search.links)
    meetings = find_meetings(row, ordering.size.tolist(), links, origins)
    start = SharedLayout(np.array(program.order, np.int64), packed.offsets[rows])
    best = packed

    def keep(proof: Proof[SharedLayout]) -> None:
        nonlocal best, outcome
        if proof.bound > outcome.bound:
            outcome = outcome._replace(bound=proof.bound, bound_by=NAME)
        if proof.peak < best.peak:
            better = _packed(program, proof.best, packed, ordering.storages, residency)
            if better.peak < best.peak:
                best = better
                outcome = outcome._replace(order=proof.best.order, found_by=NAME)
        report(best.peak, outcome.bound, NAME)

    try:
        prove_peak(
            joint_sharing_model(ordering, packed.problem.alignment[rows], meetings),
            start,
            budget,
            bound=outcome.bound,
            report=keep,
        )
    except KeyboardInterrupt:
        budget.deadline.cancel()
    return best, outcome


def _packed(
    program: Program,
    layout: SharedLayout,
    packed: Packed,
    storages: tuple[str, ...],
    residency: Residency,
) -> Packed:
    """The layout as a packing of the program in its order."""
    before = packed.sharing
    assert before is not None
    ordered = Program(program.graph, tuple(int(op) for op in layout.order))
    problem = as_problem(ordered, residency)
    search = SharingSearch(
        ordered,
        problem,
        residency,
        kinds=before.kinds,
        goal=before.goal,
        ceiling=before.ceiling,
    )
    offset_of = dict(zip(storages, layout.offset.tolist(), strict=True))
    offsets = np.array([offset_of.get(name, 0) for name in problem.names], np.int64)
    from cpplan.aliasing.cp_sat_joint_sharing import NAME

    search.adopt(offsets, NAME)
    return Packed(ordered, problem, sharing=search)
