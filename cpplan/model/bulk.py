"""Many plain tensors and ops at once, column by column; graphs may have a hundred thousand.

Each column is checked as a whole. If a check does not cover a value, the classes themselves check
it and name the fault.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from itertools import chain, repeat
from operator import itemgetter
from typing import Any, TypeVar

from cpplan.model.graph import Op, Placement
from cpplan.model.tensor import KINDS, LIMIT, Tensor

_T = TypeVar("_T")
_TENSOR_KEYS = frozenset({"name", "size", "kind", "alignment", "view_of"})
_OP_KEYS = frozenset(
    {"name", "kind", "inputs", "outputs", "workspaces", "cost", "in_place", "placements"}
)
# In place of a value that a row has not.
_NONE = object()
# Number of an op's names above which they are looked up in sets: an op may read thousands.
_FEW = 8


def plain_tensors(rows: Sequence[Any]) -> list[Tensor] | None:
    """Tensors with these fields, as in JSON; ``None`` if one is wrong or not plain.

    A plain tensor has a size, but no shape, dtype or pools. ``view_of`` is a base alone, or a list
    of a base and its offset.

    Examples
    --------
    >>> plain_tensors([{"name": "x", "size": 8}, {"name": "v", "size": 4, "view_of": ["x", 4]}])[1]
    Tensor(name='v', size=4, shape=None, dtype=None, kind='intermediate', alignment=1, \
view_of=('x', 4), pools=None)
    >>> plain_tensors([{"name": "x", "size": -1}])
    """
    keys = _keys(rows)
    if keys is None or not keys <= _TENSOR_KEYS:
        return None
    names, sizes = column_of(rows, "name", keys), column_of(rows, "size", keys)
    kinds = column_of(rows, "kind", keys, "intermediate")
    alignments = column_of(rows, "alignment", keys, 1)
    fine = (
        _are_names(names)
        and _are_counts(sizes)
        and _are_counts(alignments, least=1)
        and set(map(type, kinds)) <= {str}
        and set(kinds) <= {*KINDS}
    )
    views = _views(rows) if fine and "view_of" in keys else {}
    if not fine or views is None:
        return None
    columns = {"name": names, "size": sizes, "kind": kinds, "alignment": alignments}
    return _made(Tensor, len(rows), {**columns, **views})


def plain_ops(rows: Sequence[Any]) -> list[Op] | None:
    """Ops with these fields, as in JSON; ``None`` if one is wrong or not plain.

    A plain op has only names, an integer cost and relations. Lists may be tuples.

    Examples
    --------
    >>> plain_ops([{"name": "relu", "inputs": ["x"], "outputs": ["y"]}])[0].inputs
    ('x',)
    >>> plain_ops([{"name": "call", "bodies": []}])
    """
    keys = _keys(rows)
    if keys is None or not keys <= _OP_KEYS:
        return None
    names, kinds = column_of(rows, "name", keys), column_of(rows, "kind", keys, "op")
    costs = column_of(rows, "cost", keys, 1)
    lists = [column_of(rows, key, keys, ()) for key in ("inputs", "outputs", "workspaces")]
    fine = (
        _are_names(names)
        and set(map(type, kinds)) <= {str}
        and "".join(set(kinds)).isascii()
        and _are_counts(costs)
        and all(_are_lists(column, str) for column in lists)
    )
    if not fine:
        return None
    inputs, outputs, workspaces = (list(map(tuple, column)) for column in lists)
    columns = {"name": names, "kind": kinds, "cost": costs, "inputs": inputs, "outputs": outputs}
    columns["workspaces"] = workspaces
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

    Examples
    --------
    >>> column_of([{"name": "x", "size": 8}, {"name": "y"}], "size", {"name", "size"}, 0)
    [8, 0]
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
