"""Sizes that are only known at run time: a graph planned at the bounds of its variables.

A graph's tensors always have bytes that planners can count: those at the bounds. What they are at
other values is said by expressions beside them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from cpplan.model.dtypes import BITS
from cpplan.model.errors import InputError
from cpplan.model.printable import quote
from cpplan.model.shapes import Dim, Range, ceildiv
from cpplan.model.tensor import Tensor

Extents = tuple[int | Dim, ...]


@dataclass(frozen=True)
class Symbols:
    """What of a graph depends on variables, and how.

    Attributes
    ----------
    dims
        The variables and their ranges: an integer, ``(lower, upper)`` or a ``Range``; ``None`` for
        no bound.
    shapes
        Of every tensor whose shape depends on a variable, or that lies in one of any size.
    offsets
        Of every view whose byte offset within its base does, or that lies in one of any size.
    placements
        ``(op, part, whole)`` -> byte offset, of every placement whose offset does.
    lost
        Tensors whose bytes at other values the reader could not tell -> why.

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

    def size(self, tensor: Tensor) -> int | Dim:
        """What a tensor of the graph occupies, bytes."""
        if tensor.name not in self.shapes:
            return tensor.nbytes
        assert tensor.dtype is not None
        return tensor_bytes(self.shapes[tensor.name], tensor.dtype)

    def unbounded(self, tensor: Tensor) -> bool:
        """Whether a tensor may have any number of bytes; the graph gives it none."""
        return upper_bound(self.size(tensor), self.dims) is None


def check_values(dims: Mapping[str, Range], values: Mapping[str, int]) -> dict[str, int]:
    """All values, in the order of the variables; one may be above its upper bound.

    A variable that can have one value only has that one if it is not given.

    Raises
    ------
    InputError
        If a variable has none, one is not known, or a value is no integer or too small.

    Examples
    --------
    >>> check_values({"n": Range(1, 8), "m": Range(7, 7)}, {"n": 3})
    {'n': 3, 'm': 7}
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
    """Bytes of a dense tensor of symbolic shape; elements narrower than a byte are packed.

    Raises
    ------
    InputError
        If the dtype is not known.
    """
    if dtype not in BITS:
        raise InputError(f"dtype {dtype!r} is not understood: expected one of {', '.join(BITS)}")
    elements = math.prod(shape)
    return elements * (BITS[dtype] // 8) if BITS[dtype] >= 8 else ceildiv(elements * BITS[dtype], 8)


def upper_bound(size: int | Dim, dims: Mapping[str, Range]) -> int | None:
    """The largest value of an expression, or ``None`` if there is none."""
    return size if isinstance(size, int) else size.bounds(dims).upper


def parse_ranges(dims: Mapping[str, object]) -> dict[str, Range]:
    """Ranges from integers, pairs ``(lower, upper)`` (``None``: unbounded) or ranges.

    Raises
    ------
    InputError
        Names the variable and what was expected.

    Examples
    --------
    >>> parse_ranges({"n": (1, 8), "m": 4})
    {'n': Range(lower=1, upper=8), 'm': Range(lower=4, upper=4)}
    """
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
