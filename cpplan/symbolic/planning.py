"""Planning at the bounds of the variables, so that the plan holds at every size below them.

A tensor that is smaller than at its bound lies within its bytes at the bound, so a plan at the
bounds has no overlap at any size. A placement at an offset that depends on the variables is
different: the part must move with the size. It may move within a storage that is live as a whole,
from the first write to the last read, as a view does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import numpy as np

from cpplan.model.graph import Graph
from cpplan.model.plan import Plan
from cpplan.model.plan_data import Relation
from cpplan.model.shapes import Dim
from cpplan.model.symbolic_layout import SymbolicLayout
from cpplan.model.symbols import Symbols
from cpplan.program.anf import Program, to_anf
from cpplan.program.liveness import to_problem
from cpplan.symbolic.layout import symbolic_layout
from cpplan.symbolic.moving import Related, moving_relations, place_as_views, without

# Share of the time for the plan with all placements at their offsets at the bounds, and share for
# the plan with only the placements that never move.
FIRST_SHARE, SECOND_SHARE = 0.4, 0.3


def plan_at_bounds(
    program: Program, solve_part: Callable[[Program, float], Plan], *, moves: bool
) -> Plan:
    """The plan of a program of symbolic sizes.

    Parameters
    ----------
    program
        Program of a graph with symbols.
    solve_part
        Function that plans a program without symbols in a share of the time.
    moves
        True if placements may be chosen.
    """
    graph = program.graph
    symbols = graph.symbols
    assert symbols is not None
    fixed = at_bounds(graph)
    moving = moving_relations(graph)
    if not moves or not moving:
        plan = solve_part(_still(program, fixed, moving), 1.0)
        if any(kind in plan.sharing for kind, _, _ in moving):
            plan = _unproved(plan)
        return replace(plan, symbols=_layout(graph, plan, frozenset()))
    best = solve_part(Program(fixed, program.order), FIRST_SHARE)
    if best.offset is None or not any(r[:3] in moving for r in best.relations):
        return replace(best, symbols=_layout(graph, best, frozenset()))
    bound = best.lower_bound
    still = solve_part(_still(program, fixed, moving), SECOND_SHARE)
    over = {related for related in moving if related[0] == "in place"}
    merged, parts = place_as_views(without(fixed, over), best.residency)
    whole = solve_part(Program(merged, program.order), 1.0)
    if still.peak is None or (whole.peak is not None and whole.peak < still.peak):
        plan = _apart(fixed, whole, parts, best)
        names = frozenset(parts)
    else:
        plan, names = still, frozenset()
    if plan.offset is not None:
        met = plan.peak == bound
        plan = replace(
            plan, lower_bound=bound, bound_by=best.bound_by, scope=best.scope,
            certificate=best.certificate,
            status="optimal" if met else "feasible",
        )  # fmt: skip
    return replace(plan, symbols=_layout(graph, plan, names, parts))


def at_bounds(graph: Graph) -> Graph:
    """The graph and its bodies without symbols."""
    ops = tuple(
        replace(op, bodies=tuple(map(at_bounds, op.bodies))) if op.bodies else op
        for op in graph.ops
    )
    sized = graph.resizable if graph.symbols is None else frozenset(graph.symbols.shapes)
    return replace(graph, ops=ops, symbols=None, resizable=sized)


def _still(program: Program, graph: Graph, moving: Collection[Related]) -> Program:
    """The program without relations at an offset that depends on the variables."""
    return Program(without(graph, moving), program.order)


def _unproved(plan: Plan) -> Plan:
    """The plan without its proofs: they exclude placements whose offset depends on variables."""
    status = {"optimal": "feasible", "infeasible": "unknown"}.get(plan.status, plan.status)
    return replace(
        plan,
        status=status,  # type: ignore[arg-type]
        lower_bound=None,
        bound_by=None,
        certificate=None,
        objective_bound=(),
        cost_bound=None,
        cost_bound_by=None,
        cost_certificate=None,
    )


def _apart(graph: Graph, plan: Plan, parts: Mapping[str, Relation], best: Plan) -> Plan:
    """A plan of the merged graph as a plan of the graph itself, in which parts are buffers."""
    problem = to_problem(to_anf(graph, plan.order), plan.residency)
    offsets = [plan.offset_of(name) for name in problem.names]
    return replace(
        best,
        buffers=tuple(problem.names),
        size=problem.size,
        lower=problem.lower,
        upper=problem.upper,
        gaps=problem.gaps,
        pool=np.zeros(len(problem), np.int64),
        offset=np.array(offsets, np.int64),
        peak=plan.peak,
        found_by=plan.found_by,
        order=plan.order,
        relations=(*parts.values(), *plan.relations),
        runtime=plan.runtime,
        history=plan.history,
    )


def _layout(
    graph: Graph,
    plan: Plan,
    names: frozenset[str],
    parts: Mapping[str, Relation] | None = None,
) -> SymbolicLayout:
    """The symbolic layout of a plan, with each part within the tensor it is placed in."""
    layout = symbolic_layout(graph, plan)
    tensors = dict(layout.tensors)
    for name in layout.tensors:
        row, part = layout.tensors[name], layout.tensors[name].buffer
        within: int | Dim = row.within
        while part in names and parts is not None:
            relation = parts[part]
            within = within + _moving_offset(graph.symbols, relation)
            other = layout.tensors[relation.other]
            within, part = within + other.within, other.buffer
        tensors[name] = row._replace(buffer=part, within=within)
    return replace(layout, tensors=tensors, moving=names)


def _moving_offset(symbols: Symbols | None, relation: Relation) -> int | Dim:
    assert symbols is not None
    for (_, part, whole), offset in symbols.placements.items():
        if (part, whole) == (relation.tensor, relation.other):
            return offset
    return relation.offset
