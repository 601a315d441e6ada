"""The JSON type of every field of a graph, so that a malformed file is refused as a whole."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping
from typing import Any

from cpplan.model.errors import InputError


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _is_names(value: Any) -> bool:
    return _is_list(value) and (set(map(type, value)) <= {str} or all(map(_is_text, value)))


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
TENSOR_FIELDS: dict[str, Field] = {
    "name": _TEXT,
    "size": _COUNT,
    "shape": (
        lambda value: _is_list(value) and all(map(_is_extent, value)),
        "a list of non-negative integers, or of expressions as text",
    ),
    "dtype": _TEXT,
    "kind": _TEXT,
    "alignment": _COUNT,
    "view_of": (_is_view, 'a name or ["name", byte offset]'),
    "pools": _NAMES,
}
OP_FIELDS: dict[str, Field] = {
    "name": _TEXT,
    "kind": _TEXT,
    "inputs": _NAMES,
    "outputs": _NAMES,
    "workspaces": _NAMES,
    "cost": (_is_number, "a number"),
    "recomputable": (lambda value: isinstance(value, bool), "true or false"),
    "in_place": (_is_pairs, "a list of [output, input] pairs"),
    "placements": (_is_placements, 'a list of ["part", "whole", byte offset]'),
    "bodies": _LIST,
    "after": _NAMES,
    "sequence": _TEXT,
}


def check_fields(
    values: Any, place: str, fields: Mapping[str, Field], required: tuple[str, ...]
) -> None:
    """Check that an object has the required keys, no unknown ones, and values of the right type.

    Raises
    ------
    InputError
        Names the place, the key and what was expected.

    Examples
    --------
    >>> check_fields({"name": "x", "size": -1}, "tensor 'x'", TENSOR_FIELDS, ("name",))
    Traceback (most recent call last):
    ...
    cpplan.model.errors.InputError: tensor 'x': size must be a non-negative integer, not -1
    """
    fault = find_fault(values, fields, required)
    if fault is not None:
        raise InputError(f"{place}: {fault}")


def find_fault(values: Any, fields: Mapping[str, Field], required: tuple[str, ...]) -> str | None:
    """The first thing wrong with an object, as :func:`check_fields` says it; ``None`` if nothing.

    Examples
    --------
    >>> find_fault({"size": 8}, TENSOR_FIELDS, ("name",))
    "missing key 'name'"
    """
    if type(values) is not dict and not isinstance(values, Mapping):
        return f"expected an object, not {reprlib.repr(values)}"
    for key in required:
        if key not in values:
            return f"missing key {key!r}"
    for key, value in values.items():
        field = fields.get(key)
        if field is None:
            return f"unknown key {reprlib.repr(key)}: expected one of {', '.join(fields)}"
        if not field[0](value):
            return f"{key} must be {field[1]}, not {reprlib.repr(value)}"
    return None
