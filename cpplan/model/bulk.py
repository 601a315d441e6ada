"""Many plain tensors and ops at once, column by column; graphs may have a hundred thousand.

A column is checked as a whole. What these checks do not cover is left to the classes themselves,
which say what is wrong.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import chain, repeat
from typing import Any, TypeVar

from cpplan.model.graph import Op
from cpplan.model.tensor import KINDS, LIMIT, Tensor

_T = TypeVar("_T")
_TENSOR_KEYS = frozenset({"name", "size", "kind", "alignment", "view_of"})
_OP_KEYS = frozenset({"name", "kind", "inputs", "outputs", "workspaces", "cost", "in_place"})


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
    names = [row.get("name") for row in rows]
    sizes = [row.get("size") for row in rows]
    kinds = [row.get("kind", "intermediate") for row in rows]
    alignments = [row.get("alignment", 1) for row in rows]
    views = [row.get("view_of") for row in rows]
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
    """Ops with these fields; ``None`` unless all have only names, an integer cost and in-place.

    Lists of names may be lists or tuples.

    Examples
    --------
    >>> plain_ops([{"name": "relu", "inputs": ["x"], "outputs": ["y"]}])[0].inputs
    ('x',)
    >>> plain_ops([{"name": "call", "bodies": []}])
    """
    if not set[str]().union(*rows) <= _OP_KEYS:
        return None
    names = [row.get("name") for row in rows]
    kinds = [row.get("kind", "op") for row in rows]
    costs = [row.get("cost", 1) for row in rows]
    lists = [[row.get(key, ()) for row in rows] for key in ("inputs", "outputs", "workspaces")]
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
    over: list[tuple[tuple[str, str], ...]] = [()] * len(rows)
    for k, row in enumerate(rows):
        pairs = row.get("in_place")
        if pairs:
            over[k] = tuple(map(tuple, pairs))
            if not all(len(p) == 2 and p[0] in outputs[k] and p[1] in inputs[k] for p in over[k]):
                return None
    columns = {"name": names, "kind": kinds, "cost": costs, "in_place": over}
    tensors = {"inputs": inputs, "outputs": outputs, "workspaces": workspaces}
    return _made(Op, len(rows), {**columns, **tensors})


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
