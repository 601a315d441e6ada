"""Byte counts as people read them."""

from __future__ import annotations

import pytest

from cpplan.model.byte_sizes import format_bytes, parse_bytes

UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("count", [100, 999, 1000, 1010, 1023])
def test_a_whole_number_of_a_unit_is_printed_as_it_is(unit: str, count: int) -> None:
    assert format_bytes(count * UNITS[unit]) == f"{count} {unit}"
    assert parse_bytes(format_bytes(count * UNITS[unit])) == count * UNITS[unit]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (10 * 1024 - 1, "10239 B"),
        (10 * 1024, "10.00 KiB"),
        (1023 * 1024 + 511, "1023 KiB"),
        (1023 * 1024 + 512, "1.00 MiB"),
        (2**20 - 1, "1.00 MiB"),
        (2**30 - 1, "1.00 GiB"),
        (5000 * 2**40, "5000 TiB"),
        (2**63 - 1, "8388608 TiB"),
        (-1010 * 1024, "-1010 KiB"),
    ],
)
def test_the_unit_is_the_largest_that_the_rounded_count_reaches(count: int, text: str) -> None:
    assert format_bytes(count) == text


def test_no_byte_count_is_printed_with_an_exponent() -> None:
    counts = [c + d for k in range(1, 630) if (c := int(2 ** (k / 10))) for d in (-1, 0, 1)]
    for count in counts:
        text, unit = format_bytes(count).split()
        assert set(text) <= set("0123456789."), (count, text)
        scale = UNITS.get(unit, 1)
        assert abs(float(text) * scale - count) <= 0.5 * scale, (count, text, unit)
