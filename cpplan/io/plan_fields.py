"""The JSON type of every field of a plan, so that a malformed file is refused as a whole."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import is_dataclass, replace
from functools import cache
from operator import add
from types import NoneType
from typing import Any, get_args

from cpplan.io.codec import Form, form_of, forms
from cpplan.model.certificates import KINDS, CutDuals
from cpplan.model.errors import InputError
from cpplan.model.names import check_names
from cpplan.model.plan import Plan
from cpplan.model.plan_data import RelationKind
from cpplan.model.printable import quote
from cpplan.model.problem import Gap
from cpplan.verification.pool_objective import OBJECTIVES

_LIMIT = 2**63  # columns are 64-bit integers

# In every file, in this order, with what follows from the fields and is written for other readers.
# A field that is not among them is left out where it has its default value.
ALWAYS = (
    "name", "status", "peak", "lower_bound", "scope", "gap", "capacity", "method", "found_by",
    "bound_by", "message", "residency", "order", "cost", "base_cost", "cost_bound", "cost_bound_by",
    "pools", "objective", "objective_value", "objective_bound", "buffers", "gaps", "views",
    "inputs", "outputs", "sharing", "relations",
)  # fmt: skip
# Read before the fields, or by a function of their own.
_HEAD = ("format", "version", "symbols")
# Left out of a pool where it is false.
_LATER = ("direct", "engine")
_DERIVED = {
    "gap": form_of(float | None),
    "method": form_of(str | None),
    "moved_bytes": form_of(int | None),
}
_TEXT, _INTEGER = form_of(str), form_of(int)
_BUFFER: dict[str, Form] = {
    "name": _TEXT,
    "size": _INTEGER,
    "lower": _INTEGER,
    "upper": _INTEGER,
    "offset": form_of(int | None),
    "pool": _TEXT,
}
# What messages call an item of a list.
_ITEMS = {
    "order": "order: an op",
    "pools": "pool",
    "relations": "relation",
    "history": "history: event",
}
_WORDS = {
    str: "a string",
    int: "an integer",
    bool: "true or false",
    dict: "an object",
    list: "a list",
}


@cache
def plan_forms() -> Mapping[str, Form]:
    """Form of every field of a plan that is one key of its JSON."""
    columns = ("size", "lower", "upper", "offset", "pool", "symbols")
    known = {name: form for name, form in forms(Plan).items() if name not in columns}
    return {**known, "buffers": Form((list,)), "gaps": Form((dict,)), "views": Form((dict,))}


def check_fields(values: Mapping[str, Any]) -> None:
    """Check that every field of a plan read from JSON is there and of its type.

    Raises
    ------
    InputError
        Names the field and the type expected.
    """
    known = {**plan_forms(), **_DERIVED}
    _check_keys("", values, {*_HEAD, *known})
    required = [key for key in ALWAYS if key not in _DERIVED]
    _check_object("", values, {key: known[key] for key in required})
    _check_object("", values, {key: form for key, form in known.items() if key in values})
    known["objective"] = replace(known["objective"], words=tuple(OBJECTIVES))
    for key, form in known.items():
        if key in values:
            _check_items(key, values[key], form)
    value, bound = values["objective_value"], values["objective_bound"]
    if (bound and len(bound) != len(value)) or bound > value or min([0, *value, *bound]) < 0:
        raise InputError(
            "not a valid plan: objective_bound must be as long as objective_value and no larger, "
            f"and both non-negative, not {bound} and {value}"
        )
    for kind in (*values["sharing"], *(relation[0] for relation in values["relations"])):
        if kind not in get_args(RelationKind):
            kinds = ", ".join(get_args(RelationKind))
            raise InputError(f"a relation's kind is {kind!r}: expected one of {kinds}")
    for name, gaps in values["gaps"].items():
        for gap in gaps if isinstance(gaps, list) else [gaps]:
            _check_row(f"gap of {name!r}", gap, form_of(Gap))
    for name, place in values["views"].items():
        _check_row(f"view {name!r}", place, form_of(tuple[str, int]))


def _check_items(key: str, value: Any, form: Form) -> None:
    """Check what a field holds, but for what has a reader of its own, which checks it."""
    if value is None:
        return
    if form.words and value not in form.words:
        raise InputError(f"{key} {value!r}: expected one of {', '.join(form.words)}")
    if form.made is not None and is_dataclass(form.made):
        _check_made(key, value, form.made)
    if form.kinds:
        _check_kind(key, value, form.kinds)
    item, what = form.item, _ITEMS.get(key, key)
    if item is None or item.words:
        return
    if item.types == (str,):
        for part in value:
            if type(part) is not str:  # there may be a million
                _check(what, part, item)
        check_names("order: an op's name" if key == "order" else f"{key}: a name", value)
        return
    for number, part in enumerate(value):
        if item.made is not None and is_dataclass(item.made):
            _check_made(f"{what} {number}", part, item.made)
        elif item.row:
            _check_row(f"{what} {number}", part, item)
        elif item.made is None:
            _check(what, part, item)
            _check_items(what, part, item)


def _check_kind(key: str, values: Any, kinds: Sequence[type]) -> None:
    """Check an object whose field ``kind`` names what is made of it."""
    made = KINDS.get(str(values.get("kind")))
    if made not in kinds:
        names = " or ".join(repr(name) for name, kind in KINDS.items() if kind in kinds)
        raise InputError(f"not a valid plan: {key} must be an object of kind {names}")
    if made is CutDuals:
        return  # ``read_cut_duals`` checks it
    required = forms(made)
    if set(values) != {"kind", *required}:
        raise InputError(
            f"not a valid plan: {key} must hold kind, {', '.join(required)} and nothing else"
        )
    _check_object(key, values, required)
    for name, form in required.items():
        _check_items(f"{key}: {name}", values[name], form)


def _check_made(where: str, values: Any, kind: type) -> None:
    """Check the object that a dataclass is made of."""
    required = {key: form for key, form in forms(kind).items() if key not in _LATER}
    _check_object(where, values, required)
    for key, form in required.items():
        _check_items(f"{where}: {key}", values[key], form)
    if len(values) > len(required) + sum(key in values for key in _LATER):
        raise InputError(f"{where}: expected {', '.join(required)} and nothing else")


def buffer_columns(rows: list[Any]) -> dict[str, list[Any]]:
    """The columns of a plan's buffers."""
    columns = right_columns(rows)
    for number, row in enumerate(rows if columns is None else ()):
        _check_object(f"buffer {number}", row, _BUFFER)
        _check_keys(f"buffer {number}", row, _BUFFER.keys())
        if row["offset"] is not None and row["offset"] + row["size"] >= _LIMIT:
            raise InputError(f"not a valid plan: buffer {number}: must end below 2**63")
    return columns or {key: [row[key] for row in rows] for key in _BUFFER}


