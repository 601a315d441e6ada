"""Symbolic sizes of torch as expressions of named variables with ranges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import sympy
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Node

from cpplan.io.torch.values import flatten, is_dense
from cpplan.model.errors import InputError
from cpplan.model.shapes import Dim, Range, parse_dim
from cpplan.model.symbols import parse_ranges


class Extents:
    """The symbolic sizes of a program as cpplan's expressions, with the ranges of variables.

    Parameters
    ----------
    values
        Values whose sizes hold variables.
    constraints
        Ranges of variables with which the program was exported.
    dims
        Ranges by name, which replace the program's own.

    Attributes
    ----------
    ranges
        Ranges of the variables in the values, by name.
    most
        Values at which sizes are counted: the upper bound or, without one, the lower bound, but
        at least 1.

    Raises
    ------
    InputError
        If ``dims`` names an unknown variable, or a range is empty or holds a negative size, or one
        for which the program was not exported.
    """

    def __init__(
        self,
        values: Iterable[Any],
        constraints: Mapping[sympy.Symbol, Any],
        dims: Mapping[str, object],
    ):
        found: dict[str, Any] = {}
        for leaf in flatten(tuple(values)):
            for size in _sizes(leaf):
                environment = size.node.shape_env
                for symbol in size.node.expr.free_symbols:
                    bounds = constraints.get(symbol, environment.var_to_range.get(symbol))
                    found.setdefault(str(symbol), bounds)
        given = {name: _size(name, within) for name, within in parse_ranges(dims).items()}
        for name in given:
            if name not in found:
                known = f"expected {', '.join(found)}" if found else "all sizes are fixed"
                raise InputError(f"there is no dimension {name!r}: {known}")
            _check_range(name, given[name], _range(found[name]))
        self.ranges = {name: given.get(name, _range(bounds)) for name, bounds in found.items()}
        self.most = {
            name: max(1, within.lower or 0) if within.upper is None else within.upper
            for name, within in self.ranges.items()
        }

    @property
    def fixed(self) -> bool:
        """True if every variable has one value, or there is none."""
        return all(low == high for low, high in self.ranges.values())

    def bound_values(self, values: dict[Node, Any], mode: FakeTensorMode) -> dict[Node, Any]:
        """Values of nodes without variables, if every variable has one value; else as they are."""
        if not self.ranges or not self.fixed:
            return values
        with mode:
            return {node: self.bound(value) for node, value in values.items()}

    def bound(self, value: Any) -> Any:
        """The value of a node with its sizes at the upper bounds; call it inside the fake mode."""
        if type(value) in (tuple, list):
            return type(value)(map(self.bound, value))
        if isinstance(value, torch.SymInt):
            return self.at_most(value)
        if not (isinstance(value, torch.Tensor) and _sizes(value)):
            return value
        shape = [self.at_most(extent) for extent in value.shape]
        stride = [self.at_most(step) for step in value.stride()]
        offset = self.at_most(value.storage_offset())
        last = sum((n - 1) * step for n, step in zip(shape, stride, strict=True))
        elements = offset + last + 1 if all(shape) else offset
        storage = torch.empty((elements,), dtype=value.dtype, device=value.device)
        return storage.as_strided(shape, stride, offset)

    def inside(self, values: Iterable[Any]) -> Extents:
        """Extents of other values, such as those inside a node, with the ranges known here."""
        found = Extents(values, {}, {})
        known = {name: within for name, within in self.ranges.items() if name in found.ranges}
        found.ranges.update(known)
        found.most.update({name: self.most[name] for name in known})
        return found

    def symbolic(self, size: Any) -> int | Dim:
        """A size as an integer or an expression."""
        if isinstance(size, int):
            return size
        text = str(_expression(size))
        for theirs, ours in (("PythonMod(", "mod("), ("Mod(", "mod("), ("FloorDiv(", "floordiv(")):
            text = text.replace(theirs, ours)
        return parse_dim(text)

    def at_most(self, size: Any) -> int:
        """A size at the upper bounds."""
        if isinstance(size, int):
            return size
        expression = _expression(size)
        values = {symbol: self.most[str(symbol)] for symbol in expression.free_symbols}
        return int(expression.subs(values))


def _expression(size: Any) -> sympy.Expr:
    return size.node.expr


def _sizes(value: Any) -> list[torch.SymInt]:
    """The symbolic sizes of a value."""
    if isinstance(value, torch.Tensor) and is_dense(value):
        sizes = [*value.shape, *value.stride(), value.storage_offset()]
        return [size for size in sizes if isinstance(size, torch.SymInt)]
    return [value] if isinstance(value, torch.SymInt) else []


def _size(name: str, within: Range) -> Range:
    lower = 0 if within.lower is None else within.lower
    if lower < 0:
        raise InputError(f"dimension {name!r} must not be negative: it may be {lower}")
    return Range(lower, within.upper)


def _check_range(name: str, given: Range, own: Range) -> None:
    """Raise if a range goes beyond the program's own; all exports say that it begins at 2."""
    what = f"dimension {name!r}: the program was exported for extents of"
    if own.lower is not None and (given.lower or 0) < own.lower > 2:
        raise InputError(f"{what} {own.lower} and more, not {given.lower}")
    if own.upper is not None and (given.upper is None or given.upper > own.upper):
        raise InputError(f"{what} at most {own.upper}, not {given.upper or 'more'}")


def _range(bounds: Any) -> Range:
    """Range from torch's bounds, which are integers or infinite."""
    ends = (bounds.lower, bounds.upper) if bounds is not None else (None, None)
    lower, upper = (int(end) if end is not None and end.is_Integer else None for end in ends)
    return Range(max(0, lower or 0), upper)
