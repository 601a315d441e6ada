"""Binding of a symbolic graph, and of a plan, to values of its variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op, Placement
from cpplan.model.symbols import check_values
from cpplan.model.tensor import Tensor
from cpplan.program.anf import Program

if TYPE_CHECKING:
    from cpplan.model.plan import Plan
    from cpplan.model.problem import Problem
    from cpplan.model.shapes import Dim
    from cpplan.model.symbols import Symbols


def bind(graph: Graph, values: Mapping[str, int]) -> Graph:
    """The graph at some values, or the graph itself if it has no variables. O(tensors).

    A tensor whose shape is known only at the bounds keeps its bytes at the bounds.
    """
    symbols = graph.symbols
    if symbols is None:
        if values:
            raise InputError(f"graph {graph.name!r} has no symbolic dimensions")
        return graph
    values = check_values(symbols.dims, values)
    for name, within in symbols.dims.items():
        if within.upper is not None and values[name] > within.upper:
            raise InputError(
                f"dimension {name!r} is {values[name]}, above its upper bound {within.upper}"
            )
    tensors = tuple(_tensor(tensor, symbols, values) for tensor in graph.tensors)
    ops = tuple(_op(op, symbols, values) for op in graph.ops)
    return Graph(graph.name, tensors, ops, resizable=symbols.resizable)


def graph_at(graph: Graph, values: Mapping[str, int]) -> Graph:
    """The graph at some values, for good: see :meth:`cpplan.model.graph.Graph.at`."""
    return replace(bind(graph, values), resizable=frozenset())


def bind_planned(graph: Graph, values: Mapping[str, int]) -> Graph:
    """The graph at some values; unbounded tensors have no bytes, as at the bounds."""
    symbols = graph.symbols
    at = bind(graph, values)
    if symbols is None:
        return at
    free = {t.name for t in graph.tensors if symbols.unbounded(graph.tensor[graph.root[t.name][0]])}
    bodies = {op.name: op.bodies for op in graph.ops if any(b.symbols for b in op.bodies)}
    if not free and not bodies:
        return at
    tensors = tuple(_empty(tensor) if tensor.name in free else tensor for tensor in at.tensors)
    ops = []
    for op in at.ops:
        inner = tuple(
            bind_planned(body, {d: values[d] for d in body.symbols.dims}) if body.symbols else body
            for body in bodies.get(op.name, op.bodies)
        )
        kept = tuple(p for p in op.placements if p.whole not in free)
        ops.append(replace(op, placements=kept, bodies=inner))
    return replace(at, tensors=tensors, ops=tuple(ops))


def _empty(tensor: Tensor) -> Tensor:
    view_of = None if tensor.view_of is None else (tensor.view_of[0], 0)
    return replace(tensor, shape=None, size=0, view_of=view_of)


def bind_largest(
    source: Graph | Program | Problem, plan: Plan
) -> tuple[Graph | Program | Problem, Plan]:
    """The source and the plan for several sizes, at the size with the largest arena.

    The plan's own columns hold at that size, and all its claims about them are kept.
    """
    assert plan.symbols is not None
    largest = max(plan.symbols.sizes, key=lambda values: plan.at(values).peak)
    graph = source.graph if isinstance(source, Program) else source
    if isinstance(graph, Graph) and graph.symbols is not None:
        graph = bind(graph, largest)
    return graph, replace(plan, symbols=None)


def bind_both(
    source: Graph | Program | Problem, plan: Plan, dims: Mapping[str, int]
) -> tuple[Graph | Program | Problem, Plan]:
    """The source and its plan at some values of the variables."""
    graph = source.graph if isinstance(source, Program) else source
    if isinstance(graph, Graph) and graph.symbols is not None:
        listed = plan.symbols is not None and plan.symbols.sizes
        graph = bind(graph, dims) if listed else bind_planned(graph, dims)
    return graph, plan.at(dims).plan_at


def _tensor(tensor: Tensor, symbols: Symbols, values: Mapping[str, int]) -> Tensor:
    shape = symbols.shapes.get(tensor.name)
    if shape is not None:
        extents = tuple(_value(extent, values) for extent in shape)
        tensor = replace(tensor, shape=extents, size=None)
    if tensor.name in symbols.offsets:
        assert tensor.view_of is not None
        offset = _value(symbols.offsets[tensor.name], values)
        tensor = replace(tensor, view_of=(tensor.view_of[0], offset))
    return tensor


def _op(op: Op, symbols: Symbols, values: Mapping[str, int]) -> Op:
    bodies = tuple(
        body if body.symbols is None else bind(body, {d: values[d] for d in body.symbols.dims})
        for body in op.bodies
    )
    moved = tuple(
        Placement(
            part, whole, _value(symbols.placements.get((op.name, part, whole), offset), values)
        )
        for part, whole, offset in op.placements
    )
    if moved == op.placements and bodies == op.bodies:
        return op
    return replace(op, placements=moved, bodies=bodies)


def _value(expression: int | Dim, values: Mapping[str, int]) -> int:
    return expression if isinstance(expression, int) else expression.evaluate(values)
