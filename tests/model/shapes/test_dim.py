"""One form for equal expressions, and Python's values."""

from __future__ import annotations

import copy
import itertools
import pickle

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from support.random_expressions import NAMES, by_python, draw_values, texts

from cpplan.model.errors import InputError
from cpplan.model.shapes import (
    Dim,
    Range,
    ceildiv,
    check_value,
    dim_max,
    dim_min,
    divide_exactly,
    parse_dim,
    variable,
)

WIDE = dict.fromkeys(NAMES, (-20, 20))
a, b, c, n = (variable(name) for name in "abcn")


def value_of(expression: int | Dim, values: dict[str, int]) -> int:
    return expression if isinstance(expression, int) else expression.evaluate(values)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("n*4 + n*4", "8*n"),
        ("(a + b)*c", "a*c + b*c"),
        ("(a - b)*(a + b)", "a*a - b*b"),
        ("(a + b)**3", "a**3 + 3*a**2*b + 3*a*b**2 + b**3"),
        ("a - (b - c)", "a - b + c"),
        ("n//4*4 + n % 4", "n"),
        ("a//b*b + a % b", "a"),
        ("n + (-n) % 8", "8*ceildiv(n, 8)"),
        ("ceildiv(n, 8)", "(n + 7)//8"),
        ("ceildiv(n, 8)", "-((-n)//8)"),
        ("ceildiv(a, b)", "-((-a)//b)"),
        ("(4*n + 6)//4", "n + 1"),
        ("(2*n + 1)//2", "n"),
        ("(6*n + 3) % 4", "2*((3*n + 1) % 2) + 1"),
        ("(n + 9)//4", "(n + 1)//4 + 2"),
        ("(n//2)//3", "n//6"),
        ("((h + 1)//2 + 1)//2", "(h + 3)//4"),
        ("(7 - n//2)//3", "(14 - n + 1)//6 + 0*n"),
        ("n//(-3)", "(-n)//3"),
        ("a//(-b)", "(-a)//b"),
        ("(a*b + c)//b", "a + c//b"),
        ("(4*a)//(2*b)", "(2*a)//b"),
        ("max(a, b)", "max(b, a)"),
        ("max(a, max(b, c))", "max(max(c, a), b)"),
        ("max(a, a)", "a"),
        ("max(n, n + 1)", "n + 1"),
        ("max(a + 2, b + 2)", "max(a, b) + 2"),
        ("max(a + c, b + c)", "max(a, b) + c"),
        ("max(2*a, 2*b)", "2*max(a, b)"),
        ("max(2*max(a, b) + c, 2*b + c)", "c + 2*max(a, b)"),
        ("min(a, b)", "-max(-a, -b)"),
        ("min(a, b) + max(a, b) - max(b, a)", "min(b, a)"),
        ("floor(n/2 - 1/2) + 1", "(n + 1)//2"),
        ("ceil((n + 2)/3)", "ceildiv(n + 2, 3)"),
        ("Max(1, n, 3)", "max(n, 3)"),
    ],
)
def test_equal_expressions_are_equal_objects(left: str, right: str) -> None:
    one, other = parse_dim(left), parse_dim(right)
    assert one == other
    assert hash(one) == hash(other)
    assert str(one) == str(other)


@pytest.mark.parametrize(
    ("left", "right"),
    [("n*m//m", "n"), ("n//n", "1"), ("n//2*2", "n"), ("(a + 1)//b", "a//b"), ("0//n", "0")],
)
def test_what_differs_somewhere_is_not_equal(left: str, right: str) -> None:
    # Two of them differ at 0 only, where the left is not defined.
    assert parse_dim(left) != parse_dim(right)


@given(texts((*NAMES, "(a - b)", "2", "(-3)")), st.integers(0, 99))
@example("(a//(2*b))//(n - a)", 0)
def test_values_are_pythons(text: str, seed: int) -> None:
    expression = parse_dim(text)
    for values in draw_values(WIDE, 50, seed):
        expected = by_python(text, values)
        if expected is not None:
            assert value_of(expression, values) == expected


