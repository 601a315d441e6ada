"""Many plain tensors and ops at once, column by column; graphs may have a hundred thousand.

A column is checked as a whole. What these checks do not cover is left to the classes themselves,
which say what is wrong.
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


def plain_tensors(rows: Sequence[Mapping[str, Any]]) -> list[Tensor] | None:
    """Tensors with these fields; ``None`` unless all have a size, and no shape, dtype or pools.

    Examples
    --------
    >>> plain_tensors([{"name": "x", "size": 8}, {"name": "v", "size": 4, "view_of": ("x", 4)}])[1]
    Tensor(name='v', size=4, shape=None, dtype=None, kind='intermediate', alignment=1, \
view_of=('x', 4), pools=None)
    >>> plain_tensors([{"name": "x", "size": -1}])
    """
    if not set[str]().union(*rows) <= _TENSOR_KEYS:
        return None
    names, sizes = column_of(rows, "name"), column_of(rows, "size")
    kinds = column_of(rows, "kind", "intermediate")
    alignments = column_of(rows, "alignment", 1)
    views = column_of(rows, "view_of")
    fine = (
        _are_names(names)
        and _are_counts(sizes)
        and _are_counts(alignments, least=1)
        and set(map(type, kinds)) <= {str}
        and set(kinds) <= {*KINDS}
        and _are_views([view for view in views if view is not None])
    )
    if not fine:
        return None
    columns = {"name": names, "size": sizes, "kind": kinds, "alignment": alignments}
    return _made(Tensor, len(rows), {**columns, "view_of": views})


def plain_ops(rows: Sequence[Mapping[str, Any]]) -> list[Op] | None:
    """Ops with these fields; ``None`` unless all have only names, an integer cost and relations.

    Lists of names may be lists or tuples.

    Examples
    --------
    >>> plain_ops([{"name": "relu", "inputs": ["x"], "outputs": ["y"]}])[0].inputs
    ('x',)
    >>> plain_ops([{"name": "call", "bodies": []}])
    """
    if not set[str]().union(*rows) <= _OP_KEYS:
        return None
    names, kinds = column_of(rows, "name"), column_of(rows, "kind", "op")
    costs = column_of(rows, "cost", 1)
    lists = [column_of(rows, key, ()) for key in ("inputs", "outputs", "workspaces")]
    fine = (
        _are_names(names)
        and set(map(type, kinds)) <= {str}
        and "".join(kinds).isascii()
        and _are_counts(costs)
        and all(set(map(type, column)) <= {list, tuple} for column in lists)
        and all(set(map(type, chain.from_iterable(column))) <= {str} for column in lists)
    )
    if not fine:
        return None
    inputs, outputs, workspaces = (list(map(tuple, column)) for column in lists)
    over, copied = _pairs_in_place(rows, inputs, outputs), _placements(rows, inputs, outputs)
    if over is None or copied is None:
        return None
    columns = {"name": names, "kind": kinds, "cost": costs, "in_place": over, "placements": copied}
    tensors = {"inputs": inputs, "outputs": outputs, "workspaces": workspaces}
    return _made(Op, len(rows), {**columns, **tensors})


Names = Sequence[tuple[str, ...]]


def _pairs_in_place(
    rows: Sequence[Mapping[str, Any]], inputs: Names, outputs: Names
) -> list[tuple[tuple[str, str], ...]] | None:
    """Pairs in place of every op; ``None`` unless each names an output and an input of its op."""
    found: list[tuple[tuple[str, str], ...]] = [()] * len(rows)
    for k, pairs in enumerate(column_of(rows, "in_place", ())):
        if pairs:
            found[k] = tuple(map(tuple, pairs))
            read, written = _quick(inputs[k]), _quick(outputs[k])
            for pair in found[k]:
                if len(pair) != 2 or pair[0] not in written or pair[1] not in read:
                    return None
    return found


def _placements(
    rows: Sequence[Mapping[str, Any]], inputs: Names, outputs: Names
) -> list[tuple[Placement, ...]] | None:
    """Placements of every op; ``None`` unless each names an input and an output, and an offset."""
    found: list[tuple[Placement, ...]] = [()] * len(rows)
    for k, placements in enumerate(column_of(rows, "placements", ())):
        if not placements:
            continue
        if set(map(len, placements)) != {3}:
            return None
        found[k] = tuple(map(Placement._make, placements))
        read, written = _quick(inputs[k]), _quick(outputs[k])
        for part, whole, offset in found[k]:
            joined = part in read and whole in written
            if not (joined or (part in written and whole in read)):
                return None
            if type(offset) is not int or not 0 <= offset < LIMIT:
                return None
    return found


def _quick(names: tuple[str, ...]) -> Collection[str]:
    """The names, so that it is quick to ask which are among them: an op may read thousands."""
    return names if len(names) < 8 else frozenset(names)


def column_of(rows: Sequence[Mapping[str, Any]], key: str, default: Any = None) -> list[Any]:
    """The value of a key in each row, or the default where a row has none.

    Examples
    --------
    >>> column_of([{"name": "x", "size": 8}, {"name": "y"}], "size", 0)
    [8, 0]
    """
    if rows and key not in rows[0] and not any(key in row for row in rows):
        return [default] * len(rows)
    try:
        return list(map(itemgetter(key), rows))
    except KeyError:
        return [row.get(key, default) for row in rows]


def _made(cls: type[_T], count: int, columns: Mapping[str, Sequence[Any]]) -> list[_T]:
    """Instances of a frozen class with slots; what has no column has its default."""
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


def _are_views(column: Sequence[Any]) -> bool:
    return (
        set(map(type, column)) <= {tuple}
        and set(map(len, column)) <= {2}
        and set(map(type, (base for base, _ in column))) <= {str}
        and _are_counts([offset for _, offset in column])
    )
