"""Order and offsets decided together, where the best order cannot be packed into its live bytes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cpplan.anf import Program
from cpplan.deadline import Deadline
from cpplan.ordering import OrderProblem
from cpplan.residency import Residency
from cpplan.search.outcome import OrderOutcome
from cpplan.sources import as_problem
from cpplan.stages.incumbent import Incumbent
from cpplan.stages.packed import Packed

# The model has a rectangle with variable sides for every storage: beyond this it only costs time.
MOST_OPS = 40


def applies_to(ordering: OrderProblem) -> bool:
    """Whether a graph is small, without bodies, and all of its buffers are touched by ops.

    There a storage is one buffer, and what the models prove holds.
    """
    plain = not (ordering.extra.any() or ordering.base or ordering.entry)
    return plain and len(ordering) <= MOST_OPS


def improve_jointly(
    ordering: OrderProblem,
    packed: Packed,
    outcome: OrderOutcome,
    residency: Residency,
    deadline: Deadline,
    *,
    workers: int,
    seed: int,
    report: Callable[[int, int, str], None],
) -> tuple[Packed, OrderOutcome]:
    """A lower peak by another order, or a proof that there is none; else what came in."""
    program = packed.source
    assert isinstance(program, Program)
    gap = packed.peak > outcome.bound
    if packed.incumbent is None or not gap or not applies_to(ordering) or deadline.expired():
        return packed, outcome
    from cpplan.search.cp_sat_joint import NAME, search_layouts
    from cpplan.search.cp_sat_proof import Proof
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
        proof = search_layouts(
            ordering,
            problem.alignment[rows],
            none + 1,
            start,
            deadline,
            bound=outcome.bound,
            workers=workers,
            seed=seed,
            report=keep,
        )
    except KeyboardInterrupt:
        deadline.cancel()
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
