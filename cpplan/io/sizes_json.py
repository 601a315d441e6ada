"""Plans for several sizes as JSON: ``{"format": "cpplan.sizes", "version": 1, …, "plan": …}``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from typing import Any, get_args

from cpplan.io.codec import forms
from cpplan.io.plan_json import format_plan, plan_from_dict, plan_to_dict
from cpplan.model.errors import InputError, located
from cpplan.model.plan import Plan
from cpplan.model.plan_data import Status
from cpplan.model.printable import quote
from cpplan.runtime.atomic import write_text
from cpplan.runtime.json_file import read_json
from cpplan.solving.sizes.sizes_plan import PlannedLevel, PlannedSize, SizesPlan

FORMAT, VERSION = "cpplan.sizes", 1
_LIMIT = 2**63  # columns are 64-bit integers
_WANTED: dict[tuple[type, ...], str] = {
    (int,): "a count below 2**63",
    (str,): "a string",
    (dict,): "an object",
}


def save_sizes(sizes: SizesPlan, path: str | PathLike[str], *, clock: bool = False) -> None:
    """Write a plan for several sizes as JSON, whole or not at all."""
    write_text(path, format_sizes_json(sizes, clock=clock))


def load_sizes(path: str | PathLike[str]) -> SizesPlan:
    """The plan for several sizes that :func:`save_sizes` wrote."""
    values = read_json(path)
    with located(path):
        return sizes_from_dict(values)


def sizes_to_dict(sizes: SizesPlan, *, clock: bool = False) -> dict[str, Any]:
    """JSON-ready values; ``clock=True`` adds ``runtime``."""
    values: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "name": sizes.plan.name,
        "status": sizes.status,
        "levels": [level._asdict() for level in sizes.levels],
        "sizes": [
            {**size._asdict(), "values": dict(size.values), "price": size.price}
            for size in sizes.sizes
        ],
        "plan": plan_to_dict(sizes.plan),
    }
    if clock:
        values["runtime"] = sizes.runtime
    return values


def format_sizes_json(sizes: SizesPlan, *, clock: bool = False) -> str:
    """JSON text, one size and one buffer a line."""
    values = sizes_to_dict(sizes, clock=clock)
    head = {key: value for key, value in values.items() if key not in ("sizes", "plan")}
    rows = ",\n".join(f"  {json.dumps(row)}" for row in values["sizes"])
    plan = format_plan(values["plan"])
    return f'{json.dumps(head, indent=1)[:-2]},\n "sizes": [\n{rows}\n ],\n "plan": {plan}}}\n'


def sizes_from_dict(values: Mapping[str, Any]) -> SizesPlan:
    """Read a plan for several sizes from the values of :func:`sizes_to_dict`.

    Raises
    ------
    InputError
        If the values are none of this version; names what is wrong.
    """
    if not isinstance(values, Mapping) or values.get("format") != FORMAT:
        raise InputError(
            f'not a plan for several sizes: expected a JSON object with "format": {FORMAT!r}'
        )
    version = values.get("version")
    if version != VERSION or type(version) is not int:  # True == 1 == 1.0
        raise InputError(f"sizes version {version!r} is not understood: expected {VERSION}")
    for key in ("status", "levels", "sizes", "plan"):
        if key not in values:
            raise InputError(f"not a plan for several sizes: {key} is missing")
    if values["status"] not in get_args(Status):
        known = ", ".join(get_args(Status))
        raise InputError(f"status {quote(values['status'])}: expected one of {known}")
    plan = plan_from_dict(values["plan"])
    sizes = tuple(_size(k, row, plan) for k, row in enumerate(_rows("sizes", values["sizes"])))
    if plan.symbols is None or [dict(s.values) for s in sizes] != [*map(dict, plan.symbols.sizes)]:
        raise InputError("sizes: expected those that the plan is for")
    runtime = values.get("runtime")
    if runtime is not None and (isinstance(runtime, bool) or not isinstance(runtime, (int, float))):
        raise InputError(f"runtime must be a number or null, not {quote(runtime)}")
    levels = tuple(_level(k, row) for k, row in enumerate(_rows("levels", values["levels"])))
    return SizesPlan(values["status"], sizes, levels, plan, runtime)


def _size(number: int, row: Mapping[str, Any], plan: Plan) -> PlannedSize:
    place = f"size {number}"
    _check_keys(place, row, (*PlannedSize._fields, "price"))
    given = row["values"]
    _check_values(place, row, PlannedSize)
    size = PlannedSize(**{key: row[key] for key in PlannedSize._fields})
    if (size.arena is None) != (plan.offset is None):
        raise InputError(f"{place}: arena is {size.arena!r}, which contradicts the plan")
    if size.arena is not None and size.arena != plan.at(given).peak:
        raise InputError(
            f"{place}: arena is {size.arena} B, but the plan needs {plan.at(given).peak} B"
        )
    if row["price"] != size.price:
        raise InputError(f"{place}: price is {quote(row['price'])}, not {size.price!r}")
    return size


def _level(number: int, row: Mapping[str, Any]) -> PlannedLevel:
    place = f"level {number}"
    _check_keys(place, row, PlannedLevel._fields)
    _check_values(place, row, PlannedLevel)
    return PlannedLevel(**row)


def _rows(what: str, rows: Any) -> list[Any]:
    if not isinstance(rows, list):
        raise InputError(f"{what} must be a list, not {quote(rows)}")
    return rows


def _check_keys(place: str, row: Any, keys: tuple[str, ...]) -> None:
    if not isinstance(row, Mapping) or {*row} != {*keys}:
        raise InputError(f"{place}: expected an object with {', '.join(keys)}")


def _check_values(place: str, row: Mapping[str, Any], kind: type) -> None:
    """Check the values of a row against the fields of the named tuple made of it."""
    for key, form in forms(kind).items():
        value = row[key]
        if value is None and form.null:
            continue
        count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LIMIT
        if not (count if form.types == (int,) else isinstance(value, form.types)):
            raise InputError(f"{place}: {key} must be {_WANTED[form.types]}, not {quote(value)}")
