"""Plans in which tensors move between two pools: checks of their moves and bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from cpplan.model.certificates import ForcedAt, RoomPrices
from cpplan.model.costs import sum_costs
from cpplan.model.errors import VerificationError
from cpplan.model.graph import Graph
from cpplan.model.plan import Plan
from cpplan.model.problem import Problem
from cpplan.program.anf import Program
from cpplan.program.moved import MovedProgram
from cpplan.program.timeline import least_time
from cpplan.verification.access_trace import Access, trace
from cpplan.verification.bound_table import EVERY_OP_ONCE
from cpplan.verification.claims import Proofs
from cpplan.verification.moved_bound import forced_moves_floor, moved_bytes_floor
from cpplan.verification.moved_claims import check_moved_claims, check_time
from cpplan.verification.moves import (
    Still,
    check_moves,
    moved_program,
    moving_graph,
    without_moves,
)
from cpplan.verification.needed_buffers import (
    check_costs,
    planned_offsets,
)
from cpplan.verification.piece_copies import copied_bytes
from cpplan.verification.pieces import Described, describe_pieces
from cpplan.verification.relations import pairs_in_place


class Moved(NamedTuple):
    """A plan whose moves are ops of the graph.

    Attributes
    ----------
    graph
        The graph whose tensors move: the model, its pieces, or an op for every run.
    moving
        The plan for that graph.
    bare
        The ops in the plan's order, without moves.
    there
        The program with its moves as ops, and the copies that it accesses.
    still
        The plan for that program's graph, in which nothing moves.
    described
        The graph of pieces and its parts, if ops run in pieces.
    again
        True if ops run again.
    """

    graph: Graph
    moving: Plan
    bare: Still
    there: MovedProgram
    still: Plan
    described: Described | None
    again: bool


def read_moves(
    source: Graph | Program | Problem, plan: Plan, dims: Mapping[str, int] | None
) -> Moved:
    """The plan with its moves as ops, after a check that each access finds its bytes in place.

    Raises
    ------
    VerificationError
        Names the op or move and the tensor, or the value that was expected.
    """
    if isinstance(source, Problem) or dims or plan.symbols is not None:
        raise VerificationError("only plans for a graph of fixed sizes have moves")
    graph = source.graph if isinstance(source, Program) else source
    planned_offsets(plan)
    base = sum_costs(op.cost for op in graph.ops)
    if plan.base_cost is None or not math.isclose(plan.base_cost, base, rel_tol=1e-9):
        raise VerificationError(
            f"the plan claims a base_cost of {plan.base_cost!r}, but it is {base}"
        )
    described = describe_pieces(graph, plan.pieces) if plan.pieces else None
    graph, moving, runs = moving_graph(graph, plan, described)
    bare = check_moves(graph, moving)
    check_costs(bare.program, replace(moving, base_cost=moving.cost))
    there = moved_program(graph, moving)
    _, still = without_moves(graph, replace(moving, base_cost=moving.cost), there)
    return Moved(graph, moving, bare, there, still, described, len(runs) > 0)


def check_moved_bounds(source: Graph | Program, plan: Plan, moved: Moved) -> Proofs:
    """Check the time and the bound on the moves of a plan, and say how.

    Raises
    ------
    VerificationError
        Names the claim and what can be proved.
    """
    graph, moving, bare = moved.graph, moved.moving, moved.bare
    check_time(bare.program, moving)
    model = source.graph if isinstance(source, Program) else source

    def floor(name: str) -> int | float:
        """Bytes moved, or cycles, that a bound of this name proves."""
        least, proof = 0, plan.moved_certificate
        if isinstance(proof, RoomPrices):
            least = moved_bytes_floor(graph, bare, moving, proof)
        elif isinstance(proof, ForcedAt):
            least = forced_moves_floor(graph, bare, moving, proof)
        if plan.time_bound is None:
            return least
        once = sum_costs(op.cost for op in model.ops)
        return least_time(
            once if name == EVERY_OP_ONCE else bare.program.cost, least, plan.pools[1]
        )

    return check_moved_claims(moving, floor, again=moved.again)


def copied_with_moves(moved: Moved, accesses: Sequence[Access]) -> int | None:
    """Bytes that a plan in pieces with moves copies to gather and to paste bands.

    ``None`` without pieces. The accesses are those of the program with its moves as ops, if they
    are known.
    """
    there, described, still = moved.there, moved.described, moved.still
    if described is None:
        return None
    program = there.program
    accesses = accesses or trace(program, still.residency, pairs_in_place(program.graph, still))
    parts = {
        copy: described.parts[band]
        for copy, band in there.origin.items()
        if band in described.parts
    }
    described = replace(described, graph=program.graph, parts=parts)
    return copied_bytes(described, program, still, accesses)
