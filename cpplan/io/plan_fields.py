"""The JSON type of every field of a plan, so that a malformed file is refused as a whole."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from operator import add
from typing import Any, get_args

from cpplan.model.errors import InputError
from cpplan.model.names import check_names
from cpplan.model.plan import Plan, RelationKind, Scope, Status
from cpplan.model.printable import quote
from cpplan.verification.pool_objective import OBJECTIVES

_Types = tuple[type, ...]

_LIMIT = 2**63  # columns are 64-bit integers

_TEXT: _Types = (str,)
_TEXT_OR_NULL: _Types = (str, type(None))
_INTEGER: _Types = (int,)
_INTEGER_OR_NULL: _Types = (int, type(None))
_NUMBER: _Types = (int, float)
_NUMBER_OR_NULL: _Types = (int, float, type(None))

_PLAN: dict[str, _Types] = {
    "name": _TEXT,
    "status": _TEXT,
    "peak": _INTEGER_OR_NULL,
    "lower_bound": _INTEGER_OR_NULL,
    "scope": _TEXT,
    "capacity": _INTEGER_OR_NULL,
    "found_by": _TEXT_OR_NULL,
    "bound_by": _TEXT_OR_NULL,
    "message": _TEXT_OR_NULL,
    "residency": (dict,),
    "order": (list,),
    "cost": _NUMBER_OR_NULL,
    "base_cost": _NUMBER_OR_NULL,
    "cost_bound": _NUMBER_OR_NULL,
    "cost_bound_by": _TEXT_OR_NULL,
    "buffers": (list,),
    "gaps": (dict,),
    "views": (dict,),
    "pools": (list,),
    "objective": _TEXT,
    "objective_value": (list,),
    "objective_bound": (list,),
    "inputs": (list,),
    "outputs": (list,),
    "sharing": (list,),
    "relations": (list,),
}
# Left out where there is nothing to say.
_OPTIONAL: dict[str, _Types] = {
    "first": (list,),
    "last": (list,),
    "certificate": (dict, type(None)),
    "pieces": (list,),
    "copied_bytes": _INTEGER_OR_NULL,
    "moves": (list,),
    "moved_bytes_bound": _INTEGER_OR_NULL,
    "moved_bytes_bound_by": _TEXT_OR_NULL,
    "moved_certificate": (dict, type(None)),
    "time": _NUMBER_OR_NULL,
    "time_bound": _NUMBER_OR_NULL,
    "time_bound_by": _TEXT_OR_NULL,
    "cost_certificate": (dict, type(None)),
}
# Fields that follow from others, written for readers of the file other than cpplan.
_DERIVED: dict[str, _Types] = {
    "gap": _NUMBER_OR_NULL,
    "method": _TEXT_OR_NULL,
    "moved_bytes": _INTEGER_OR_NULL,
}
_CLOCK: dict[str, _Types] = {"runtime": _NUMBER_OR_NULL, "history": (list,)}
_BUFFER: dict[str, _Types] = {
    "name": _TEXT,
    "size": _INTEGER,
    "lower": _INTEGER,
    "upper": _INTEGER,
    "offset": _INTEGER_OR_NULL,
    "pool": _TEXT,
}
_POOL: dict[str, _Types] = {
    "name": _TEXT,
    "capacity": _INTEGER_OR_NULL,
    "alignment": _INTEGER,
    "base": _INTEGER,
    "kind": _TEXT,
    "cost_per_byte": _NUMBER,
    "read_bandwidth": _NUMBER_OR_NULL,
    "write_bandwidth": _NUMBER_OR_NULL,
    "read_latency": _NUMBER,
    "write_latency": _NUMBER,
}
_RESIDENCY = {"inputs": _TEXT, "outputs": _TEXT, "constants": _TEXT}
_PIECES: dict[str, _Types] = {"op": _TEXT, "axes": (list,), "cuts": (list,)}
_EVENT = ((int, float), _INTEGER_OR_NULL, _INTEGER_OR_NULL, _TEXT)
_WORDS = {str: "a string", int: "an integer", float: "a number", dict: "an object", list: "a list"}


def check_fields(values: Mapping[str, Any]) -> None:
    """Check that every field of a plan read from JSON is there and of its type.

    Raises
    ------
    InputError
        Names the field and the type expected.

    Examples
    --------
    >>> check_fields({"name": 12})
    Traceback (most recent call last):
    ...
    cpplan.model.errors.InputError: not a valid plan: name must be a string, not 12
    """
    _check_object("", values, _PLAN)
    optional = {**_CLOCK, **_DERIVED, **_OPTIONAL}
    _check_object("", values, {key: optional[key] for key in optional if key in values})
    for name in values["order"]:
        _check("order: an op", name, _TEXT)
    check_names("order: an op's name", values["order"])
    for key in ("inputs", "outputs", "first", "last"):
        for name in values.get(key, ()):
            _check(key, name, _TEXT)
        check_names(f"{key}: a name", values.get(key, ()))
    known = {"status": get_args(Status), "scope": get_args(Scope), "objective": OBJECTIVES}
    for key, names in known.items():
        if values[key] not in names:
            raise InputError(f"{key} {values[key]!r}: expected one of {', '.join(names)}")
    for key in ("objective_value", "objective_bound"):
        for value in values[key]:
            _check(key, value, _NUMBER)
    value, bound = values["objective_value"], values["objective_bound"]
    if (bound and len(bound) != len(value)) or bound > value or min([0, *value, *bound]) < 0:
        raise InputError(
            "not a valid plan: objective_bound must be as long as objective_value and no larger, "
            f"and both non-negative, not {bound} and {value}"
        )
    for number, pool in enumerate(values["pools"]):
        _check_object(f"pool {number}", pool, _POOL)
        if len(pool) > len(_POOL) + ("direct" in pool) + ("engine" in pool):
            raise InputError(f"pool {number}: expected {', '.join(_POOL)} and nothing else")
    for number, relation in enumerate(values["relations"]):
        _check_list(f"relation {number}", relation, (_TEXT, _TEXT, _TEXT, _INTEGER))
    for kind in (*values["sharing"], *(relation[0] for relation in values["relations"])):
        if kind not in get_args(RelationKind):
            kinds = ", ".join(get_args(RelationKind))
            raise InputError(f"a relation's kind is {kind!r}: expected one of {kinds}")
    _check_object("residency", values["residency"], _RESIDENCY)
    if len(values["residency"]) > len(_RESIDENCY):
        raise InputError(f"residency: expected {', '.join(_RESIDENCY)} and nothing else")
    for number, pieces in enumerate(values.get("pieces", ())):
        _check_object(f"pieces {number}", pieces, _PIECES)
        if len(pieces) > len(_PIECES):
            raise InputError(f"pieces {number}: expected {', '.join(_PIECES)} and nothing else")
    for name, gaps in values["gaps"].items():
        for gap in gaps if isinstance(gaps, list) else [gaps]:
            _check_list(f"gap of {name!r}", gap, (_INTEGER,) * 4)
    for name, place in values["views"].items():
        _check_list(f"view {name!r}", place, (_TEXT, _INTEGER))
    for number, event in enumerate(values.get("history", ())):
        _check_list(f"history: event {number}", event, _EVENT)


def buffer_columns(rows: list[Any]) -> dict[str, list[Any]]:
    """The columns of a plan's buffers.

    Raises
    ------
    InputError
        Names the buffer, the field and the type expected.

    Examples
    --------
    >>> buffer_columns([{"name": 12}])
    Traceback (most recent call last):
    ...
    cpplan.model.errors.InputError: not a valid plan: buffer 0: name must be a string, not 12
    """
    columns = right_columns(rows)
    for number, row in enumerate(rows if columns is None else ()):
        _check_object(f"buffer {number}", row, _BUFFER)
        if row["offset"] is not None and row["offset"] + row["size"] >= _LIMIT:
            raise InputError(f"not a valid plan: buffer {number}: must end below 2**63")
    return columns or {key: [row[key] for row in rows] for key in _BUFFER}


def right_columns(rows: list[Any]) -> dict[str, list[Any]] | None:
    """The columns of buffers; ``None`` if a row breaks a rule, which is told of all at once.

    Examples
    --------
    >>> row = {"name": "a", "size": 8, "lower": 0, "upper": 1, "offset": 0, "pool": "sram"}
    >>> right_columns([row])["size"]
    [8]
    >>> right_columns([{**row, "size": "8"}])
    """
    if not set(map(type, rows)) <= {dict}:
        return None
    # Mostly there is one list of keys for all.
    if not all(_BUFFER.keys() <= set(keys) for keys in set(map(tuple, rows))):
        return None
    columns = {key: [row[key] for row in rows] for key in _BUFFER}
    if not all(set(map(type, columns[key])) <= set(types) for key, types in _BUFFER.items()):
        return None
    offsets = [offset or 0 for offset in columns["offset"]]
    numbers = [offsets, columns["size"], columns["lower"], columns["upper"]]
    if any(max(map(abs, column), default=0) >= _LIMIT for column in numbers):
        return None
    return columns if max(map(add, offsets, columns["size"]), default=0) < _LIMIT else None


def check_derived(values: Mapping[str, Any], plan: Plan) -> None:
    """Check that the derived fields of a file, written for other readers, match the plan.

    Raises
    ------
    InputError
        Names the field, its value and the plan's.
    """
    if "gap" in values:
        gap = values["gap"]
        equal = gap is plan.gap is None
        if gap is not None and plan.gap is not None:
            equal = math.isclose(gap, plan.gap, rel_tol=1e-9, abs_tol=1e-9)
        if not equal:
            raise InputError(
                f"not a valid plan: gap is {gap!r}, but peak and lower_bound make {plan.gap!r}"
            )
    if "moved_bytes" in values and values["moved_bytes"] != plan.moved_bytes:
        raise InputError(
            f"not a valid plan: moved_bytes is {values['moved_bytes']!r}, but its moves make "
            f"{plan.moved_bytes!r}"
        )
    if "method" in values and values["method"] != plan.method:
        raise InputError(
            f"not a valid plan: method is {values['method']!r}, but found_by and bound_by make "
            f"{plan.method!r}"
        )


def _check_object(where: str, values: Any, fields: Mapping[str, _Types]) -> None:
    if not isinstance(values, Mapping):
        raise InputError(f"not a valid plan: {where} must be an object, not {values!r}")
    for key, types in fields.items():
        what = f"{where}: {key}" if where else key
        if key not in values:
            raise InputError(f"not a valid plan: {what} is missing")
        _check(what, values[key], types)


def _check_list(what: str, values: Any, types: tuple[_Types, ...]) -> None:
    if not isinstance(values, list) or len(values) != len(types):
        raise InputError(f"not a valid plan: {what} must be a list of {len(types)}, not {values!r}")
    for value, wanted in zip(values, types, strict=True):
        _check(what, value, wanted)


def _check(what: str, value: Any, types: _Types) -> None:
    if isinstance(value, bool) or not isinstance(value, types):
        wanted = "a number" if float in types else _WORDS[types[0]]
        null = " or null" if type(None) in types else ""
        raise InputError(f"not a valid plan: {what} must be {wanted}{null}, not {quote(value)}")
    limit, text = (sys.float_info.max, "finite") if float in types else (_LIMIT, "below 2**63")
    if isinstance(value, (int, float)) and not abs(value) < limit:
        raise InputError(f"not a valid plan: {what} must be {text}, not {quote(value)}")
