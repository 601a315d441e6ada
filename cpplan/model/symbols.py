"""Sizes that are only known at run time: a graph is planned at the bounds of its variables.

A graph's tensors always have a number of bytes that planners can use: the bytes at the bounds.
Expressions beside them give the bytes at other values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from cpplan.model.dtypes import BITS
from cpplan.model.errors import InputError
from cpplan.model.names import not_understood
from cpplan.model.printable import quote
from cpplan.model.shapes import Dim, Range, ceildiv
from cpplan.model.tensor import Tensor

Extents = tuple[int | Dim, ...]


@dataclass(frozen=True)
class Symbols:
    """Variables of a graph, and the shapes and offsets that depend on them.

    Attributes
    ----------
    dims
        The variables and their ranges: an integer, ``(lower, upper)`` or a ``Range``; ``None`` for
        no bound.
    shapes
        Shape of every tensor whose shape depends on a variable, or that lies in an unbounded
        tensor.
    offsets
        Byte offset of every view whose offset within its base depends on a variable, or that lies
        in an unbounded tensor.
    placements
        ``(op, part, whole)`` -> byte offset, for placements whose offset depends on a variable.
    lost
        Tensor whose bytes at other values the reader could not derive -> the reason.

    Examples
    --------
    >>> from cpplan.model.graph import Graph
    >>> x = Tensor("x", shape=("n", 4), dtype="float32", kind="input")
    >>> graph = Graph("g", (x,), (), Symbols({"n": (1, 8)}))
    >>> graph.tensor["x"].nbytes, str(graph.symbols.size(graph.tensor["x"]))
    (128, '16*n')
    """

    dims: Mapping[str, Range]
    shapes: Mapping[str, Extents] = field(default_factory=dict)
    offsets: Mapping[str, int | Dim] = field(default_factory=dict)
    placements: Mapping[tuple[str, str, str], Dim] = field(default_factory=dict)
    lost: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dims", parse_ranges(self.dims))

    @property
    def resizable(self) -> frozenset[str]:
        """Names of the tensors of symbolic shape that have elements at some sizes."""
        return frozenset(name for name, shape in self.shapes.items() if 0 not in shape)

    def size(self, tensor: Tensor) -> int | Dim:
        """Bytes of a tensor of the graph, as an expression if they depend on variables."""
        if tensor.name not in self.shapes:
            return tensor.nbytes
        assert tensor.dtype is not None
        return tensor_bytes(self.shapes[tensor.name], tensor.dtype)

    def unbounded(self, tensor: Tensor) -> bool:
        """True if a tensor has no largest size; the graph gives it 0 bytes."""
        return upper_bound(self.size(tensor), self.dims) is None


def check_values(dims: Mapping[str, Range], values: Mapping[str, int]) -> dict[str, int]:
    """Values of all variables, in their order; a value may be above its upper bound.

    If a variable can have only one value, it need not be given.
    """
    for name in values:
        if name not in dims:
            raise InputError(f"there is no dimension {quote(name)}: expected {', '.join(dims)}")
    fixed = {name: low for name, (low, high) in dims.items() if low is not None and low == high}
    values = {**fixed, **values}
    for name, within in dims.items():
        if name not in values:
            raise InputError(f"dimension {name!r} has no value")
        value = values[name]
        if not isinstance(value, int) or isinstance(value, bool):
            raise InputError(f"dimension {name!r} must be an integer, not {quote(value)}")
        if within.lower is not None and value < within.lower:
            raise InputError(f"dimension {name!r} is {value}, below its lower bound {within.lower}")
    return {name: values[name] for name in dims}


def tensor_bytes(shape: Extents, dtype: str) -> int | Dim:
    """Bytes of a dense tensor of symbolic shape; elements narrower than a byte are packed."""
    if dtype not in BITS:
        raise not_understood(f"dtype {dtype!r}", dtype, BITS)
    elements = math.prod(shape)
    return elements * (BITS[dtype] // 8) if BITS[dtype] >= 8 else ceildiv(elements * BITS[dtype], 8)


def upper_bound(size: int | Dim, dims: Mapping[str, Range]) -> int | None:
    """Upper bound on an expression, or ``None`` if there is none."""
    return size if isinstance(size, int) else size.bounds(dims).upper


def parse_ranges(dims: Mapping[str, object]) -> dict[str, Range]:
    """Ranges from integers, pairs ``(lower, upper)`` (``None``: unbounded) or ranges."""
    if not isinstance(dims, Mapping):
        raise InputError(f"dims must map names to integers or bounds, not {quote(dims)}")
    return {name: _range(name, given) for name, given in dims.items()}


def _range(name: str, given: object) -> Range:
    if isinstance(given, int) and not isinstance(given, bool):
        return Range(given, given)
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise InputError(
            f"dimension {name!r} must be an integer or (lower, upper), not {quote(given)}"
        )
    lower, upper = given
    for end in (lower, upper):
        if end is not None and (not isinstance(end, int) or isinstance(end, bool)):
            raise InputError(f"dimension {name!r}: a bound must be an integer, not {quote(end)}")
    if lower is not None and upper is not None and lower > upper:
        raise InputError(f"dimension {name!r}: lower bound {lower} is above upper bound {upper}")
    return Range(lower, upper)
