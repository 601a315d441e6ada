"""Replacement of symbolic sizes by the bytes at the bounds, when a graph is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

from cpplan.model.errors import InputError
from cpplan.model.shapes import Dim, Range
from cpplan.model.symbols import Extents, Symbols, tensor_bytes, upper_bound
from cpplan.model.tensor import Placement, Tensor

if TYPE_CHECKING:
    from cpplan.model.graph import Op

# Most combinations of values of one extent's variables that are tried.
MOST_TRIED = 4096


def resolve(
    tensors: Sequence[Tensor], ops: Sequence[Op], symbols: Symbols | None
) -> tuple[tuple[Tensor, ...], tuple[Op, ...], Symbols]:
    """Tensors and ops at the bounds, with the expressions for other values.

    Each tensor has the largest number of bytes that it may have; an unbounded tensor, and a tensor
    within one, has none. If a view or placement would then leave its base, its offset is reduced
    until it fits. Placements that then contradict each other, or lie within an unbounded tensor,
    are left out and never used. Without ``symbols``, the variables are the bodies' variables.

    Raises
    ------
    InputError
        If a variable has no bounds, a size may be negative, a symbolic shape has no dtype, the
        tensors of an in-place pair may differ in size, a body has a variable that the graph lacks
        or bounds differently, or a tensor has another size in a body; names the tensor or op.
    """
    if symbols is None:
        inner = (body.symbols for op in ops for body in op.bodies)
        symbols = Symbols({name: r for s in inner if s is not None for name, r in s.dims.items()})
    shapes, offsets = dict(symbols.shapes), dict(symbols.offsets)
    found: dict[str, Tensor] = {}
    for tensor in tensors:
        place = f"tensor {tensor.name!r}"
        if tensor.symbolic:
            assert tensor.shape is not None
            if tensor.dtype is None:
                raise InputError(f"{place}: a symbolic shape needs a known dtype")
            for extent in tensor.shape:
                _check_extent(place, extent, symbols.dims)
            shapes[tensor.name] = tensor.shape
            most = upper_bound(tensor_bytes(tensor.shape, tensor.dtype), symbols.dims)
            tensor = replace(tensor, shape=None, size=most or 0)
        found[tensor.name] = tensor
    symbols = replace(symbols, shapes=shapes)
    free = {name for name, tensor in found.items() if symbols.unbounded(tensor)}
    for name in found:
        found[name] = _view_at_bounds(found[name], found, symbols, free, shapes, offsets)
    symbols = replace(symbols, shapes=shapes)
    placements = dict(symbols.placements)
    resolved = [_op_at_bounds(op, found, symbols, free, placements) for op in ops]
    symbols = replace(symbols, offsets=offsets, placements=placements)
    _check_in_place(found, resolved, symbols)
    for op in resolved:
        for body in op.bodies:
            _check_body(op, body.symbols or Symbols({}), body.tensor, found, symbols)
    return tuple(found.values()), tuple(resolved), symbols


def _view_at_bounds(
    tensor: Tensor,
    found: Mapping[str, Tensor],
    symbols: Symbols,
    free: set[str],
    shapes: dict[str, Extents],
    offsets: dict[str, int | Dim],
) -> Tensor:
    if tensor.view_of is None:
        return tensor
    base, offset = tensor.view_of
    name, chain = base, {tensor.name}
    while name in found and name not in chain | free and found[name].view_of is not None:
        chain.add(name)
        name = (found[name].view_of or (name, 0))[0]
    if name in free and tensor.nbytes:
        if tensor.shape is None or tensor.dtype is None:
            raise InputError(
                f"tensor {tensor.name!r}: a view of {name!r}, which may have any size, needs shape "
                "and dtype"
            )
        shapes[tensor.name] = tensor.shape
        tensor = replace(tensor, shape=None, size=0)
    if isinstance(offset, int) and name not in free:
        return tensor
    offsets[tensor.name] = offset
    place = f"tensor {tensor.name!r}"
    within = _offset_at_bounds(place, offset, base, tensor.nbytes, found, symbols)
    return replace(tensor, view_of=(base, within))


def _op_at_bounds(
    op: Op,
    found: Mapping[str, Tensor],
    symbols: Symbols,
    free: set[str],
    moving: dict[tuple[str, str, str], Dim],
) -> Op:
    """The op with its placements' offsets at the bounds."""
    concrete: list[Placement] = []
    fixed = [placement for placement in op.placements if isinstance(placement.offset, int)]
    for part, whole, offset in op.placements:
        known = part in found and whole in found  # another check reports an unknown name
        if whole in free:
            continue
        if not isinstance(offset, int):
            place = f"op {op.name!r}"
            nbytes = found[part].nbytes if known else 0
            within = _offset_at_bounds(place, offset, whole, nbytes, found, symbols)
            here = Placement(part, whole, within)
            # Placements at a fixed offset go first, in any listing.
            if known and whole in op.outputs and _meets(here, [*fixed, *concrete], found):
                continue
            moving[op.name, part, whole] = offset
            concrete.append(here)
        else:
            concrete.append(Placement(part, whole, offset))
    return op if op.placements == tuple(concrete) else replace(op, placements=tuple(concrete))


