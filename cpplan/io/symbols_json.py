"""Symbolic layouts as JSON, with expressions as text and ranges as pairs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from cpplan.model.dtypes import BITS
from cpplan.model.errors import InputError, located
from cpplan.model.printable import quote
from cpplan.model.shapes import Dim, Range, parse_dim
from cpplan.model.symbolic_layout import SymbolicLayout, SymbolicTensor, Unbounded
from cpplan.model.symbols import check_values, parse_ranges


def range_values(dims: Mapping[str, Range]) -> dict[str, list[int | None]]:
    """Ranges as pairs."""
    return {name: [within.lower, within.upper] for name, within in dims.items()}


def layout_values(layout: SymbolicLayout) -> dict[str, Any]:
    """The symbolic layout of a plan as values ready for JSON."""
    return {
        "dims": range_values(layout.dims),
        "tensors": {
            name: {
                "buffer": t.buffer,
                "offset": _text(t.within),
                "bytes": _text(t.nbytes),
                "shape": None if t.shape is None else [_text(extent) for extent in t.shape],
                "dtype": t.dtype,
            }
            for name, t in layout.tensors.items()
        },
        "unbounded": {name: [_text(u.nbytes), u.storage] for name, u in layout.unbounded.items()},
        "alignment": dict(layout.alignment),
        "lost": dict(layout.lost),
        "moving": sorted(layout.moving),
        "sizes": [dict(values) for values in layout.sizes],
    }


def read_layout(values: Any, buffers: Collection[str]) -> SymbolicLayout:
    """Read the symbolic layout of a plan with these buffers from :func:`layout_values`.

    Raises
    ------
    InputError
        Names what is missing, malformed, or not in the plan.
    """
    keys = "dims", "tensors", "unbounded", "alignment", "lost", "moving", "sizes"
    _check_keys("symbols", values, keys)
    dims = parse_ranges(_object("dims", values["dims"]))
    tensors = {}
    for name, row in _object("tensors", values["tensors"]).items():
        place = f"symbols: tensor {name!r}"
        _check_keys(place, row, ("buffer", "offset", "bytes", "shape", "dtype"))
        if not _is_among(row["buffer"], buffers):
            raise InputError(f"{place}: unknown buffer {quote(row['buffer'])}")
        if row["dtype"] is not None and not _is_among(row["dtype"], BITS):
            raise InputError(f"{place}: dtype {quote(row['dtype'])} is not understood")
        shape = row["shape"]
        if shape is not None and not isinstance(shape, list):
            raise InputError(f"{place}: shape must be a list or null, not {quote(shape)}")
        tensors[name] = SymbolicTensor(
            row["buffer"],
            _expression(place, row["offset"], dims),
            _expression(place, row["bytes"], dims),
            None if shape is None else tuple(_expression(place, extent, dims) for extent in shape),
            row["dtype"],
        )
    unbounded = {}
    for name, pair in _object("unbounded", values["unbounded"]).items():
        if not isinstance(pair, list) or len(pair) != 2 or type(pair[1]) is not int:
            raise InputError(f"symbols: unbounded {name!r} must be [bytes, storage]")
        unbounded[name] = Unbounded(_expression(f"symbols: {name!r}", pair[0], dims), pair[1])
    absent = next((name for name in buffers if name not in tensors and name not in unbounded), None)
    if absent is not None:
        raise InputError(f"symbols: tensors: buffer {absent!r} is missing")
    alignment = _object("alignment", values["alignment"])
    if not all(type(v) is int and v > 0 and k in buffers for k, v in alignment.items()):
        raise InputError("symbols: alignment must give buffers positive integers")
    moving = values["moving"]
    known = tensors.keys() & set(buffers)
    if not isinstance(moving, list) or not all(_is_among(name, known) for name in moving):
        raise InputError("symbols: moving must be a list of buffers")
    lost = {str(k): str(v) for k, v in _object("lost", values["lost"]).items()}
    sizes = _sizes(values["sizes"], dims)
    return SymbolicLayout(dims, tensors, unbounded, alignment, lost, frozenset(moving), sizes)


def _sizes(values: Any, dims: Mapping[str, Range]) -> tuple[Mapping[str, int], ...]:
    if not isinstance(values, list):
        raise InputError(f"symbols: sizes must be a list, not {quote(values)}")
    found = []
    for number, given in enumerate(values):
        place = f"size {number}"
        with located(f"symbols: {place}"):
            size = check_values(dims, _object(place, given))
        for name, value in size.items():
            upper = dims[name].upper
            if upper is not None and value > upper:
                raise InputError(f"symbols: {place}: {name!r} is {value}, above its bound {upper}")
        found.append(size)
    return tuple(found)


def _text(expression: int | Dim) -> int | str:
    return expression if isinstance(expression, int) else str(expression)


def _expression(place: str, value: Any, dims: Mapping[str, Range]) -> int | Dim:
    if isinstance(value, str):
        with located(place):
            value = parse_dim(value)
        unknown = set() if isinstance(value, int) else {*value.variables} - dims.keys()
        if unknown:
            raise InputError(f"{place}: unknown dimension {min(unknown)!r}")
        if not isinstance(value, int):
            return value  # type: ignore[no-any-return]
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**62:
        raise InputError(f"{place}: expected a count or an expression, not {quote(value)}")
    return value


def _is_among(value: Any, names: Collection[str]) -> bool:
    """True if a JSON value, which may be a list or an object, is one of the names."""
    return isinstance(value, str) and value in names


def _object(what: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError(f"symbols: {what} must be an object, not {quote(value)}")
    return value


def _check_keys(place: str, value: Any, keys: tuple[str, ...]) -> None:
    if not isinstance(value, Mapping) or {*value} != {*keys}:
        raise InputError(f"{place}: expected an object with {', '.join(keys)}")