@given(texts(), st.integers(0, 99))
def test_postfix_has_the_same_values(text: str, seed: int) -> None:
    expression = parse_dim(text)
    assume(isinstance(expression, Dim))
    operators = {"+": "({} + {})", "*": "({}*{})", "//": "({}//{})", "%": "({} % {})"}
    stack: list[str] = []
    for word in expression.postfix:
        if word in operators or word == "max":
            right, left = stack.pop(), stack.pop()
            stack.append(operators.get(str(word), "max({}, {})").format(left, right))
        else:
            stack.append(str(word))
    (infix,) = stack
    for values in draw_values(WIDE, 20, seed):
        assert by_python(infix, values) == by_python(text, values)


@given(texts(), texts())
def test_equal_only_if_equal_everywhere(left: str, right: str) -> None:
    one, other = parse_dim(left), parse_dim(right)
    grid = [
        dict(zip(NAMES, at, strict=True)) for at in itertools.product((-7, -1, 0, 3, 8), repeat=3)
    ]
    if any(value_of(one, at) != value_of(other, at) for at in grid):
        assert one != other
        assert str(one) != str(other)
    else:
        # The difference may be too hard to see, but never is another function.
        assert all(value_of(one - other, at) == 0 for at in grid)


@given(texts(), texts(), texts())
def test_expressions_obey_the_laws_of_a_ring(x: str, y: str, z: str) -> None:
    p, q, r = parse_dim(x), parse_dim(y), parse_dim(z)
    assert p * (q + r) == p * q + p * r
    assert (p + q) + r == p + (q + r)
    assert (p * q) * r == p * (q * r)
    assert p + q == q + p
    assert p * q == q * p
    assert p - p == 0
    assert isinstance(p - p, int)
    assert dim_max(p, q) == dim_max(q, p)
    assert dim_min(p, q) == -dim_max(-p, -q)
    assert (p // 3) * 3 + p % 3 == p


@given(texts((*NAMES, "(a - b)", "2", "(-3)")))
def test_text_is_read_back(text: str) -> None:
    expression = parse_dim(text)
    assert parse_dim(str(expression)) == expression
    if isinstance(expression, Dim):
        again = parse_dim(str(expression))
        assert str(again) == str(expression)
        assert hash(again) == hash(expression)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("n*4 + 2", "4*n + 2"),
        ("m - n", "m - n"),
        ("n - m", "n - m"),
        ("-(n//2)", "-(n//2)"),
        ("n % 4", "n % 4"),
        ("min(n, 8)", "min(n, 8)"),
        ("ceildiv(a, b)", "ceildiv(a, b)"),
        ("2*n//3", "(2*n)//3"),
        ("a % b * c", "c*(a % b)"),
        ("-n*n", "-n*n"),
    ],
)
def test_expressions_print_in_canonical_form(text: str, written: str) -> None:
    assert str(parse_dim(text)) == written


@pytest.mark.parametrize(
    "name", ["batch size", "a`b", "max", "__x__", "2", "+", "n.1", "höhe", "`"]
)
def test_any_text_may_be_a_name(name: str) -> None:
    odd = variable(name)
    assert odd.variables == (name,)
    assert parse_dim(str(2 * odd + 1)) == 2 * odd + 1
    assert (2 * odd * n).evaluate({name: 3, "n": 5}) == 30
    assert odd != variable("other")


def test_large_coefficients_are_read_back() -> None:
    large = n * 2**40 * 2**40 * 5 + 3**90
    assert isinstance(large, Dim)
    assert parse_dim(str(large)) == large
    assert large.evaluate({"n": -1}) == 3**90 - 5 * 2**80