def _meets(new: Placement, placed: Iterable[Placement], found: Mapping[str, Tensor]) -> bool:
    begin, end = new.offset, new.offset + found[new.part].nbytes
    return any(
        whole == new.whole and max(begin, at) < min(end, at + found[part].nbytes)
        for part, whole, at in placed
        if part in found
    )


def _offset_at_bounds(
    place: str,
    offset: int | Dim,
    base: str,
    nbytes: int,
    found: Mapping[str, Tensor],
    symbols: Symbols,
) -> int:
    """Largest value of an offset, reduced if ``nbytes`` would not fit in the base."""
    _check_extent(f"{place}: offset within {base!r}", offset, symbols.dims)
    if base not in found:
        return 0  # another check reports the unknown name
    room = max(0, found[base].nbytes - nbytes)
    most = upper_bound(offset, symbols.dims)
    return room if most is None else min(most, room)


def _check_in_place(found: Mapping[str, Tensor], ops: Iterable[Op], symbols: Symbols) -> None:
    for op in ops:
        for pair in op.in_place:
            if not all(name in found for name in pair):
                continue  # another check reports it
            output, source = (symbols.size(found[name]) for name in pair)
            if output != source:
                raise InputError(
                    f"op {op.name!r}: in_place pair of sizes that may differ: {pair[0]!r} has "
                    f"{output} B, {pair[1]!r} has {source} B"
                )


def _check_body(
    op: Op,
    inner: Symbols,
    tensors: Mapping[str, Tensor],
    found: Mapping[str, Tensor],
    symbols: Symbols,
) -> None:
    for name, within in inner.dims.items():
        if name not in symbols.dims:
            raise InputError(f"op {op.name!r}: dimension {name!r} of its body is unbound outside")
        if within != symbols.dims[name]:
            raise InputError(f"op {op.name!r}: dimension {name!r} has other bounds in its body")
    for name in op.tensors:
        if name in tensors and name in found and tensors[name].kind in ("input", "output"):
            sizes = symbols.size(found[name]), inner.size(tensors[name])
            if sizes[0] != sizes[1]:
                raise InputError(
                    f"op {op.name!r}: {name!r} has {sizes[0]} B outside its body and {sizes[1]} B "
                    "inside"
                )


def _check_extent(place: str, extent: int | Dim, dims: Mapping[str, Range]) -> None:
    if isinstance(extent, int):
        return
    for name in extent.variables:
        if name not in dims:
            raise InputError(f"{place}: dimension {name!r} of {extent} is unbound: give its range")
    try:
        lower = extent.bounds(dims).lower
    except InputError as error:
        raise InputError(f"{place}: {error}") from error
    if (lower is None or lower < 0) and not _never_negative(extent, dims):
        least = "unbounded below" if lower is None else f"{lower} at least"
        raise InputError(f"{place}: {extent} may be negative: it is {least} within the bounds")


def _never_negative(extent: Dim, dims: Mapping[str, Range]) -> bool:
    """True if trying all values proves that an extent is never negative."""
    ranges, count = [], 1
    for name in extent.variables:
        lower, upper = dims[name]
        if lower is None or upper is None:
            return False
        ranges.append(range(lower, upper + 1))
        count *= upper + 1 - lower
    if count > MOST_TRIED:
        return False
    points = (dict(zip(extent.variables, p, strict=True)) for p in product(*ranges))
    return all(extent.evaluate(values) >= 0 for values in points)
