"""Symbolic layout: buffer, offset and size of every tensor of a plan, as expressions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from cpplan.model.graph import Graph
from cpplan.model.shapes import Dim, Range
from cpplan.model.shapes.substitution import at_most
from cpplan.model.symbolic_layout import SymbolicLayout, SymbolicTensor, Unbounded
from cpplan.model.symbols import Symbols
from cpplan.model.tensor import Tensor
from cpplan.program.anf import Program, to_anf
from cpplan.program.copy_names import instances, tensor_copies
from cpplan.program.liveness import to_problem

if TYPE_CHECKING:
    from cpplan.model.plan import Plan


def symbolic_layout(graph: Graph, plan: Plan) -> SymbolicLayout:
    """The symbolic layout of a plan for a graph with symbols."""
    symbols = graph.symbols
    assert symbols is not None
    program = to_anf(graph, plan.order)
    problem = to_problem(program, plan.residency)
    tensors: dict[str, SymbolicTensor] = {}
    free: dict[str, int | Dim] = {}
    for name, (tensor, inner) in buffer_tensors(program, plan.buffers).items():
        if inner.unbounded(tensor):
            free[name] = inner.size(tensor)
        else:
            shape = inner.shapes.get(tensor.name, tensor.shape)
            tensors[name] = SymbolicTensor(name, 0, inner.size(tensor), shape, tensor.dtype)
    for tensor in graph.tensors:
        buffer = plan.views.get(tensor.name, (tensor.name, 0))[0]
        if buffer in tensors:
            shape = symbols.shapes.get(tensor.name, tensor.shape)
            tensors[tensor.name] = SymbolicTensor(
                buffer,
                _within(graph, symbols, tensor.name),
                symbols.size(tensor),
                shape,
                tensor.dtype,
            )
    lives = {
        name: (int(plan.lower[plan.row[name]]), int(plan.upper[plan.row[name]])) for name in free
    }
    return SymbolicLayout(
        dims=symbols.dims,
        tensors=tensors,
        unbounded=share_equal(free, lives, symbols.dims),
        alignment={
            name: int(k)
            for name, k in zip(problem.names, problem.alignment, strict=True)
            if k != 1 and name in plan.row
        },
        lost=dict(symbols.lost),
    )


def buffer_tensors(program: Program, buffers: Iterable[str]) -> dict[str, tuple[Tensor, Symbols]]:
    """For every buffer of a program, the tensor that it stores and the symbols of its graph.

    A copy has the tensor of its original; a buffer in a body depends on the body's variables.
    """
    found: dict[str, tuple[Tensor, Symbols]] = {}
    for prefix, inner in instances(program):
        symbols = inner.graph.symbols or Symbols({})
        found.update((prefix + t.name, (t, symbols)) for t in inner.graph.tensors)
    copies = tensor_copies(program.graph)
    return {name: found[name if name in found else copies.split(name)[0]] for name in buffers}


def share_equal(
    sizes: Mapping[str, int | Dim],
    lives: Mapping[str, tuple[int, int]],
    dims: Mapping[str, Range],
    groups: Mapping[str, str] | None = None,
) -> dict[str, Unbounded]:
    """Storages for tensors of unbounded size, the fewest in which all tensors have equal bytes.

    A storage has the bytes of its tensors with every bounded variable at its bound; these
    expressions must be provably equal. Tensors of different ``groups`` do not share. The lifespans
    of tensors of one size form an interval graph: if each tensor, in the order of first steps,
    takes any free storage, there are no more storages than tensors live at once. O(n log n + n ×
    storages).
    """
    free_from: dict[tuple[int | Dim, str], list[tuple[int, int]]] = {}
    found: dict[str, Unbounded] = {}
    count = 0
    for name in sorted(sizes, key=lambda name: lives[name][0]):
        begin, end = lives[name]
        group = "" if groups is None else groups[name]
        held = free_from.setdefault((at_most(sizes[name], dims), group), [])
        storage = next((k for k, until in held if until <= begin), None)
        if storage is None:
            storage, count = count, count + 1
        held[:] = [(k, until) for k, until in held if k != storage] + [(storage, end)]
        found[name] = Unbounded(sizes[name], storage)
    return {name: found[name] for name in sizes}


def _within(graph: Graph, symbols: Symbols, name: str) -> int | Dim:
    """Byte offset of a tensor within its storage."""
    offset: int | Dim = 0
    tensor = graph.tensor[name]
    while tensor.view_of is not None and not graph.is_storage(tensor.name):
        base, within = tensor.view_of
        offset = offset + symbols.offsets.get(tensor.name, within)
        tensor = graph.tensor[base]
    return offset
