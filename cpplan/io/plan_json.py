"""Plans as JSON: ``{"format": "cpplan.plan", "version": 1, …}``, with one object a buffer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from json.encoder import encode_basestring_ascii
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from cpplan.io.codec import Form, changed_fields, to_json
from cpplan.io.plan_fields import ALWAYS, buffer_columns, check_derived, check_fields, plan_forms
from cpplan.io.plan_rows import BufferColumns, columns_of, read_rows
from cpplan.model.certificates import read_cut_duals
from cpplan.model.errors import InputError, located
from cpplan.model.moves import read_moves
from cpplan.model.names import check_names
from cpplan.model.plan import Plan
from cpplan.model.pool import Pool
from cpplan.model.problem import Gap
from cpplan.runtime.atomic import write_pieces

if TYPE_CHECKING:
    from cpplan.model.symbolic_layout import SymbolicLayout

FORMAT, VERSION = "cpplan.plan", 1
_CLOCK = ("runtime", "history")
# Written together, where one of them says something; ``moved_bytes`` follows from the moves.
_TOGETHER = (
    ("pieces", "copied_bytes"),
    ("moved_bytes", "moved_bytes_bound", "moved_bytes_bound_by", "moves"),
    ("time", "time_bound", "time_bound_by"),
)
# Rows of a text that are held in memory at once.
_ROWS_A_PIECE = 1 << 14
# Of a buffer, and how its line is made from them.
_KEYS = "name", "size", "lower", "upper", "offset", "pool"
_ROW = '  {"name": %s, "size": %s, "lower": %s, "upper": %s, "offset": %s, "pool": %s}'


def plan_to_dict(plan: Plan, *, clock: bool = False) -> dict[str, Any]:
    """A plan as JSON-ready values; ``clock=True`` adds ``runtime`` and ``history``."""
    values = plan_head(plan, clock=clock)
    rows = list(_rows(plan, 0, len(plan.buffers)))
    return {key: rows if key == "buffers" else value for key, value in values.items()}


def plan_text(plan: Plan, *, clock: bool = False) -> Iterator[str]:
    """The text of a plan as JSON, in pieces: that of many rows would need much memory."""
    yield f'{_opening(plan_head(plan, clock=clock))},\n "buffers": [\n'
    for start in range(0, max(1, len(plan.buffers)), _ROWS_A_PIECE):
        stop = min(start + _ROWS_A_PIECE, len(plan.buffers))
        yield (",\n" if start else "") + _format_columns(*_columns(plan, start, stop))
    yield "\n ]\n}\n"


def save_plan(
    plan: Plan, path: str | PathLike[str], source: object = None, *, clock: bool = False
) -> None:
    """Write a plan as JSON, whole or not at all; its ``source`` is not needed."""
    write_pieces(path, plan_text(plan, clock=clock))


def load_plan(path: str | PathLike[str]) -> Plan:
    """The plan that :func:`save_plan` wrote."""
    values, buffers = read_rows(path)
    with located(path):
        return plan_from_dict(values, buffers)


def _rows(plan: Plan, start: int, stop: int) -> Iterator[dict[str, Any]]:
    """The buffers of these rows, as JSON-ready values."""
    for row in zip(*_columns(plan, start, stop), strict=True):
        yield dict(zip(_KEYS, row, strict=True))


def _columns(plan: Plan, start: int, stop: int) -> list[Sequence[Any]]:
    """The values of ``_KEYS`` for the buffers of these rows."""
    part = slice(start, stop)
    offsets = [None] * (stop - start) if plan.offset is None else plan.offset[part].tolist()
    columns = (plan.size[part].tolist(), plan.lower[part].tolist(), plan.upper[part].tolist())
    pools = [plan.pools[k].name for k in plan.pool[part].tolist()]
    return [plan.buffers[part], *columns, offsets, pools]


def plan_head(plan: Plan, *, clock: bool) -> dict[str, Any]:
    """Everything but the buffers, which are an empty list."""
    values: dict[str, Any] = {"format": FORMAT, "version": VERSION}
    own = {
        "pools": list(map(_pool_fields, plan.pools)),
        "buffers": [],
        "gaps": {plan.buffers[k]: to_json(gaps) for k, gaps in plan.gaps.items()},
        "views": dict(zip(plan.views, map(list, plan.views.values()), strict=True)),
        "order": [*plan.order],
    }
    for key in ALWAYS:
        values[key] = own[key] if key in own else to_json(getattr(plan, key))
    others = [name for name in plan_forms() if name not in (*ALWAYS, *_CLOCK)]
    changed = {*changed_fields(plan, others), *(("moves",) if plan.spills else ())}
    for name in others:
        group = next((names for names in _TOGETHER if name in names), (name,))
        if any(key in changed for key in group):
            values |= {key: to_json(getattr(plan, key)) for key in group}
    if plan.symbols is not None:
        from cpplan.io.symbols_json import layout_values

        values["symbols"] = layout_values(plan.symbols)
    if clock:
        values |= {key: to_json(getattr(plan, key)) for key in _CLOCK}
    return values


def _pool_fields(pool: Pool) -> dict[str, Any]:
    """Fields of a pool; ``direct`` and ``engine`` only where they are true."""
    return {k: v for k, v in to_json(pool).items() if v or k not in ("direct", "engine")}


def format_plan(values: Mapping[str, Any]) -> str:
    """JSON text, one buffer a line."""
    rows = _format_columns(*([row[key] for row in values["buffers"]] for key in _KEYS))
    return f'{_opening(values)},\n "buffers": [\n{rows}\n ]\n}}\n'


def _opening(values: Mapping[str, Any]) -> str:
    """The text before the buffers."""
    fields = {key: value for key, value in values.items() if key != "buffers"}
    return json.dumps(fields, indent=1).removesuffix("\n}")


def _format_columns(
    names: Sequence[str],
    sizes: Sequence[int],
    lowers: Sequence[int],
    uppers: Sequence[int],
    offsets: Sequence[int | None],
    pools: Sequence[str],
) -> str:
    """One object a line, as ``json.dumps`` writes it, by a few calls in all."""
    pool_texts = {name: json.dumps(name) for name in set(pools)}
    rows = zip(
        map(encode_basestring_ascii, names), sizes, lowers, uppers,
        ["null" if offset is None else offset for offset in offsets],
        [pool_texts[name] for name in pools], strict=True,
    )  # fmt: skip
    return ",\n".join([_ROW] * len(names)) % tuple(chain.from_iterable(rows))


def plan_from_dict(values: Mapping[str, Any], columns: BufferColumns | None = None) -> Plan:
    """Read a plan from the values of :func:`plan_to_dict`; ``columns`` are its buffers if given.

    Raises
    ------
    InputError
        If the values are not a plan of this version; names what is wrong.
    """
    if not isinstance(values, Mapping) or values.get("format") != FORMAT:
        raise InputError(f'not a plan: expected a JSON object with "format": {FORMAT!r}')
    version = values.get("version")
    if version != VERSION or type(version) is not int:  # True == 1 == 1.0
        raise InputError(f"plan version {version!r} is not understood: expected {VERSION}")
    check_fields(values)
    if columns is None:
        columns = columns_of([buffer_columns(values["buffers"])])
    check_names("a buffer's name", columns.name)
    known = plan_forms()
    fields = {key: _read(key, values[key], form) for key, form in known.items() if key in values}
    pools = fields["pools"]
    pool_number = {pool.name: k for k, pool in enumerate(pools)}
    if len(pool_number) < len(pools) or not pools:
        raise InputError("not a valid plan: pools must have different names, and be at least one")
    for k, name in enumerate(columns.pools):
        if name not in pool_number:
            lost = columns.name[int(np.argmax(columns.pool == k))]
            raise InputError(f"buffer {lost!r}: unknown pool {name!r}")
    buffers = tuple(columns.name)
    # Mostly neither needs it, and there may be a million buffers.
    needed = values["gaps"] or values.get("symbols") is not None
    number = {name: k for k, name in enumerate(buffers)} if needed else {}
    stray = next((name for name in values["gaps"] if name not in number), None)
    if stray is not None:
        raise InputError(f"not a valid plan: gaps of unknown buffer {stray!r}")
    placed = bool(buffers) or values["status"] in ("optimal", "feasible")
    fields |= {
        "buffers": buffers,
        "size": columns.size,
        "lower": columns.lower,
        "upper": columns.upper,
        "offset": columns.offset if placed else None,
        "pool": np.array([pool_number[name] for name in columns.pools], np.int64)[columns.pool],
        "gaps": {
            number[name]: tuple(Gap(*g) for g in gaps) for name, gaps in values["gaps"].items()
        },
        "views": {name: (base, at) for name, (base, at) in values["views"].items()},
        "symbols": _symbols(values.get("symbols"), number),
    }
    plan = Plan(**fields)
    check_derived(values, plan)
    return plan


def _read(key: str, value: Any, form: Form) -> Any:
    """A field's value; moves and duals have a JSON form that is not that of their type."""
    if key == "moves":
        return read_moves(value)
    if form.kinds and value is not None and value["kind"] == "cut duals":
        return read_cut_duals(value, key)
    return form.read(value)


def _symbols(values: Any, number: Mapping[str, int]) -> SymbolicLayout | None:
    if values is None:
        return None
    from cpplan.io.symbols_json import read_layout

    return read_layout(values, number)
