"""A graph of symbolic sizes at some values of its variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from cpplan.anf import Program
from cpplan.errors import InputError
from cpplan.graph import Graph, Op, Placement
from cpplan.symbols import check_values
from cpplan.tensor import Tensor

if TYPE_CHECKING:
    from cpplan.plan import Plan
    from cpplan.problem import Problem
    from cpplan.shapes import Dim
    from cpplan.symbols import Symbols


def bind(graph: Graph, values: Mapping[str, int]) -> Graph:
    """The graph at some values; as it is, if nothing in it depends on a variable. O(tensors).

    Tensors whose shape at other values is not known keep the bytes that they have at the bounds.

    Raises
    ------
    InputError
        If a variable has no value, or one out of its bounds.

    Examples
    --------
    >>> from cpplan.symbols import Symbols
    >>> x = Tensor("x", shape=("n", "n + 1"), dtype="int8", kind="input")
    >>> graph = Graph("g", (x,), (), Symbols({"n": (1, 8)}))
    >>> bind(graph, {"n": 3}).tensor["x"].shape
    (3, 4)
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
    return Graph(graph.name, tensors, ops)


def bind_both(
    source: Graph | Program | Problem, plan: Plan, dims: Mapping[str, int]
) -> tuple[Graph | Program | Problem, Plan]:
    """What was planned and its plan, at some values.

    Raises
    ------
    InputError
        As :func:`bind`, or if the plan does not depend on variables.
    """
    graph = source.graph if isinstance(source, Program) else source
    if isinstance(graph, Graph) and graph.symbols is not None:
        graph = bind(graph, dims)
    return graph, plan.at(dims).plan_at


def _tensor(tensor: Tensor, symbols: Symbols, values: Mapping[str, int]) -> Tensor:
    shape = symbols.shapes.get(tensor.name)
    if shape is not None:
        extents = tuple(_value(extent, values) for extent in shape)
        tensor = replace(tensor, shape=extents, size=None)
    if tensor.name in symbols.offsets:
        assert tensor.view_of is not None
        offset = symbols.offsets[tensor.name].evaluate(values)
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
