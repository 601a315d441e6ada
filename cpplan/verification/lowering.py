"""A plan lowered: one program on tensors that stay where they are, and its accesses in order.

Whatever a plan decides, its ops run in one order and read and write bytes at fixed places. Pieces
and moves, and the runs of an op beside moves, become ops of a graph; an op that runs again without
moves is repeated in the program. Checks, simulation, execution, explanation, reports and exports
read this form, and a new decision is lowered here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from cpplan.model.errors import InputError, VerificationError
from cpplan.model.graph import Graph
from cpplan.model.plan import Plan
from cpplan.model.problem import Problem
from cpplan.program.anf import Program, to_anf
from cpplan.program.moved import MovedProgram, program_with_moves
from cpplan.program.runs_graph import graph_of_runs
from cpplan.verification.access_trace import Access, replay
from cpplan.verification.pieces import Described, describe_pieces
from cpplan.verification.relations import pairs_in_place
from cpplan.verification.runs import Run


class Moving(NamedTuple):
    """A graph whose tensors move.

    Attributes
    ----------
    graph
        The model itself, its graph of pieces or, if ops run again, an op for every run.
    plan
        The plan for that graph: its order names these ops and the moves.
    origin
        Copies and runs -> names in the model; empty unless ops run again.
    """

    graph: Graph
    plan: Plan
    origin: Mapping[str, str]


class Lowered:
    """A plan of fixed sizes as one program; each part is derived when it is first asked for.

    Parameters
    ----------
    model
        The graph that was planned.
    planned
        The plan.

    Raises
    ------
    VerificationError
        From the first use of a part, if the plan cannot be lowered: names the op, the move or the
        tensor.
    """

    def __init__(self, model: Graph, planned: Plan):
        self.model, self.planned = model, planned

    @cached_property
    def described(self) -> Described | None:
        """The graph of pieces and its parts, if ops run in pieces."""
        pieces = self.planned.pieces
        return describe_pieces(self.model, pieces) if pieces else None

    @cached_property
    def moving(self) -> Moving:
        """The graph whose tensors move, before moves are ops; only of plans with moves."""
        plan, described = self.planned, self.described
        if described is not None:
            bands = replace(plan, pieces=(), copied_bytes=None)
            return Moving(described.graph, bands, {})
        steps = {move.name for move in plan.moves if move.is_step}
        ops = [name for name in plan.order if name not in steps]
        if len(set(ops)) == len(ops):
            return Moving(self.model, plan, {})
        try:
            runs = graph_of_runs(self.model, ops)
        except InputError as error:
            raise VerificationError(str(error)) from error
        names = iter(op.name for op in runs.graph.ops)
        order = tuple(name if name in steps else next(names) for name in plan.order)
        return Moving(runs.graph, replace(plan, order=order), runs.origin)

    @cached_property
    def moved(self) -> MovedProgram:
        """The program with its moves as ops, and the copies that it accesses."""
        graph, plan, _ = self.moving
        names = plan.pools[0].name, plan.pools[1].name
        try:
            return program_with_moves(graph, plan.residency, plan.order, plan.moves, names)
        except InputError as error:
            raise VerificationError(str(error)) from error

    @property
    def graph(self) -> Graph:
        """The graph whose ops the program runs."""
        if self.planned.spills:
            return self.moved.program.graph
        return self.model if self.described is None else self.described.graph

    @cached_property
    def plan(self) -> Plan:
        """The plan for that graph, in which nothing moves."""
        if not self.planned.spills:
            return self.planned
        return _without_moves(self.moving, self.moved)

    @cached_property
    def program(self) -> Program:
        """The graph's ops in the plan's order."""
        order = self.plan.order
        if not all(issubclass(kind, str) for kind in set(map(type, order))):
            raise VerificationError("the plan's order must hold names of ops")
        try:
            return to_anf(self.graph, order)
        except InputError as error:
            raise VerificationError(str(error)) from error

    @property
    def accesses(self) -> Sequence[Access]:
        """All reads and writes of bytes in the pools, in order."""
        return self._replayed[0]

    @property
    def runs(self) -> Sequence[Run]:
        """The runs of the program's own ops."""
        return self._replayed[1]

    @cached_property
    def _replayed(self) -> tuple[list[Access], list[Run]]:
        over = pairs_in_place(self.graph, self.plan)
        return replay(self.program, self.plan.residency, over)


def lower(source: Graph | Program, plan: Plan) -> Lowered:
    """The plan of a model as one program; of a program, only its graph counts."""
    return Lowered(source.graph if isinstance(source, Program) else source, plan)


def planned_program(graph: Graph, plan: Plan) -> Program:
    """The program of a plan that somebody hands over to be written down."""
    try:
        return Lowered(graph, plan).program
    except VerificationError as error:
        raise InputError(str(error)) from error


def with_fixed_sizes(
    source: Graph | Program | Problem, plan: Plan, dims: Mapping[str, int] | None
) -> tuple[Graph | Program | Problem, Plan]:
    """A source and its plan at values of its variables, if sizes depend on some.

    Without values, a plan that was made for several sizes is taken at the one with the largest
    arena, and another at its bounds.
    """
    if plan.spills:
        return source, plan
    if dims:
        from cpplan.program.binding import bind_both

        return bind_both(source, plan, dims)
    if plan.symbols is not None and plan.symbols.sizes and plan.offset is not None:
        from cpplan.program.binding import bind_largest

        return bind_largest(source, plan)
    return source, plan


def _without_moves(moving: Moving, moved: MovedProgram) -> Plan:
    """The plan for the program with moves as ops; offsets and lifespans are the given plan's.

    The places that it states for the model's own tensors are checked, and replaced by the places
    of their copies.
    """
    graph, plan, _ = moving
    placed = set(plan.buffers)
    places = moved.places(graph)
    needed = {n: place for n, place in places.items() if place[0] in placed and place != (n, 0)}
    for name in (*needed, *plan.views):
        if tuple(plan.views.get(name, ())) != needed.get(name, ()):
            raise VerificationError(
                f"the plan's views put tensor {name!r} at {plan.views.get(name)}, but it lies at "
                f"{places.get(name)}"
            )
    made = moved.program.graph
    for kind, listed in (("input", plan.inputs), ("output", plan.outputs)):
        there = {t.name for t in graph.tensors if t.kind == kind and places[t.name][0] in placed}
        if there != set(listed):
            wrong = min(there.symmetric_difference(listed))
            raise VerificationError(
                f"the plan's {kind}s are not those of the model in its pools: {wrong!r} is "
                f"{'missing' if wrong in there else 'not expected'}"
            )
    ends = {
        kind: tuple(
            t.name for t in made.tensors if t.kind == kind and made.root[t.name][0] in placed
        )
        for kind in ("input", "output")
    }
    views = {n: p for n, p in made.root.items() if p[0] in placed and p != (n, 0)}
    return replace(
        plan,
        status="feasible",
        views=views,
        inputs=ends["input"],
        outputs=ends["output"],
        moves=(),
        moved_bytes_bound=None,
        moved_bytes_bound_by=None,
        moved_certificate=None,
        time=None,
        time_bound=None,
        time_bound_by=None,
        objective="total",
        scope="given order",
        base_cost=plan.cost,
    )
