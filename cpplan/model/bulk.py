"""Many plain tensors and ops at once, column by column; graphs may have a hundred thousand.

Each column is checked as a whole. If a check does not cover a value, the classes themselves check
it and name the fault.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from itertools import chain, islice, repeat
from operator import itemgetter
from typing import Any, TypeVar

from cpplan.model.axes import Axis, Window
from cpplan.model.dtypes import BITS
from cpplan.model.graph import Op, Placement
from cpplan.model.tensor import KINDS, LIMIT, Tensor

_T = TypeVar("_T")
_TENSOR_KEYS = frozenset({"name", "size", "shape", "dtype", "kind", "alignment", "view_of"})
_OP_KEYS = frozenset(
    {
        *("name", "kind", "inputs", "outputs", "workspaces", "cost", "recomputable"),
        *("in_place", "placements", "axes"),
    }
)
_AXIS_KEYS = frozenset({"name", "extent", "windows", "accumulates"})
_WINDOW_KEYS = frozenset({"tensor", "axis", "stride", "offset", "size"})
# In place of a value that a row has not.
_NONE = object()
# Number of an op's names above which they are looked up in sets: an op may read thousands.
_FEW = 8


def plain_tensors(rows: Sequence[Any]) -> list[Tensor] | None:
    """Tensors with these fields, as in JSON; ``None`` if one is wrong or not plain.

    A plain tensor has a size, a shape with a dtype of whole bytes, or both, but no pools.
    ``view_of`` is a base alone, or a list of a base and its offset.
    """
    keys = _keys(rows)
    if keys is None or not keys <= _TENSOR_KEYS:
        return None
    names, sizes = column_of(rows, "name", keys), column_of(rows, "size", keys)
    kinds = column_of(rows, "kind", keys, "intermediate")
    alignments = column_of(rows, "alignment", keys, 1)
    shapes: dict[str, Sequence[Any]] | None = {}
    if keys & {"shape", "dtype"}:
        shapes = _shapes(column_of(rows, "shape", keys), column_of(rows, "dtype", keys), sizes)
        sizes = sizes if shapes is None else list(shapes.pop("size"))
    fine = (
        _are_names(names)
        and _are_counts(sizes)
        and _are_counts(alignments, least=1)
        and set(map(type, kinds)) <= {str}
        and set(kinds) <= {*KINDS}
    )
    views = _views(rows) if fine and "view_of" in keys else {}
    if not fine or views is None or shapes is None:
        return None
    columns = {"name": names, "size": sizes, "kind": kinds, "alignment": alignments}
    return _made(Tensor, len(rows), {**columns, **shapes, **views})


def plain_ops(rows: Sequence[Any]) -> list[Op] | None:
    """Ops with these fields, as in JSON; ``None`` if one is wrong or not plain.

    A plain op has only names, an integer cost, relations and axes without tables. Lists may be
    tuples.
    """
    keys = _keys(rows)
    if keys is None or not keys <= _OP_KEYS:
        return None
    names, kinds = column_of(rows, "name", keys), column_of(rows, "kind", keys, "op")
    costs = column_of(rows, "cost", keys, 1)
    again = column_of(rows, "recomputable", keys, True)
    lists = [column_of(rows, key, keys, ()) for key in ("inputs", "outputs", "workspaces")]
    fine = (
        _are_names(names)
        and set(map(type, kinds)) <= {str}
        and "".join(set(kinds)).isascii()
        and _are_counts(costs)
        and set(map(type, again)) <= {bool}
        and all(_are_lists(column, str) for column in lists)
    )
    if not fine:
        return None
    inputs, outputs, workspaces = (list(map(tuple, column)) for column in lists)
    columns = {"name": names, "kind": kinds, "cost": costs, "inputs": inputs, "outputs": outputs}
    columns |= {"workspaces": workspaces, "recomputable": again}
    if "axes" in keys:
        axes = _axes(column_of(rows, "axes", keys, ()))
        if axes is None:
            return None
        columns["axes"] = axes
    for key, read in (("in_place", _pairs_in_place), ("placements", _placements)):
        if key in keys:
            found = read(column_of(rows, key, keys, ()), inputs, outputs)
            if found is None:
                return None
            columns[key] = found
    return _made(Op, len(rows), columns)


def _keys(rows: Sequence[Any]) -> set[str] | None:
    """The keys of all objects; ``None`` if a row is not an object."""
    return set().union(*rows) if set(map(type, rows)) <= {dict} else None


def _views(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[tuple[str, int] | None]] | None:
    """The column of bases and offsets; ``None`` unless each is a base, alone or with an offset."""
    column: list[Any] = [row.get("view_of", _NONE) for row in rows]
    given = [base for base in column if base is not _NONE]
    if not set(map(type, given)) <= {str, list, tuple}:
        return None
    pairs = [(base, 0) if type(base) is str else tuple(base) for base in given]
    if set(map(len, pairs)) != {2}:
        return None
    bases, offsets = zip(*pairs, strict=True)
    if not (set(map(type, bases)) <= {str} and _are_counts(offsets)):
        return None
    if len(pairs) == len(rows):
        return {"view_of": [*pairs]}
    following = iter(pairs)
    return {"view_of": [None if base is _NONE else next(following) for base in column]}


def _shapes(
    shapes: list[Any], dtypes: list[Any], sizes: list[Any]
) -> dict[str, Sequence[Any]] | None:
    """The columns of shapes, dtypes and sizes; ``None`` unless sizes hold all elements."""
    given = [shape for shape in shapes if shape is not None]
    extents = list(chain.from_iterable(given)) if _are_lists(given, int) else [-1]
    if not (_are_counts(extents) and set(map(type, dtypes)) <= {str, type(None)}):
        return None
    # Whole bytes of an element; 0 without a dtype, or if it is not known or narrower.
    width = {dtype: BITS.get(dtype, 0) // 8 for dtype in set(dtypes)}
    made = [None if shape is None else tuple(shape) for shape in shapes]
    if any(
        (dtype is not None) if shape is None else not width[dtype]
        for shape, dtype in zip(made, dtypes, strict=True)
    ):
        return None
    least = [
        0 if shape is None else width[dtype] * math.prod(shape)
        for shape, dtype in zip(made, dtypes, strict=True)
    ]
    full = [
        need if size is None and shape is not None else size
        for size, shape, need in zip(sizes, made, least, strict=True)
    ]
    if set(map(type, full)) != {int} or any(map(int.__lt__, full, least)):
        return None
    return {"shape": made, "dtype": dtypes, "size": full}


def _axes(column: Sequence[Any]) -> list[tuple[Axis, ...]] | None:
    """Axes of every op; ``None`` if one is wrong or has a window with a table."""
    if not _are_lists(column, dict):
        return None
    rows = list(chain.from_iterable(column))
    keys = _keys(rows) or set()
    if not {"name", "extent", "windows"} <= keys <= _AXIS_KEYS:
        return None if rows else [()] * len(column)
    names, extents = column_of(rows, "name", keys), column_of(rows, "extent", keys)
    windows = _windows(column_of(rows, "windows", keys, None))
    adds = column_of(rows, "accumulates", keys, False)
    fine = _are_names(names) and _are_counts(extents, least=1) and set(map(type, adds)) <= {bool}
    if windows is None or not fine:
        return None
    columns = {"name": names, "extent": extents, "windows": windows, "accumulates": adds}
    found = _in_tuples(_made(Axis, len(rows), columns), column)
    alike = any(len(own) > 1 and len({axis.name for axis in own}) < len(own) for own in found)
    return None if alike else found


def _windows(column: Sequence[Any]) -> list[tuple[Window, ...]] | None:
    """Windows of every axis; ``None`` if one is wrong, or has a table."""
    if not _are_lists(column, dict):
        return None
    rows = list(chain.from_iterable(column))
    keys = _keys(rows) or set()
    if not {"tensor", "axis"} <= keys <= _WINDOW_KEYS:
        return None if rows else [()] * len(column)
    defaults = {"tensor": None, "axis": None, "stride": 1, "offset": 0, "size": 1}
    columns = {key: column_of(rows, key, keys, default) for key, default in defaults.items()}
    fine = (
        _are_names(columns["tensor"])
        and all(_are_counts(columns[key]) for key in ("axis", "stride", "size"))
        and set(map(type, columns["offset"])) == {int}
        and max(map(abs, columns["offset"])) < LIMIT
        and all(len(set(own)) == len(own) for own in _in_tuples(columns["tensor"], column))
    )
    if not fine:
        return None
    return _in_tuples(_made(Window, len(rows), columns), column)


def _in_tuples(items: list[_T], column: Sequence[Sequence[Any]]) -> list[tuple[_T, ...]]:
    """The items in tuples as long as the lists of a column."""
    rest = iter(items)
    return [tuple(islice(rest, len(own))) for own in column]


Names = Sequence[tuple[str, ...]]


def _pairs_in_place(
    column: Sequence[Any], inputs: Names, outputs: Names
) -> list[tuple[tuple[str, str], ...]] | None:
    """Pairs in place of every op; ``None`` unless each names an output and an input of its op."""
    pairs = list(chain.from_iterable(column)) if _are_lists(column, list, tuple) else None
    if pairs is None or not (_are_lists(pairs, str) and set(map(len, pairs)) <= {2}):
        return None
    found: list[tuple[tuple[str, str], ...]] = [()] * len(column)
    for k, given in enumerate(column):
        if given:
            found[k] = own = tuple(map(tuple, given))
            read, written = inputs[k], outputs[k]
            if len(read) + len(written) > _FEW:
                read, written = frozenset(read), frozenset(written)  # type: ignore[assignment]
            for over, under in own:
                if over not in written or under not in read:
                    return None
    return found


def _placements(
    column: Sequence[Any], inputs: Names, outputs: Names
) -> list[tuple[Placement, ...]] | None:
    """Placements of every op; ``None`` unless each names an input and an output, and an offset."""
    rows = list(chain.from_iterable(column)) if _are_lists(column, list, tuple) else None
    if rows is None or not (set(map(len, rows)) <= {3} and _are_placements(rows)):
        return None
    found: list[tuple[Placement, ...]] = [()] * len(column)
    for k, given in enumerate(column):
        if given:
            found[k] = own = tuple(map(Placement._make, given))
            read, written = frozenset(inputs[k]), frozenset(outputs[k])
            for part, whole, _ in own:
                joined = part in read and whole in written
                if not (joined or (part in written and whole in read)):
                    return None
    return found


def _are_placements(rows: Sequence[Any]) -> bool:
    """True if each of these triples has two names and an offset."""
    parts, wholes, offsets = zip(*rows, strict=True) if rows else ((), (), ())
    return set(map(type, chain(parts, wholes))) <= {str} and _are_counts(offsets)


def _are_lists(column: Sequence[Any], *item: type) -> bool:
    """True if all values are lists, or tuples, of items of these types."""
    return set(map(type, column)) <= {list, tuple} and (
        set(map(type, chain.from_iterable(column))) <= {*item}
    )


def column_of(
    rows: Sequence[Mapping[str, Any]], key: str, keys: Collection[str], default: Any = None
) -> list[Any]:
    """The value of a key in each row, or the default if a row lacks the key.

    ``keys`` are all keys that occur in some row.
    """
    if key not in keys:
        return [default] * len(rows)
    try:
        return list(map(itemgetter(key), rows))
    except KeyError:
        return [row.get(key, default) for row in rows]


def _made(cls: type[_T], count: int, columns: Mapping[str, Sequence[Any]]) -> list[_T]:
    """Instances of a frozen class with slots; fields without a column have their defaults."""
    made: list[_T] = list(map(object.__new__, repeat(cls, count)))
    for name, field in cls.__dataclass_fields__.items():  # type: ignore[attr-defined]
        column = columns.get(name, repeat(field.default, count))
        deque(map(getattr(cls, name).__set__, made, column), maxlen=0)
    return made


def _are_names(column: Sequence[Any]) -> bool:
    return set(map(type, column)) <= {str} and all(column) and "".join(column).isascii()


def _are_counts(column: Sequence[Any], *, least: int = 0) -> bool:
    if not column:
        return True
    return set(map(type, column)) == {int} and least <= min(column) and max(column) < LIMIT
