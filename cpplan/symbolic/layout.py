"""Symbolic layout: buffer, offset and size of every tensor of a plan, as expressions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from cpplan.model.graph import Graph
from cpplan.model.shapes import Dim, Range, ShapeTable
from cpplan.model.symbols import Symbols
from cpplan.model.tensor import Tensor
from cpplan.program.anf import Program, to_anf
from cpplan.program.copy_names import tensor_copies
from cpplan.program.graph_runs import instances
from cpplan.program.liveness import to_problem
from cpplan.symbolic.substitution import at_most

if TYPE_CHECKING:
    import numpy as np

    from cpplan.model.plan import Plan


class SymbolicTensor(NamedTuple):
    """The symbolic size and place of a tensor of a plan.

    Attributes
    ----------
    buffer
        The buffer that the tensor lies in.
    within
        Byte offset of the tensor in the buffer.
    nbytes
        Bytes of the tensor.
    shape, dtype
        Its extents and element type; ``None`` if not known.
    """

    buffer: str
    within: int | Dim
    nbytes: int | Dim
    shape: tuple[int | Dim, ...] | None
    dtype: str | None


class Unbounded(NamedTuple):
    """A tensor that may have any number of bytes, and that no arena holds.

    Attributes
    ----------
    nbytes
        Bytes of the tensor.
    storage
        Number of its storage. Tensors of one storage have the same bytes with all bounded variables
        at their bounds, and are never live at one step.
    """

    nbytes: int | Dim
    storage: int


@dataclass(frozen=True)
class SymbolicLayout:
    """The parts of a plan that depend on the variables.

    Attributes
    ----------
    dims
        The variables and their ranges.
    tensors
        Every tensor that lies in a buffer of the plan, and every buffer.
    unbounded
        Tensors that no arena holds: the plan gives them no bytes.
    alignment
        Alignment of buffers, unless it is 1.
    lost
        Tensors whose bytes are known at the bounds only -> the reason.
    moving
        Buffers that lie within others, at an offset that may depend on the variables.
    sizes
        Sizes that the plan was made for, if any: it holds at these values, and at all values at
        which no buffer is larger than at one of them. Without sizes, it holds at all values within
        the ranges.
    """

    dims: Mapping[str, Range]
    tensors: Mapping[str, SymbolicTensor]
    unbounded: Mapping[str, Unbounded] = field(default_factory=dict)
    alignment: Mapping[str, int] = field(default_factory=dict)
    lost: Mapping[str, str] = field(default_factory=dict)
    moving: frozenset[str] = frozenset()
    sizes: tuple[Mapping[str, int], ...] = ()

    @cached_property
    def storages(self) -> dict[int, int | Dim]:
        """Storage of unbounded tensors -> its bytes, with bounded variables at their bounds."""
        found = {u.storage: at_most(u.nbytes, self.dims) for u in self.unbounded.values()}
        return dict(sorted(found.items()))

    def sizes_of(self, buffers: Iterable[str]) -> list[int | Dim]:
        """Bytes of some buffers of the plan, in the order given."""
        of: dict[str, SymbolicTensor | Unbounded] = {**self.tensors, **self.unbounded}
        return [of[name].nbytes for name in buffers]

    @cached_property
    def rows(self) -> dict[str, int]:
        """Tensor -> its position in :attr:`tensors`."""
        return {name: k for k, name in enumerate(self.tensors)}

    @cached_property
    def holders(self) -> np.ndarray:
        """The row of every tensor's buffer, shape ``(tensors,)``."""
        import numpy as np

        return np.array([self.rows[t.buffer] for t in self.tensors.values()], np.int64)

    @cached_property
    def room(self) -> np.ndarray:
        """Bytes of all tensors at every one of :attr:`sizes`, shape ``(sizes, tensors)``."""
        import numpy as np

        count = len(self.tensors)
        rows = [self.table.evaluate(values)[:count] for values in self.sizes]
        return np.array(rows, np.int64).reshape(len(rows), count)

    @cached_property
    def extents(self) -> np.ndarray:
        """Row of :attr:`table` at which every tensor's extents begin, shape ``(tensors + 1,)``."""
        import numpy as np

        count = [len(t.shape or ()) for t in self.tensors.values()]
        return 2 * len(count) + np.concatenate([[0], np.cumsum(count, dtype=np.int64)])

    @cached_property
    def table(self) -> ShapeTable:
        """Table of all tensors' bytes, then their offsets within buffers, then their extents."""
        tensors = self.tensors.values()
        return ShapeTable(
            [t.nbytes for t in tensors]
            + [t.within for t in tensors]
            + [extent for t in tensors for extent in t.shape or ()]
        )


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

    Examples
    --------
    >>> from cpplan.model.shapes import parse_dim
    >>> n = parse_dim("n")
    >>> lives = {"a": (0, 2), "b": (1, 3), "c": (2, 4)}
    >>> sizes = {"a": 4 * n, "b": 4 * n, "c": 2 * n * 2}
    >>> [u.storage for u in share_equal(sizes, lives, {"n": Range(0, None)}).values()]
    [0, 1, 0]
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
