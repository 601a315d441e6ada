"""Interval arithmetic (Moore, "Interval Analysis", 1966), with ends that may be infinite.

Ends are integers or fractions of any size, or a float infinity; floats take part in no arithmetic.
"""

from __future__ import annotations

from fractions import Fraction
from math import inf
from typing import NamedTuple, TypeAlias

End: TypeAlias = int | Fraction | float


class Interval(NamedTuple):
    """Interval of all numbers from ``lower`` to ``upper``."""

    lower: End
    upper: End

    def __contains__(self, value: object) -> bool:
        assert isinstance(value, (int, Fraction, float))
        return self.lower <= value <= self.upper


WHOLE = Interval(-inf, inf)


def plus(a: Interval, b: Interval) -> Interval:
    """Interval of sums."""
    return Interval(_add(a.lower, b.lower), _add(a.upper, b.upper))


def times(a: Interval, b: Interval) -> Interval:
    """Interval of products."""
    ends = [_multiply(x, y) for x in a for y in b]
    return Interval(min(ends), max(ends))


def power(a: Interval, exponent: int) -> Interval:
    """Interval of powers, which are at least 0 for even exponents."""
    lower, upper = (_power(end, exponent) for end in a)
    if exponent % 2:
        return Interval(lower, upper)
    return Interval(0 if 0 in a else min(lower, upper), max(lower, upper))


def floordiv(a: Interval, b: Interval) -> Interval:
    """Interval of quotients rounded down; 0 is not in ``b``.

    Quotients are monotone in the dividend, and also in the divisor, which has only one sign.
    """
    ends = [_floordiv(x, y) for x in a for y in b]
    return Interval(min(ends), max(ends))


def mod(a: Interval, b: Interval) -> Interval:
    """Interval of remainders, which have the divisor's sign; 0 is not in ``b``."""
    if b.upper < 0:
        flipped = mod(Interval(-a.upper, -a.lower), Interval(-b.upper, -b.lower))
        return Interval(-flipped.upper, -flipped.lower)
    quotient = floordiv(a, b)
    if quotient == (0, 0):
        return a
    if b.lower == b.upper and quotient.lower == quotient.upper:
        offset = -_multiply(b.lower, quotient.lower)
        return Interval(a.lower + offset, a.upper + offset)
    most = b.upper - 1
    return Interval(0, min(most, a.upper) if a.lower >= 0 else most)


def largest(a: Interval, b: Interval) -> Interval:
    """Interval of maxima."""
    return Interval(max(a.lower, b.lower), max(a.upper, b.upper))


def smallest(a: Interval, b: Interval) -> Interval:
    """Interval of minima."""
    return Interval(min(a.lower, b.lower), min(a.upper, b.upper))


def common(a: Interval, b: Interval) -> Interval:
    """Intersection of two intervals, which must not be empty."""
    return Interval(max(a.lower, b.lower), min(a.upper, b.upper))


def _add(x: End, y: End) -> End:
    # Python cannot add an integer that is too large for a float to an infinity.
    for end in (x, y):
        if isinstance(end, float):
            return end
    return x + y


def _multiply(x: End, y: End) -> End:
    if x == 0 or y == 0:
        return 0
    if isinstance(x, float) or isinstance(y, float):
        return inf if (x > 0) == (y > 0) else -inf
    return x * y


def _power(x: End, exponent: int) -> End:
    if isinstance(x, float):
        return -inf if x < 0 and exponent % 2 else inf
    return x**exponent


def _floordiv(x: End, y: End) -> End:
    if isinstance(y, float):
        # Quotients end at 0, or just below it; those of infinities are largest at y's other end.
        return 0 if x == 0 or (x > 0) == (y > 0) else -1
    if isinstance(x, float):
        return x if y > 0 else -x
    return x // y
