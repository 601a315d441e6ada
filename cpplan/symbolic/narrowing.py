"""Narrowing of a symbolic graph to smaller ranges of its variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cpplan.model.graph import Graph
from cpplan.model.shapes import Range
from cpplan.model.symbols import Symbols
from cpplan.model.tensor import Tensor


def narrow_to(graph: Graph, sizes: Sequence[Mapping[str, int]]) -> Graph:
    """The graph with every variable's upper bound at its largest value in some sizes.

    After this no variable is unbounded. Placements are left out, since their offsets may depend on
    the size.

    Parameters
    ----------
    graph
        A graph with symbols.
    sizes
        Values of all variables, within their bounds; at least one.

    Examples
    --------
    >>> x = Tensor("x", shape=("n", 4), dtype="float32", kind="input")
    >>> graph = Graph("g", (x,), (), Symbols({"n": (1, None)}))
    >>> graph.tensor["x"].nbytes, narrow_to(graph, [{"n": 2}, {"n": 8}]).tensor["x"].nbytes
    (0, 128)
    """
    assert graph.symbols is not None
    dims = {}
    for name, within in graph.symbols.dims.items():
        given = [values[name] for values in sizes]
        lower = min(given) if within.lower is None else within.lower
        dims[name] = Range(lower, max(given))
    return _narrow(graph, dims)


def _narrow(graph: Graph, dims: Mapping[str, Range]) -> Graph:
    symbols = graph.symbols
    if symbols is None:
        return graph
    tensors = tuple(_tensor(tensor, symbols) for tensor in graph.tensors)
    ops = tuple(
        replace(op, placements=(), bodies=tuple(_narrow(body, dims) for body in op.bodies))
        for op in graph.ops
    )
    within = Symbols({name: dims[name] for name in symbols.dims}, lost=symbols.lost)
    return Graph(graph.name, tensors, ops, within)


def _tensor(tensor: Tensor, symbols: Symbols) -> Tensor:
    if tensor.name in symbols.shapes:
        shape = symbols.shapes[tensor.name]
        tensor = replace(tensor, shape=shape, size=None)  # type: ignore[arg-type]
    if tensor.view_of is not None:
        base, offset = tensor.view_of
        view_of = base, symbols.offsets.get(tensor.name, offset)
        tensor = replace(tensor, view_of=view_of)  # type: ignore[arg-type]
    return tensor
