"""Planning at the bounds, so that the plan holds at every size below them.

A tensor that is smaller than at its bound lies within the bytes it has there, so a plan at the
bounds overlaps nothing at any size. What a tensor is copied to at an offset that depends on the
variables is different: it must move with the size. It may do so within storage that is held whole
from its first byte written to its last one read, as views are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from cpplan.anf import Program, to_anf
from cpplan.graph import Graph, Op
from cpplan.liveness import outside_storages, to_problem
from cpplan.plan import Plan, Relation
from cpplan.residency import Residency
from cpplan.shapes import Dim
from cpplan.symbolic.layout import SymbolicLayout, symbolic_layout
from cpplan.symbols import Symbols
from cpplan.tensor import Tensor

# Of the time: for every placement at its offset at the bounds, for those that never move.
FIRST_SHARE, SECOND_SHARE = 0.4, 0.3


def plan_at_bounds(
    program: Program, solve_part: Callable[[Program, float], Plan], *, moves: bool
) -> Plan:
    """The plan of a program of symbolic sizes.

    Parameters
    ----------
    program
        Of a graph with symbols.
    solve_part
        Plans a program without any, in a share of the time.
    moves
        Whether placements may be chosen.
    """
    graph = program.graph
    symbols = graph.symbols
    assert symbols is not None
    fixed = _at_bounds(graph)
    moving = {(part, whole) for _, part, whole in symbols.placements}
    if not moves or not moving:
        plan = solve_part(_still(program, fixed, moving), 1.0)
        if moving and "placement" in plan.sharing:
            plan = _unproved(plan)
        return replace(plan, symbols=_layout(graph, plan, frozenset()))
    best = solve_part(Program(fixed, program.order), FIRST_SHARE)
    if best.offset is None or not any((r.tensor, r.other) in moving for r in best.relations):
        return replace(best, symbols=_layout(graph, best, frozenset()))
    bound = best.lower_bound
    still = solve_part(_still(program, fixed, moving), SECOND_SHARE)
    merged, parts = place_as_views(fixed, best.residency)
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
            status="optimal" if met else "feasible",
        )  # fmt: skip
    return replace(plan, symbols=_layout(graph, plan, names, parts))


def _at_bounds(graph: Graph) -> Graph:
    """The graph and its bodies without symbols."""
    ops = tuple(
        replace(op, bodies=tuple(map(_at_bounds, op.bodies))) if op.bodies else op
        for op in graph.ops
    )
    return replace(graph, ops=ops, symbols=None)


def place_as_views(graph: Graph, residency: Residency) -> tuple[Graph, dict[str, Relation]]:
    """The graph in which what is copied lies where it is copied to, as a view of that.

    Each tensor within one other: the first that an op names. Left out are constants, views, what
    is outside the arena, and what would lie within itself. Returned with the graph: part -> how it
    lies.

    Examples
    --------
    >>> from cpplan.graph import Tensor
    >>> tensors = Tensor("a", 4, kind="input"), Tensor("b", 8, kind="input")
    >>> tensors += (Tensor("y", 12, kind="output"),)
    >>> places = ("a", "y", 0), ("b", "y", 4)
    >>> join = Op("join", inputs=("a", "b"), outputs=("y",), placements=places)
    >>> merged, parts = place_as_views(Graph("g", tensors, (join,)), Residency())
    >>> merged.tensor["b"].view_of, list(parts)
    (('y with its parts', 4), ['a', 'b'])
    """
    outside = outside_storages(graph, residency)
    parts: dict[str, Relation] = {}
    for op in graph.ops:
        for part, whole, offset in op.placements:
            assert isinstance(offset, int)
            tensor = graph.tensor[part]
            barred = tensor.kind in ("constant", "workspace") or tensor.view_of is not None
            roots = {graph.root[part][0], graph.root[whole][0]}
            constant = graph.tensor[graph.root[whole][0]].kind == "constant"
            if barred or constant or roots & outside or part in parts:
                continue
            if part in _chain(graph, whole, parts):
                continue
            parts[part] = Relation("placement", part, whole, offset)
    tensors = [
        replace(t, view_of=(parts[t.name].other, parts[t.name].offset)) if t.name in parts else t
        for t in graph.tensors
    ]
    _bring_into_blocks(graph, tensors, parts)
    ops = tuple(_without(op, lambda part, whole: False) for op in graph.ops)
    return Graph(graph.name, tuple(tensors), ops), parts


def _bring_into_blocks(graph: Graph, tensors: list[Tensor], parts: Mapping[str, Relation]) -> None:
    """What the caller brings cannot lie in what an op makes: both lie in a block of the caller."""
    row = {t.name: k for k, t in enumerate(tensors)}
    blocks: dict[str, str] = {}
    for name in [part for part in parts if graph.tensor[part].kind == "input"]:
        chain = _chain(graph, name, parts)
        views = [tensors[row[part]].view_of or ("", 0) for part in chain[:-1]]
        whole = tensors[row[chain[-1]]]
        if whole.kind != "input" and whole.name not in blocks:
            block = _unused(f"{whole.name} with its parts", row)
            row[block] = len(tensors)
            blocks[whole.name] = block
            tensors.append(replace(whole, name=block, kind="input", shape=None))
            tensors[row[whole.name]] = replace(whole, view_of=(block, 0))
        within = blocks.get(whole.name, whole.name), sum(offset for _, offset in views)
        tensors[row[name]] = replace(tensors[row[name]], view_of=within)


def _unused(name: str, taken: Mapping[str, int]) -> str:
    while name in taken:
        name += "'"
    return name


def _chain(graph: Graph, name: str, parts: Mapping[str, Relation]) -> list[str]:
    """A tensor and all that it lies within."""
    found = [name]
    while True:
        view_of = graph.tensor[name].view_of
        if view_of is not None:
            name = view_of[0]
        elif name in parts:
            name = parts[name].other
        else:
            return found
        found.append(name)


def _still(program: Program, graph: Graph, moving: set[tuple[str, str]]) -> Program:
    """The program without placements whose offset depends on the variables."""
    if not moving:
        return Program(graph, program.order)
    ops = tuple(_without(op, lambda part, whole: (part, whole) not in moving) for op in graph.ops)
    return Program(replace(graph, ops=ops), program.order)


def _unproved(plan: Plan) -> Plan:
    """What was proved holds where nothing is placed at an offset that moves, and no further."""
    status = {"optimal": "feasible", "infeasible": "unknown"}.get(plan.status, plan.status)
    return replace(
        plan,
        status=status,  # type: ignore[arg-type]
        lower_bound=None,
        bound_by=None,
        objective_bound=(),
        cost_bound=None,
        cost_bound_by=None,
    )


def _without(op: Op, stays: Callable[[str, str], bool]) -> Op:
    kept = tuple(p for p in op.placements if stays(p.part, p.whole))
    return op if kept == op.placements else replace(op, placements=kept)


def _apart(graph: Graph, plan: Plan, parts: Mapping[str, Relation], best: Plan) -> Plan:
    """A plan of the merged graph as one of the graph itself: every part a buffer of its own."""
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
    """What depends on the variables; parts lie where what they are copied to lies."""
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
