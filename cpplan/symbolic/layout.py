"""Where every tensor of a plan lies at any values of the variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from cpplan.graph import Graph
from cpplan.shapes import Dim, Range, ShapeTable
from cpplan.symbols import Symbols

if TYPE_CHECKING:
    import numpy as np

    from cpplan.symbolic.sized import SizedPlan


class SymbolicTensor(NamedTuple):
    """A tensor of a plan.

    Attributes
    ----------
    buffer
        What it lies in.
    within
        Its byte offset there.
    nbytes
        What it occupies.
    shape, dtype
        ``None`` where not known.
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
    storage
        Tensors of the same storage are of equal size, and not live at the same time.
    """

    nbytes: int | Dim
    storage: int


@dataclass(frozen=True)
class SymbolicLayout:
    """What depends on the variables in a plan.

    Attributes
    ----------
    dims
        The variables and their ranges.
    tensors
        Everything that lies in a buffer of the plan.
    unbounded
        What no arena holds: the plan gives it no bytes.
    alignment
        Of buffers, where it is not 1.
    lost
        Tensors whose bytes are known at the bounds only -> why.
    moving
        Buffers that lie within others, at an offset that may depend on the variables.
    """

    dims: Mapping[str, Range]
    tensors: Mapping[str, SymbolicTensor]
    unbounded: Mapping[str, Unbounded] = field(default_factory=dict)
    alignment: Mapping[str, int] = field(default_factory=dict)
    lost: Mapping[str, str] = field(default_factory=dict)
    moving: frozenset[str] = frozenset()

    @cached_property
    def cache(self) -> dict[tuple[object, ...], SizedPlan]:
        """What was asked for before."""
        return {}

    @cached_property
    def rows(self) -> dict[str, int]:
        """Tensor -> its position."""
        return {name: k for k, name in enumerate(self.tensors)}

    @cached_property
    def extents(self) -> np.ndarray:
        """Where every tensor's extents begin in :attr:`table`, shape ``(tensors + 1,)``."""
        import numpy as np

        count = [len(t.shape or ()) for t in self.tensors.values()]
        return 2 * len(count) + np.concatenate([[0], np.cumsum(count, dtype=np.int64)])

    @cached_property
    def table(self) -> ShapeTable:
        """Of all tensors the bytes, then the offsets within their buffers, then all extents."""
        tensors = self.tensors.values()
        return ShapeTable(
            [t.nbytes for t in tensors]
            + [t.within for t in tensors]
            + [extent for t in tensors for extent in t.shape or ()]
        )


def symbolic_layout(
    graph: Graph, buffers: Mapping[str, int], lower: np.ndarray, upper: np.ndarray
) -> SymbolicLayout:
    """What depends on the variables of a graph, for a plan with these buffers.

    Parameters
    ----------
    graph
        With symbols.
    buffers
        Name -> row.
    lower, upper
        When each is live.
    """
    symbols = graph.symbols
    assert symbols is not None
    tensors: dict[str, SymbolicTensor] = {}
    alignment: dict[str, int] = {}
    free: dict[str, int | Dim] = {}
    for tensor in graph.tensors:
        root = graph.root[tensor.name][0]
        if root not in buffers:
            continue
        size = symbols.size(tensor)
        if symbols.unbounded(graph.tensor[root]):
            if tensor.name == root:
                free[root] = size
            continue
        shape = symbols.shapes.get(tensor.name, tensor.shape)
        within = _within(graph, symbols, tensor.name)
        tensors[tensor.name] = SymbolicTensor(root, within, size, shape, tensor.dtype)
        if tensor.alignment != 1:
            alignment[root] = max(alignment.get(root, 1), tensor.alignment)
    lives = {name: (int(lower[buffers[name]]), int(upper[buffers[name]])) for name in free}
    return SymbolicLayout(
        symbols.dims, tensors, share_equal(free, lives), alignment, dict(symbols.lost)
    )


def share_equal(
    sizes: Mapping[str, int | Dim], lives: Mapping[str, tuple[int, int]]
) -> dict[str, Unbounded]:
    """Storages for tensors of unbounded size: as few as can be, each for provably equal ones.

    Lifespans of one size form an interval graph: taking them by their beginnings, and any storage
    that is free, needs no more than are live at once. O(n log n + n × storages).

    Examples
    --------
    >>> from cpplan.shapes import parse_dim
    >>> n = parse_dim("n")
    >>> lives = {"a": (0, 2), "b": (1, 3), "c": (2, 4)}
    >>> [u.storage for u in share_equal({"a": 4 * n, "b": 4 * n, "c": 2 * n * 2}, lives).values()]
    [0, 1, 0]
    """
    free_from: dict[int | Dim, list[tuple[int, int]]] = {}
    found: dict[str, Unbounded] = {}
    count = 0
    for name in sorted(sizes, key=lambda name: lives[name][0]):
        begin, end = lives[name]
        held = free_from.setdefault(sizes[name], [])
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
    while tensor.view_of is not None:
        base, within = tensor.view_of
        offset = offset + symbols.offsets.get(tensor.name, within)
        tensor = graph.tensor[base]
    return offset
