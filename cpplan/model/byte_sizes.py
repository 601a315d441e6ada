"""Byte counts as people write and read them: ``"256 KiB"`` <-> ``262144``."""

from __future__ import annotations

import re
from numbers import Integral

from cpplan.model.errors import InputError
from cpplan.model.printable import quote

_FACTORS = {
    "": 1,
    "B": 1,
    "K": 1 << 10,
    "KB": 10**3,
    "KIB": 1 << 10,
    "M": 1 << 20,
    "MB": 10**6,
    "MIB": 1 << 20,
    "G": 1 << 30,
    "GB": 10**9,
    "GIB": 1 << 30,
    "T": 1 << 40,
    "TB": 10**12,
    "TIB": 1 << 40,
}
_UNITS = ("KiB", "MiB", "GiB", "TiB")
_LIMIT = 2**63  # limit of 64-bit integers
_MOST_DIGITS = 100
_PATTERN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")


def parse_bytes(text: str | int) -> int:
    """Bytes written as an integer or with a unit (B, KiB, kB, MiB, MB, GiB, GB, TiB, TB).

    Raises
    ------
    InputError
        If the text is not a byte count, or its value is negative, 2**63 or more, or not whole.
    """
    if isinstance(text, Integral) and not isinstance(text, bool):  # NumPy's integers are Integral
        if text < 0:
            raise InputError(f"a byte count cannot be negative: {quote(text)}")
        if text >= _LIMIT:
            raise InputError(f"a byte count must be below 2**63, not {quote(text)}")
        return int(text)
    match = _PATTERN.fullmatch(text) if isinstance(text, str) else None
    if match is None or match[2].upper() not in _FACTORS:
        raise InputError(f"{text!r} is not a byte count: expected e.g. 262144 or '256 KiB'")
    whole, _, fraction = match[1].partition(".")
    if len(match[1]) > _MOST_DIGITS:
        raise InputError(f"{text!r} is not a byte count: it has more than {_MOST_DIGITS} digits")
    # Integer arithmetic: a float would round byte counts above 2**53.
    digits, scale = int(whole + fraction), int("1" + "0" * len(fraction))
    value, rest = divmod(digits * _FACTORS[match[2].upper()], scale)
    if rest:
        raise InputError(f"{text!r} is not a whole number of bytes")
    if value >= _LIMIT:
        raise InputError(f"a byte count must be below 2**63, not {text!r}")
    return value


def format_bytes(count: int | None) -> str:
    """Text of a byte count: exact below 10 KiB, else in a binary unit, never with an exponent.

    Two decimals below 100 of the unit, whole units above.
    """
    if count is None:
        return "unknown"
    if abs(count) < 10 * 1024:
        return f"{count} B"
    power = 1
    # A value that rounds to 1024 of a unit is 1 of the next.
    while power < len(_UNITS) and abs(count) >= (1 << (10 * power + 10)) - (1 << (10 * power - 1)):
        power += 1
    value, unit = count / (1 << (10 * power)), _UNITS[power - 1]
    return f"{value:.0f} {unit}" if abs(value) >= 100 else f"{value:.2f} {unit}"
