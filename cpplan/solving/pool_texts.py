"""``--pool NAME=SIZE,key=value``: memory regions on the command line."""

from __future__ import annotations

from typing import Any

from cpplan.model.byte_sizes import parse_bytes
from cpplan.model.errors import InputError, located
from cpplan.model.names import not_understood
from cpplan.model.pool import Pool, check_pools

_BYTES = ("alignment", "base")
_NUMBERS = ("cost_per_byte", "read_bandwidth", "write_bandwidth", "read_latency", "write_latency")
_SWITCHES = {"true": True, "false": False}
_KEYS = (*_BYTES, *_NUMBERS, "kind", "direct", "engine")


def parse_pools(texts: tuple[str, ...]) -> tuple[Pool, ...] | None:
    """Pools in the order given, or ``None`` if there are none."""
    if not texts:
        return None
    return check_pools([_parse_pool(text) for text in texts])


def _parse_pool(text: str) -> Pool:
    with located(f"--pool {text!r}"):
        return _pool(text)


def _pool(text: str) -> Pool:
    region, *settings = text.split(",")
    name, equals, size = region.partition("=")
    if not name or (equals and not size):
        raise InputError("expected NAME, NAME=SIZE or NAME=SIZE,key=value")
    fields: dict[str, Any] = {"capacity": parse_bytes(size) if size else None}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if key not in _KEYS or not equals:
            raise not_understood(repr(setting), key, _KEYS)
        if key in fields:
            raise InputError(f"{key} is given twice")
        fields[key] = _parse_value(key, value)
    return Pool(name, **fields)


def _parse_value(key: str, value: str) -> str | int | float | bool:
    if key == "kind":
        return value
    if key in _BYTES:
        return parse_bytes(value)
    if key in ("direct", "engine"):
        if value not in _SWITCHES:
            raise InputError(f"{key} must be true or false, not {value!r}")
        return _SWITCHES[value]
    try:
        return float(value)
    except ValueError as error:
        raise InputError(f"{key} must be a number, not {value!r}") from error
