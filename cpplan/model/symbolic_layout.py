"""Symbolic layout of a plan as data: buffer, offset and size of every tensor, as expressions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from cpplan.model.shapes import Dim, Range, ShapeTable
from cpplan.model.shapes.substitution import at_most

if TYPE_CHECKING:
    import numpy as np


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
