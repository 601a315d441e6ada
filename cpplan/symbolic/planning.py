"""Planning at the bounds of the variables, so that the plan holds at every size below them.

A tensor that is smaller than at its bound lies within its bytes at the bound, so a plan at the
bounds has no overlap at any size. A placement at an offset that depends on the variables is
different: the part must move with the size. It may move within a storage that is live as a whole,
from the first write to the last read, as a view does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import numpy as np

from cpplan.model.graph import Graph
from cpplan.model.plan import Plan
from cpplan.model.plan_data import Relation
from cpplan.model.residency import Residency
from cpplan.model.shapes import Dim
from cpplan.model.symbolic_layout import SymbolicLayout
from cpplan.model.symbols import Symbols
from cpplan.model.tensor import Tensor
from cpplan.program.anf import Program, to_anf
from cpplan.program.liveness import outside_storages, to_problem
from cpplan.symbolic.layout import symbolic_layout

# Share of the time for the plan with all placements at their offsets at the bounds, and share for
# the plan with only the placements that never move.
FIRST_SHARE, SECOND_SHARE = 0.4, 0.3
# Kind of relation, tensor, and the tensor that it shares bytes with.
Related = tuple[str, str, str]


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
    sized = graph.resizable if graph.symbols is None else graph.symbols.resizable
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


def moving_relations(graph: Graph) -> frozenset[Related]:
    """The alias candidates of a graph whose offset depends on the variables.

    These include a tensor at a fixed offset within a view that itself moves within its base, and an
    output that its op writes beside such a view in one storage: at some sizes the two overlap.
    """
    symbols = graph.symbols
    assert symbols is not None
    shifting = {
        tensor.name
        for tensor in graph.tensors
        if any(name in symbols.offsets for name in _chain(graph, tensor.name, {}))
    }
    found: set[Related] = set()
    for op in graph.ops:
        written = {graph.root[n][0] for n in op.outputs + op.workspaces if n in shifting}
        moved = shifting | {n for n in op.outputs if graph.root[n][0] in written}
        for part, whole, _ in op.placements:
            if (op.name, part, whole) in symbols.placements or moved & {part, whole}:
                found.add(("placement", part, whole))
        found.update(("in place", *pair) for pair in op.in_place if moved.intersection(pair))
    return frozenset(found)


def without(graph: Graph, relations: Collection[Related]) -> Graph:
    if not relations:
        return graph
    ops = tuple(
        replace(
            op,
            in_place=tuple(p for p in op.in_place if ("in place", *p) not in relations),
            placements=tuple(
                p for p in op.placements if ("placement", p.part, p.whole) not in relations
            ),
        )
        for op in graph.ops
    )
    return replace(graph, ops=ops)


def place_as_views(graph: Graph, residency: Residency) -> tuple[Graph, dict[str, Relation]]:
    """The graph in which a copied part is a view of the tensor that it is copied to or from.

    Each part lies within one tensor: the first that an op names. Parts that stay as they are:
    constants, workspaces, views, tensors outside the arena, parts that would lie within themselves,
    and results in a storage that the op accesses under another name too. The new views are in no
    in-place pair. The second value maps each part to its placement.
    """
    outside = outside_storages(graph, residency)
    parts: dict[str, Relation] = {}
    for op in graph.ops:
        accessed = Counter(graph.root[name][0] for name in dict.fromkeys(op.tensors))
        for part, whole, offset in op.placements:
            assert isinstance(offset, int)
            result = graph.root[whole if whole in op.outputs else part][0]
            if accessed[result] > 1:
                continue
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
    ops = tuple(
        replace(
            op, placements=(), in_place=tuple(p for p in op.in_place if not parts.keys() & {*p})
        )
        for op in graph.ops
    )
    return Graph(graph.name, tuple(tensors), ops), parts


def _bring_into_blocks(graph: Graph, tensors: list[Tensor], parts: Mapping[str, Relation]) -> None:
    """If a graph input is placed within an op's result, put both into a new input tensor.

    The caller brings an input before the op could make the storage that holds it.
    """
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
    """A tensor and all tensors that it lies within."""
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
