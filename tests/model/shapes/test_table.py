"""Many expressions at once give what each gives alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.random_expressions import NAMES, draw_values, texts

from cpplan.model.errors import InputError
from cpplan.model.shapes import Dim, ShapeTable, parse_dim, variable

n, m = variable("n"), variable("m")


@given(st.lists(texts(), max_size=12), st.integers(0, 99))
def test_table_evaluates_as_each_expression_alone(found: list[str], seed: int) -> None:
    expressions = [parse_dim(text) for text in found]
    table = ShapeTable(expressions)
    for values in draw_values(dict.fromkeys(NAMES, (-3, 3)), 12, seed):
        numbers = table.evaluate(values)
        assert numbers.dtype == np.int64
        assert numbers.shape == (len(expressions),)
        assert numbers.tolist() == [
            e.evaluate(values) if isinstance(e, Dim) else e for e in expressions
        ]


def test_only_what_changed_is_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    table = ShapeTable([4 * n, 4 * n + m, 4 * m, (n + 1) // 2, 7])
    computed: list[int] = []
    compute = table._compute
    monkeypatch.setattr(
        table, "_compute", lambda nodes, given: (computed.append(len(nodes)), compute(nodes, given))
    )
    first = table.evaluate({"n": 3, "m": 5})
    assert first.tolist() == [12, 17, 20, 2, 7]
    assert table.evaluate({"n": 3, "m": 5, "other": 1}) is first
    # m itself, 4*n + m, 4*m
    assert table.evaluate({"n": 3, "m": 6}).tolist() == [12, 18, 24, 2, 7]
    assert computed[1:] == [3]
    assert first.tolist() == [12, 17, 20, 2, 7]
    assert not first.flags.writeable


def test_equal_expressions_are_one() -> None:
    alone, twice = ShapeTable([8 * n]), ShapeTable([8 * n, 4 * n + 4 * n, parse_dim("n*8")])
    assert len(alone._nodes) == len(twice._nodes)
    assert twice.evaluate({"n": 2}).tolist() == [16, 16, 16]


def test_nothing_and_integers_only() -> None:
    assert ShapeTable([]).evaluate({}).tolist() == []
    assert ShapeTable([3, -4]).evaluate({}).tolist() == [3, -4]
    assert ShapeTable([3, -4]).variables == ()


def test_values_beyond_64_bits_are_named() -> None:
    table = ShapeTable([n, n * n, n * n // n])
    assert table.evaluate({"n": 2**31}).tolist() == [2**31, 2**62, 2**31]
    with pytest.raises(InputError, match=rf"n\*n is {2**64}: expected 64 bits"):
        table.evaluate({"n": 2**32})
    assert table.evaluate({"n": 3}).tolist() == [3, 9, 3]
    # Only on the way is it large.
    assert ShapeTable([n * n // 2**40]).evaluate({"n": 2**40}).tolist() == [2**40]
    assert ShapeTable([n]).evaluate({"n": -(2**63)}).tolist() == [-(2**63)]


def test_a_zero_divisor_is_named_and_forgotten() -> None:
    table = ShapeTable([n, 8 // (n - m)])
    with pytest.raises(InputError, match="the divisor m - n is 0 at m = 2, n = 2"):
        table.evaluate({"n": 2, "m": 2})
    assert table.evaluate({"n": 4, "m": 2}).tolist() == [4, 4]


@pytest.mark.parametrize("value", [True, 1.5, "n", None])
def test_what_is_no_expression(value: object) -> None:
    with pytest.raises(InputError, match="expression 1 must be an int or a Dim"):
        ShapeTable([n, value])  # type: ignore[list-item]


def test_values_that_are_none() -> None:
    table = ShapeTable([n + m])
    with pytest.raises(InputError, match="dimension 'm' has no value"):
        table.evaluate({"n": 1})
    with pytest.raises(InputError, match=r"dimension 'm' must be an integer, not 2\.0"):
        table.evaluate({"n": 1, "m": 2.0})  # type: ignore[dict-item]
