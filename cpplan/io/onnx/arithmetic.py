"""ONNX's arithmetic on sizes that are expressions, and on ratios of such sizes.

Each function takes the call of a node, which knows the ranges of the variables, and raises
:exc:`Unknown` if no single result holds for all sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cpplan.io.onnx.facts import Call, Extent
from cpplan.model.shapes import dim_max, dim_min


@dataclass(frozen=True, slots=True)
class Ratio:
    """A real number: an expression divided by a positive integer."""

    numerator: Extent
    denominator: int


class Unknown(Exception):
    """Raised for an element that has no single value for all sizes."""


def add(call: Call, one: Any, other: Any) -> Any:
    if isinstance(one, Ratio) and isinstance(other, Ratio):
        common = one.denominator * other.denominator
        top = one.numerator * other.denominator + other.numerator * one.denominator
        return _ratio(top, common)
    return one + other


def _subtract(call: Call, one: Any, other: Any) -> Any:
    return add(call, one, _negate(call, other))


def multiply(call: Call, one: Any, other: Any) -> Any:
    if isinstance(one, Ratio) and isinstance(other, Ratio):
        return _ratio(one.numerator * other.numerator, one.denominator * other.denominator)
    return one * other


def _divide(call: Call, one: Any, other: Any) -> Any:
    if isinstance(one, Ratio) and isinstance(other, Ratio):
        if not isinstance(other.numerator, int) or other.numerator <= 0:
            raise Unknown
        return _ratio(one.numerator * other.denominator, one.denominator * other.numerator)
    # ONNX rounds towards zero, floor division down: equal if no operand is negative.
    if not (call.at_least(one, 0) and call.at_least(other, 1)):
        raise Unknown
    return one // other


def _remainder(call: Call, one: Any, other: Any) -> Any:
    if isinstance(one, Ratio) or not (call.at_least(one, 0) and call.at_least(other, 1)):
        raise Unknown
    return one % other


def _negate(call: Call, one: Any) -> Any:
    return Ratio(-one.numerator, one.denominator) if isinstance(one, Ratio) else -one


def _absolute(call: Call, one: Any) -> Any:
    if isinstance(one, Ratio) or not call.at_least(one, 0):
        raise Unknown
    return one


def _ratio(top: Extent, bottom: int) -> Ratio:
    """The reduced ratio; raises if single precision might round a value that is exact here."""
    factor = math.gcd(top, bottom) if isinstance(top, int) else 1
    if bottom // factor > 2**8:
        raise Unknown
    return Ratio(top // factor if factor > 1 else top, bottom // factor)


def round_down(call: Call, one: Any) -> Any:
    if not isinstance(one, Ratio):
        return one
    if not call.at_least(one.numerator, 0):
        raise Unknown
    return one.numerator // one.denominator


def _floor(call: Call, one: Any) -> Any:
    return Ratio(round_down(call, one), 1)


def _ceil(call: Call, one: Any) -> Any:
    return Ratio(-(-one.numerator // one.denominator), 1)


def _largest(call: Call, *values: Any) -> Any:
    return _extreme(dim_max, values)


def _smallest(call: Call, *values: Any) -> Any:
    return _extreme(dim_min, values)


def _extreme(choose: Callable[[Extent, Extent], Extent], values: tuple[Any, ...]) -> Any:
    result = values[0]
    for value in values:
        if isinstance(value, Ratio):
            raise Unknown
        result = choose(result, value)
    return result


def _equal(call: Call, one: Any, other: Any) -> bool:
    if isinstance(one, Ratio) or isinstance(other, Ratio):
        raise Unknown
    if one == other:
        return True
    if call.at_least(one - 1, other) or call.at_least(other - 1, one):
        return False
    raise Unknown


def _less(call: Call, one: Any, other: Any) -> bool:
    if isinstance(one, Ratio) or isinstance(other, Ratio):
        raise Unknown
    if call.at_least(other - 1, one):
        return True
    if call.at_least(one, other):
        return False
    raise Unknown


OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "Abs": _absolute,
    "Add": add,
    "Ceil": _ceil,
    "Div": _divide,
    "Equal": _equal,
    "Floor": _floor,
    "Greater": lambda call, one, other: _less(call, other, one),
    "GreaterOrEqual": lambda call, one, other: not _less(call, one, other),
    "Less": _less,
    "LessOrEqual": lambda call, one, other: not _less(call, other, one),
    "Max": _largest,
    "Min": _smallest,
    "Mod": _remainder,
    "Mul": multiply,
    "Neg": _negate,
    "Sub": _subtract,
}
