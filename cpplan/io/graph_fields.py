"""The JSON type of every field of a graph, so that a malformed file is refused as a whole."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any

from cpplan.io.codec import Form, forms
from cpplan.model.axes import Window
from cpplan.model.errors import InputError
from cpplan.model.graph import Op
from cpplan.model.tensor import Tensor


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _is_names(value: Any) -> bool:
    return _is_list(value) and all(map(_is_text, value))


def _is_pairs(value: Any) -> bool:
    return _is_list(value) and all(_is_names(pair) and len(pair) == 2 for pair in value)


def _is_placements(value: Any) -> bool:
    return _is_list(value) and all(
        _is_list(p) and len(p) == 3 and _is_names(p[:2]) and _is_extent(p[2]) for p in value
    )


def _is_extent(value: Any) -> bool:
    return _is_count(value) or _is_text(value)


def _is_ranges(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        _is_count(given)
        or (_is_list(given) and len(given) == 2 and all(e is None or type(e) is int for e in given))
        for given in value.values()
    )


def _is_table(value: Any) -> bool:
    return _is_list(value) and all(
        _is_list(entry) and len(entry) == 2 and all(map(_is_count, entry)) for entry in value
    )


def _is_view(value: Any) -> bool:
    if _is_list(value) and len(value) == 2:
        return _is_text(value[0]) and _is_extent(value[1])
    return _is_text(value)


Field = tuple[Callable[[Any], bool], str]
_TEXT: Field = (_is_text, "a string")
_LIST: Field = (_is_list, "a list")
_NAMES: Field = (_is_names, "a list of names")
_COUNT: Field = (_is_count, "a non-negative integer")

GRAPH_FIELDS: dict[str, Field] = {
    "format": _TEXT,
    "version": _COUNT,
    "name": _TEXT,
    "tensors": _LIST,
    "ops": _LIST,
    "dims": (_is_ranges, "an object of extents or [lower, upper] pairs"),
}
# Fields whose JSON form their type does not tell: expressions as text, names alone for pairs.
_OWN: dict[tuple[type, str], Field] = {
    (Tensor, "shape"): (
        lambda value: _is_list(value) and all(map(_is_extent, value)),
        "a list of non-negative integers, or of expressions as text",
    ),
    (Tensor, "view_of"): (_is_view, 'a name or ["name", byte offset]'),
    (Op, "in_place"): (_is_pairs, "a list of [output, input] pairs"),
    (Op, "placements"): (_is_placements, 'a list of ["part", "whole", byte offset]'),
    (Window, "offset"): (lambda value: type(value) is int, "an integer"),
    (Window, "table"): (_is_table, "a list of [start, stop] pairs"),
}
_SCALARS: dict[tuple[type, ...], Field] = {
    (str,): _TEXT,
    (int,): _COUNT,
    (int, float): (_is_number, "a number"),
    (bool,): (lambda value: isinstance(value, bool), "true or false"),
}


@cache
def json_fields(kind: type) -> Mapping[str, Field]:
    """The JSON type of every field of a tensor, op, axis or window, and its name in messages."""
    return {name: _OWN.get((kind, name)) or _field(form) for name, form in forms(kind).items()}


def _field(form: Form) -> Field:
    if form.item is None:
        return _SCALARS[form.types]
    return _NAMES if form.item.types == (str,) else _LIST


def check_fields(
    values: Any, place: str, fields: Mapping[str, Field], required: tuple[str, ...]
) -> None:
    """Check that an object has the required keys, no unknown ones, and values of the right type."""
    if not isinstance(values, Mapping):
        raise InputError(f"{place}: expected an object, not {reprlib.repr(values)}")
    for key in required:
        if key not in values:
            raise InputError(f"{place}: missing key {key!r}")
    for key, value in values.items():
        if key not in fields:
            raise InputError(
                f"{place}: unknown key {reprlib.repr(key)}: expected one of {', '.join(fields)}"
            )
        holds, expected = fields[key]
        if not holds(value):
            raise InputError(f"{place}: {key} must be {expected}, not {reprlib.repr(value)}")


def all_fit(rows: Sequence[Any], fields: Mapping[str, Field], required: str) -> bool:
    """True if :func:`check_fields` refuses none of many objects, seen key by key.

    False if it may refuse one.
    """
    if not set(map(type, rows)) <= {dict}:
        return False
    keys = set[str]().union(*rows)
    if not keys <= fields.keys():
        return False
    for key in keys:
        column = [row[key] for row in rows if key in row]
        if key == required and len(column) < len(rows):
            return False
        holds = fields[key][0]
        fits = _COLUMNS.get(holds)
        if not (all(map(holds, column)) if fits is None else fits(column)):
            return False
    return not rows or required in keys


def _are_texts(column: Collection[Any]) -> bool:
    return set(map(type, column)) <= {str}


def _are_counts(column: Collection[Any]) -> bool:
    return set(map(type, column)) <= {int} and min(column, default=0) >= 0


def _are_pairs(column: Collection[Any]) -> bool:
    if not set(map(type, column)) <= {list}:
        return False
    pairs = list(chain.from_iterable(column))
    return (
        set(map(type, pairs)) <= {list}
        and set(map(len, pairs)) <= {2}
        and set(map(type, chain.from_iterable(pairs))) <= {str}
    )


def _are_lists_of_names(column: Collection[Any]) -> bool:
    return set(map(type, column)) <= {list} and set(map(type, chain.from_iterable(column))) <= {str}


# The common types, for many values at once; no subclasses.
_COLUMNS: dict[Callable[[Any], bool], Callable[[Collection[Any]], bool]] = {
    _is_text: _are_texts,
    _is_count: _are_counts,
    _is_names: _are_lists_of_names,
    _is_pairs: _are_pairs,
}
