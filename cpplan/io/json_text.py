"""JSON text as ``json.dumps(…, indent=1)`` writes it, for values with long lists.

The library indents by Python code, item by item; its quick encoder writes one line only. Here a
long list is encoded at once, and a template lays out its lines.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import chain
from types import NoneType
from typing import Any

_SCALARS = {str, int, float, bool, NoneType}


def indented(values: Mapping[str, Any]) -> str:
    r"""An object as JSON text, its fields indented by one."""
    return f"{{\n{indented_fields(values)}\n}}" if values else "{}"


def indented_fields(values: Mapping[str, Any]) -> str:
    """The fields of an object as JSON text, one or more lines each, without its braces."""
    return ",\n".join(f" {json.dumps(key)}: {_field(value)}" for key, value in values.items())


def quoted(values: Sequence[str | float | None]) -> list[str]:
    """Names and numbers as JSON, one text each."""
    # No string has a line end in it, so that it can part them.
    return json.dumps(values, separators=("\n", ":"))[1:-1].split("\n") if values else []


def _field(value: Any) -> str:
    """Text of a field's value; quick for long lists."""
    if isinstance(value, list) and value:
        kinds = set(map(type, value))
        if kinds == {str}:
            return "[\n  " + ",\n  ".join(quoted(value)) + "\n ]"
        rows = _objects(value) if kinds == {dict} else _lists(value, [""] * len(value))
        if rows is not None:
            return f"[\n{rows}\n ]"
    if isinstance(value, dict) and set(map(type, value)) == {str}:
        keys = [f"{key}: " for key in quoted([*value])]
        if (rows := _lists([*value.values()], keys)) is not None:
            return f"{{\n{rows}\n }}"
    return json.dumps(value, indent=1).replace("\n", "\n ")


def _objects(rows: Sequence[dict[str, Any]]) -> str | None:
    """Text of objects with the same keys and no lists or objects; ``None`` if they are not such."""
    keys = tuple(rows[0])
    if not keys or set(map(tuple, rows)) != {keys} or set(map(type, keys)) != {str}:
        return None
    flat: list[Any] = list(chain.from_iterable(row.values() for row in rows))
    if not set(map(type, flat)) <= _SCALARS:
        return None
    fields = (f"   {json.dumps(key).replace('%', '%%')}: %s" for key in keys)
    row = "  {\n" + ",\n".join(fields) + "\n  }"
    return ",\n".join([row] * len(rows)) % tuple(quoted(flat))


def _lists(rows: Sequence[Any], keys: Sequence[str]) -> str | None:
    """Text of lists of names and numbers, as many in each; ``None`` if they are not such."""
    if set(map(type, rows)) != {list}:
        return None
    flat, length = list(chain.from_iterable(rows)), len(rows[0])
    if set(map(len, rows)) != {length} or not length or not set(map(type, flat)) <= _SCALARS:
        return None
    row = "  %s[\n   " + ",\n   ".join(["%s"] * length) + "\n  ]"
    columns = [iter(quoted(flat))] * length
    values = zip(keys, *columns, strict=True)
    return ",\n".join([row] * len(rows)) % tuple(chain.from_iterable(values))
