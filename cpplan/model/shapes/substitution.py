"""Substitution of variables in size expressions, and upper bounds on a size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import add, floordiv, mod, mul
from typing import Any

from cpplan.model.shapes import Dim, Range, dim_max, variable
from cpplan.model.shapes.writing import write_name


def at_most(size: int | Dim, dims: Mapping[str, Range]) -> int | Dim:
    """An upper bound on a size, with bounded variables replaced by their bounds.

    A variable is replaced only if the expression is monotone in it throughout its range.
    """
    for name in () if isinstance(size, int) else size.variables:
        within, one = dims[name], variable(name)
        if within.lower is None or within.upper is None or isinstance(size, int):
            continue
        if within.lower == within.upper:
            size = substitute(size, {name: within.lower})
            continue
        # Change of the expression from each value of the variable to the next.
        steps = {**dims, name: Range(within.lower, within.upper - 1)}
        change = substitute(size, {name: one + 1}) - size
        rise = Range(change, change) if isinstance(change, int) else change.bounds(steps)
        if rise.lower is not None and rise.lower >= 0:
            size = substitute(size, {name: within.upper})
        elif rise.upper is not None and rise.upper <= 0:
            size = substitute(size, {name: within.lower})
    return size


def substitute(expression: int | Dim, values: Mapping[str, int | Dim]) -> int | Dim:
    """The expression with some of its variables replaced by other expressions."""
    if isinstance(expression, int):
        return expression
    known = {write_name(name): values.get(name, variable(name)) for name in expression.variables}
    stack: list[int | Dim] = []
    for word in expression.postfix:
        if isinstance(word, int):
            stack.append(word)
        elif word in known:
            stack.append(known[word])
        else:
            right = stack.pop()
            stack[-1] = _OPERATORS[word](stack[-1], right)
    return stack[0]


_OPERATORS: dict[str, Callable[[Any, Any], int | Dim]] = {
    "+": add, "*": mul, "//": floordiv, "%": mod, "max": dim_max,
}  # fmt: skip
