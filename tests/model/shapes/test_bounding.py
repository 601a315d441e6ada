"""Intervals contain every value, and are no wider than they must be."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.random_expressions import NAMES, by_python, draw_values, texts

from cpplan.model.errors import InputError
from cpplan.model.shapes import Dim, Range, parse_dim

ENDS = st.tuples(st.integers(-12, 12), st.integers(0, 15)).map(lambda p: (p[0], p[0] + p[1]))


def bounds(text: str, **ranges: tuple[int | None, int | None]) -> tuple[int | None, int | None]:
    expression = parse_dim(text)
    assert isinstance(expression, Dim)
    return tuple(expression.bounds({name: Range(*ends) for name, ends in ranges.items()}))


def contains(within: Range, value: int) -> bool:
    above = within.lower is None or within.lower <= value
    return above and (within.upper is None or value <= within.upper)


@given(
    texts((*NAMES, "(a - b)", "2", "(-3)", "(n + 20)")),
    st.fixed_dictionaries(dict.fromkeys(NAMES, ENDS)),
    st.sets(st.sampled_from([(name, end) for name in NAMES for end in (0, 1)])),
    st.integers(0, 99),
)
def test_every_value_is_within(
    text: str, ranges: dict[str, tuple[int, int]], opened: set[tuple[str, int]], seed: int
) -> None:
    expression = parse_dim(text)
    if isinstance(expression, int):
        return
    given_ranges = {
        name: Range(*(None if (name, k) in opened else end for k, end in enumerate(ends)))
        for name, ends in ranges.items()
    }
    try:
        within = expression.bounds(given_ranges)
    except InputError as error:
        within, said = None, str(error)
    if within is None:
        assert "may be 0 within the bounds" in said
        return
    wide = {
        name: (lo - 500 * ((name, 0) in opened), hi + 500 * ((name, 1) in opened))
        for name, (lo, hi) in ranges.items()
    }
    for values in draw_values(wide, 200, seed):
        value = by_python(text, values)
        assert value is not None
        assert contains(within, value)


def test_ten_thousand_values_of_random_expressions_are_within() -> None:
    rng = random.Random(0)
    operators = ("({} + {})", "({} - {})", "({}*{})", "max({}, {})", "min({}, {})")
    for _ in range(5):
        pieces = [*NAMES, *(str(rng.randint(-9, 9)) for _ in range(4))]
        while len(pieces) > 1:
            one, other = (pieces.pop(rng.randrange(len(pieces))) for _ in range(2))
            made = rng.choice(operators).format(one, other)
            if rng.random() < 0.5:
                made = f"({made}{rng.choice(('//', '%'))}({rng.choice((-4, -3, 2, 5, 8))}))"
            pieces.append(made)
        ranges = {name: (low := rng.randint(-50, 20), low + rng.randint(0, 90)) for name in NAMES}
        expression = parse_dim(pieces[0])
        assert isinstance(expression, Dim)
        within = expression.bounds({name: Range(*ends) for name, ends in ranges.items()})
        for values in draw_values(ranges, 2_000, 1):
            value = by_python(pieces[0], values)
            assert value is not None
            assert contains(within, value)


@pytest.mark.parametrize(
    "text",
    [
        "m - n",
        "3*m - 5*n + 7",
        "m*n",
        "(m - 3)*(n + 4)",
        "m//3 - n//4",
        "(2*m + n)//5",
        "max(m, n) - 4",
        "min(m, 2*n)",
        "ceildiv(m, 4)*(n + 20)",
        "m % 4",
        "n - n % 4",
        "n % 4 + m",
        "n + (-n) % 8",
        "n - n//2",
        "m*(n - n//2)",
        "n - min(2, n)",
        "(n - min(2, n))*(m + 20)",
        "max(n, 5) - min(n, 3)",
        "m*m",
        "m*m*m - n",
        "(m*m + 1)//2",
        "n//(m*m + 1)",
        "m % 7 * (n % 3)",
        "(m % 7)*(m % 7)",
    ],
)
@pytest.mark.parametrize(("m", "n"), [((0, 9), (1, 12)), ((-7, 5), (-9, 20)), ((-8, -2), (3, 11))])
def test_as_narrow_as_can_be(text: str, m: tuple[int, int], n: tuple[int, int]) -> None:
    values = [
        by_python(text, {"m": i, "n": j})
        for i, j in itertools.product(range(m[0], m[1] + 1), range(n[0], n[1] + 1))
    ]
    assert bounds(text, m=m, n=n) == (min(values), max(values))


@pytest.mark.parametrize(
    ("text", "ranges", "expected"),
    [
        ("n", {"n": (1, None)}, (1, None)),
        ("4*n + 2", {"n": (0, None)}, (2, None)),
        ("m - n", {"m": (0, 8), "n": (0, None)}, (None, 8)),
        ("-n", {"n": (None, 3)}, (-3, None)),
        ("n*n", {"n": (None, None)}, (0, None)),
        ("n*m", {"n": (0, 0), "m": (None, None)}, (0, 0)),
        ("n//3", {"n": (5, None)}, (1, None)),
        ("n % 8", {"n": (None, None)}, (0, 7)),
        ("n % (-8)", {"n": (None, None)}, (-7, 0)),
        ("8//n", {"n": (1, None)}, (0, 8)),
        ("-8//n", {"n": (1, None)}, (-8, -1)),
        ("8//n", {"n": (None, -1)}, (-8, -1)),
        ("m//n", {"m": (-5, None), "n": (2, None)}, (-3, None)),
        ("m % n", {"m": (0, None), "n": (1, 6)}, (0, 5)),
        ("m % n", {"m": (0, 3), "n": (5, None)}, (0, 3)),
        ("n - n//2", {"n": (0, None)}, (0, None)),
        ("max(n, 8)", {"n": (None, None)}, (8, None)),
        ("min(n, 8)", {"n": (0, None)}, (0, 8)),
        # One quotient for all of them: 5 % 4 and 6 % 4.
        ("n % 4", {"n": (5, 6)}, (1, 2)),
        # What cannot be cancelled as it may be undefined is known where it is defined.
        ("n*m//m", {"n": (2, 5), "m": (1, 9)}, (2, 5)),
        ("n//n", {"n": (1, 9)}, (1, 1)),
        ("n*10**30 + m", {"n": (1, 2), "m": (None, 0)}, (None, 2 * 10**30)),
    ],
)
def test_open_intervals_bound_expressions(
    text: str,
    ranges: dict[str, tuple[int | None, int | None]],
    expected: tuple[int | None, int | None],
) -> None:
    assert bounds(text, **ranges) == expected


@pytest.mark.parametrize(
    ("text", "divisor"),
    [("8//n", "n"), ("8 % n", "n"), ("ceildiv(8, n - 3)", "n - 3"), ("n//(n//9)", "n//9")],
)
def test_a_divisor_that_may_be_zero_is_named(text: str, divisor: str) -> None:
    with pytest.raises(InputError, match=r"the divisor (.*) of .* may be 0") as caught:
        bounds(text, n=(0, 8))
    assert f"the divisor {divisor} of" in str(caught.value)


def test_ranges_that_are_none() -> None:
    with pytest.raises(InputError, match="dimension 'n' has no range"):
        bounds("n + 1", m=(0, 1))
    with pytest.raises(InputError, match="'n': lower bound 3 is above upper bound 2"):
        bounds("n + 1", n=(3, 2))