def right_columns(rows: list[Any]) -> dict[str, list[Any]] | None:
    """The columns of buffers; ``None`` if a row breaks a rule, which is told of all at once."""
    if not set(map(type, rows)) <= {dict}:
        return None
    # Mostly there is one list of keys for all.
    if not all(_BUFFER.keys() == set(keys) for keys in set(map(tuple, rows))):
        return None
    columns = {key: [row[key] for row in rows] for key in _BUFFER}
    if not all(set(map(type, columns[key])) <= _types(form) for key, form in _BUFFER.items()):
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
                f"not a valid plan: gap is {gap!r}, but {_gap_fields(plan)} make {plan.gap!r}"
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


def _check_object(where: str, values: Any, fields: Mapping[str, Form]) -> None:
    if not isinstance(values, Mapping):
        raise InputError(f"not a valid plan: {where} must be an object, not {values!r}")
    for key, form in fields.items():
        what = f"{where}: {key}" if where else key
        if key not in values:
            raise InputError(f"not a valid plan: {what} is missing")
        _check(what, values[key], form)


def _check_keys(where: str, values: Mapping[str, Any], known: AbstractSet[str]) -> None:
    stray = next((key for key in values if key not in known), None)
    if stray is not None:
        place = f"{where}: " if where else ""
        raise InputError(f"not a valid plan: {place}unknown key {quote(stray)}")


def _check_row(what: str, values: Any, form: Form) -> None:
    wanted = form.row
    if not isinstance(values, list) or len(values) != len(wanted):
        raise InputError(
            f"not a valid plan: {what} must be a list of {len(wanted)}, not {values!r}"
        )
    for value, item in zip(values, wanted, strict=True):
        _check(what, value, item)


def _types(form: Form) -> set[type]:
    return {*form.types, NoneType} if form.null else {*form.types}


def _check(what: str, value: Any, form: Form) -> None:
    flag = isinstance(value, bool) and bool not in form.types
    if flag or not isinstance(value, tuple(_types(form))):
        wanted = "a number" if float in form.types else _WORDS[form.types[0]]
        null = " or null" if form.null else ""
        raise InputError(f"not a valid plan: {what} must be {wanted}{null}, not {quote(value)}")
    number = float in form.types
    limit, text = (sys.float_info.max, "finite") if number else (_LIMIT, "below 2**63")
    if isinstance(value, (int, float)) and not abs(value) < limit:
        raise InputError(f"not a valid plan: {what} must be {text}, not {quote(value)}")


def _gap_fields(plan: Plan) -> str:
    """Names of the value and of the bound from which a plan's gap follows."""
    if plan.time_bound is not None:
        return "time and time_bound"
    if plan.moved_bytes_bound is not None:
        return "moved_bytes and moved_bytes_bound"
    if plan.objective_value:
        return "objective_value and objective_bound"
    return "peak and lower_bound"