def test_an_expression_is_a_value() -> None:
    expression = parse_dim("max(n, m)//2 + n")
    assert isinstance(expression, Dim)
    assert expression.variables == ("m", "n")
    assert pickle.loads(pickle.dumps(expression)) == expression
    assert copy.deepcopy(expression) == expression
    assert {expression: 1}[parse_dim("n + max(m, n)//2")] == 1
    assert parse_dim("n") != 1
    assert repr(n + 1) == "parse_dim('n + 1')"
    with pytest.raises(AttributeError, match="cannot be changed: terms"):
        expression.terms = ()


def test_integers_stay_integers() -> None:
    for found in (n - n, 0 * n, n * 3 - 3 * n + 7, (2 * n) % 2, n // 1 - n, dim_max(2, 3)):
        assert type(found) is int


def test_what_is_no_integer_is_no_operand() -> None:
    for other in (1.5, "m", None):
        with pytest.raises(TypeError):
            n + other  # type: ignore[operator]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "dimension 'n' has no value"),
        ({"n": 1.0}, "dimension 'n' must be an integer, not 1.0"),
        ({"n": True}, "dimension 'n' must be an integer, not True"),
        ({"n": "3"}, "dimension 'n' must be an integer, not '3'"),
    ],
)
def test_values_that_are_none(values: dict[str, int], said: str) -> None:
    with pytest.raises(InputError, match=f"^{said}$"):
        n.evaluate(values)


def test_a_zero_divisor_is_named() -> None:
    expression = parse_dim("8//(a - b) + 3 % (8//(a - b))")
    assert isinstance(expression, Dim)
    with pytest.raises(InputError, match=r"the divisor a - b is 0 at a = 2, b = 2"):
        expression.evaluate({"a": 2, "b": 2})
    with pytest.raises(InputError, match=r"the divisor 8//\(a - b\) is 0 at a = 10, b = 1"):
        expression.evaluate({"a": 10, "b": 1})
    for divide in (
        lambda: n // 0,
        lambda: n % 0,
        lambda: 3 // (n - n + 0 * n) + n,
        lambda: ceildiv(n, 0),
    ):
        with pytest.raises((InputError, ZeroDivisionError)):
            divide()


def test_division_is_exact_or_refused() -> None:
    assert divide_exactly(n * a * 6 + n * n * 3, 3 * n) == 2 * a + n
    assert divide_exactly((a + b) * (a - n), a - n) == a + b
    assert divide_exactly(n + 1, n) is None
    assert divide_exactly(n, 2) is None
    assert divide_exactly(12, 4) == 3
    assert divide_exactly(0, n) == 0
    with pytest.raises(InputError, match="division by zero"):
        divide_exactly(n, 0)


def test_expressions_that_grow_without_end_are_refused() -> None:
    def grow(step) -> None:  # type: ignore[no-untyped-def]
        grown: int | Dim = n
        for _ in range(1000):
            grown = step(grown)

    for step in (
        lambda x: x * x,
        lambda x: (x + a) * (x + b),
        lambda x: dim_max(x // a, 3),
        lambda x: x // b + x % a,
    ):
        with pytest.raises(InputError, match=r"expected at most|too many"):
            grow(step)


def test_halving_often_is_one_division() -> None:
    halved: int | Dim = n
    for _ in range(60):
        halved = (halved + 1) // 2
    assert halved == ceildiv(n, 2**60)


def test_a_value_out_of_its_range_is_named() -> None:
    check_value("n", 1, Range(1, 8))
    check_value("n", -(10**30), Range(None, None))
    with pytest.raises(InputError, match="dimension 'n' is 9, above its upper bound 8"):
        check_value("n", 9, Range(1, 8))
    with pytest.raises(InputError, match="dimension 'n' is -1, below its lower bound 0"):
        check_value("n", -1, Range())
    with pytest.raises(InputError, match=r"must be an integer, not 1\.5"):
        check_value("n", 1.5, Range())  # type: ignore[arg-type]
