"""Search for order and offsets together, if the best order does not pack into its live bytes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cpplan.aliasing.packed import Packed
from cpplan.model.residency import Residency
from cpplan.ordering.problem import OrderProblem, order_problem
from cpplan.packing.incumbent import Incumbent
from cpplan.packing.problem import as_problem
from cpplan.packing.search.outcome import OrderOutcome
from cpplan.program.anf import Program
from cpplan.runtime.budget import Budget


def joint_problem(program: Program, residency: Residency, most_ops: int) -> OrderProblem | None:
    """The ordering problem with a storage for every buffer, or ``None`` if models do not apply.

    The models apply to small graphs without bodies, for which their proofs hold.
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
    """Packing and outcome improved by order and offsets together, or unchanged."""
    program = packed.source
    assert isinstance(program, Program)
    gap = packed.peak > outcome.bound
    if packed.incumbent is None or not gap or budget.deadline.expired():
        return packed, outcome
    ordering = joint_problem(program, residency, most_ops)
    if ordering is None:
        return packed, outcome
    from cpplan.ordering.search.cp_sat_joint import NAME, joint_model
    from cpplan.runtime.cp_sat_proof import Proof, prove_peak
    from formulations.joint import Layout

    problem = packed.problem
    row = {name: k for k, name in enumerate(problem.names)}
    rows = np.array([row[name] for name in ordering.storages], np.int64)
    offsets = packed.incumbent.reduction.restore(packed.incumbent.offsets, problem)
    none = np.zeros(len(ordering), np.int64)
    start = Layout(np.array(program.order, np.int64), offsets[rows], none)
    proof = Proof(start, packed.incumbent.peak, outcome.bound)

    def keep(better: Proof[Layout]) -> None:
        nonlocal proof
        proof = better
        report(better.peak, better.bound, NAME)

    try:
        proof = prove_peak(
            joint_model(ordering, problem.alignment[rows], none + 1),
            start,
            budget,
            bound=outcome.bound,
            report=keep,
        )
    except KeyboardInterrupt:
        budget.deadline.cancel()
    if proof.bound > outcome.bound:
        outcome = outcome._replace(bound=proof.bound, bound_by=NAME)
    if proof.peak < packed.incumbent.peak:
        order = tuple(int(op) for op in proof.best.order)
        better = Program(program.graph, order)
        placed = as_problem(better, residency)
        offset_of = dict(zip(ordering.storages, proof.best.offset.tolist(), strict=True))
        incumbent = Incumbent(placed, goal=packed.incumbent.goal, ceiling=packed.incumbent.ceiling)
        found = np.array([offset_of.get(name, 0) for name in placed.names], np.int64)
        incumbent.offer(found[incumbent.reduction.rows], NAME)
        packed = Packed(better, placed, incumbent)
        outcome = outcome._replace(order=proof.best.order, found_by=NAME)
    return packed, outcome
