"""Ranges and values of variables, and their checks."""

from __future__ import annotations

from collections.abc import Mapping
from operator import index
from typing import NamedTuple

from cpplan.model.errors import InputError
from cpplan.model.printable import quote


class Range(NamedTuple):
    """The integers from ``lower`` to ``upper``, both included; ``None`` for no bound."""

    lower: int | None = 0
    upper: int | None = None


def check_value(name: str, value: int, within: Range) -> None:
    """Raise unless a value is an integer within the range of its variable.

    Raises
    ------
    InputError
        Names the variable, the value and the bound.
    """
    value = _integer(name, value)
    if within.lower is not None and value < within.lower:
        raise InputError(
            f"dimension {name!r} is {quote(value)}, below its lower bound {quote(within.lower)}"
        )
    if within.upper is not None and value > within.upper:
        raise InputError(
            f"dimension {name!r} is {quote(value)}, above its upper bound {quote(within.upper)}"
        )


def read_value(name: str, values: Mapping[str, int]) -> int:
    """The value of a variable."""
    if name not in values:
        raise InputError(f"dimension {name!r} has no value")
    return _integer(name, values[name])


def read_range(name: str, ranges: Mapping[str, Range]) -> Range:
    """The range of a variable."""
    if name not in ranges:
        raise InputError(f"dimension {name!r} has no range")
    lower, upper = ranges[name]
    if lower is not None and upper is not None and lower > upper:
        raise InputError(
            f"dimension {name!r}: lower bound {quote(lower)} is above upper bound {quote(upper)}"
        )
    return Range(lower, upper)


def _integer(name: str, value: object) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InputError(f"dimension {name!r} must be an integer, not {quote(value)}")
    return index(value)
