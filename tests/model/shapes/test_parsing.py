"""Texts that are read, and texts that are refused with their position."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpplan.model.errors import InputError
from cpplan.model.shapes import Dim, parse_dim, variable


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("-3", -3),
        ("--3", 3),
        ("+3", 3),
        ("007", 7),
        ("2+3*4", 14),
        ("(2+3)*4", 20),
        ("10 - 4 - 3", 3),
        ("100//7//3", 4),
        ("-7//2", -4),
        ("-7 % 3", 2),
        ("7 % -3", -2),
        ("2*-3", -6),
        ("-2**2", -4),
        ("2**0", 1),
        ("max(3, -4)", 3),
        ("min(3, -4, 8)", -4),
        ("ceildiv(7, 2)", 4),
        ("floordiv(-7, 2)", -4),
        ("mod(-7, 2)", 1),
        ("floor(7/2)", 3),
        ("ceil(-7/2)", -3),
        ("floor(1/2 + 1/3 + 1/6)", 1),
        (" \t4611686018427387904 ", 2**62),
    ],
)
def test_integer_expressions_parse_to_int(text: str, value: int) -> None:
    found = parse_dim(text)
    assert found == value
    assert type(found) is int


def test_names_parse_to_variables() -> None:
    for name in ("n", "N", "unk__12", "batch_size", "_", "s0", "maximum", "past_1"):
        assert parse_dim(name) == variable(name)
    assert parse_dim("`batch size`*2") == 2 * variable("batch size")
    assert parse_dim("`a``b`") == variable("a`b")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected a value, not the end at position 1"),
        ("   ", "expected a value, not the end at position 4"),
        ("n +", "expected a value, not the end at position 4"),
        ("n +* 2", "expected a value, not '*' at position 4"),
        ("n 2", "expected an operator, not '2' at position 3"),
        ("(n", "expected ')', not the end at position 3"),
        ("n)", "expected an operator, not ')' at position 2"),
        ("()", "expected a value, not ')' at position 2"),
        ("max(n", "expected ')', not the end at position 6"),
        ("max(n)", "expected two values, not 1, at position 1"),
        ("max(n,)", "expected a value, not ')' at position 7"),
        ("ceildiv(n, 2, 3)", "expected two values, not 3, at position 1"),
        ("floor(n, 2)", "expected one value at position 1"),
        ("(n, 2)", "expected ')', not ',' at position 3"),
        ("n/2", "a fraction at position 1: expected floor or ceil around it"),
        ("1 + max(n/2, 3)", "a fraction at position 5"),
        ("floor(2/n)", "expected a positive integer after '/' at position 8"),
        ("floor(2/0)", "expected a positive integer after '/' at position 8"),
        ("n//0", "the divisor is 0, at position 2"),
        ("n % 0", "the divisor is 0, at position 3"),
        ("4//0", "the divisor is 0, at position 2"),
        ("max + 1", "'max' is no variable at position 1"),
        ("n ** m", "expected an integer of at most 64, not 'm' at position 6"),
        ("n ** 65", "expected an integer of at most 64, not '65' at position 6"),
        ("4611686018427387905", "expected integers of at most 2**62 at position 1"),
        ("n + " + "9" * 4000, "expected integers of at most 2**62 at position 5"),
        ("2n", "'2' is not understood at position 1"),
        ("22n", "'2' is not understood at position 1"),
        ("1.5", "'1' is not understood at position 1"),
        ("1e9", "'1' is not understood at position 1"),
        ("n & 1", "'&' is not understood at position 3"),
        ("`n", "'`' is not understood at position 1"),
        ("``", "'`' is not understood at position 1"),
        ("n ≤ 3", "'≤' is not understood at position 3"),
        ("n\x1b[2J", "'\\x1b' is not understood at position 2"),
    ],
)
def test_syntax_errors_have_a_position(text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_dim(text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("__import__('os').system('true')", 12),
        ("__import__(os)", 1),
        ("__import__", 1),
        ("n.__class__", 2),
        ("().__class__.__bases__", 3),
        ("n.real", 2),
        ("eval(n)", 1),
        ("exec(n)", 1),
        ("open(n)", 1),
        ("n + print(1)", 5),
        ("'n'", 1),
        ('"n"', 1),
        ("f'{n}'", 2),
        ("n[0]", 2),
        ("[n]", 1),
        ("{n}", 1),
        ("lambda: n", 7),
        ("n if n else n", 3),
        ("n; n", 2),
        ("n = 3", 3),
        ("n := 3", 3),
        ("n and m", 3),
        ("n == 3", 3),
        ("n\\\n", 2),
        ("max(*n)", 5),
        ("max(n, key=n)", 11),
        ("9**9**9", 5),
        ("n@n", 2),
    ],
)
def test_nothing_is_executed(text: str, position: int) -> None:
    with pytest.raises(InputError, match=f"at position {position}(:|,|$)"):
        parse_dim(text)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 100_000,
        "(" * 100_000 + "n" + ")" * 100_000,
        "(" * 2000 + "n" + ")" * 2000,
        "max(n," * 600 + "n" + ")" * 600,
        "n*" * 100_000 + "n",
        "".join(f"(a{k} + b{k})*" for k in range(200)) + "n",
        "(a + b)**64*(c + d)**64*(e + f)**64",
        "((n**64)**64)**64",
        "(9**64)**64*n + " * 100 + "(",
    ],
)
def test_what_would_take_forever_is_refused(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_dim(text)
    assert len(str(caught.value)) < 400


def test_many_signs_and_long_sums_are_read() -> None:
    assert parse_dim("-" * 4001 + "n") == -variable("n")
    assert parse_dim("n" + "+n" * 2000) == 2001 * variable("n")


def test_only_text_is_read() -> None:
    for other in (3, None, b"n"):
        with pytest.raises(InputError, match="a dimension must be text"):
            parse_dim(other)  # type: ignore[arg-type]


@given(st.text(alphabet="nm019+-*/%(), `._max\n\t\\'é", max_size=30) | st.text(max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    found, said = None, ""
    try:
        found = parse_dim(text)
    except InputError as error:
        said = str(error)
    if found is None:
        assert said.startswith("dimension ")
        assert "position" in said
    else:
        assert isinstance(found, (int, Dim))
        assert parse_dim(str(found)) == found
