"""Number of operations of an ONNX Einsum."""

from __future__ import annotations

import math
from collections.abc import Sequence


def einsum_operations(equation: str, shapes: Sequence[tuple[int, ...]]) -> int:
    """Operations of an ONNX Einsum that multiplies all terms, and then sums.

    For each combination of indices, count the number of terms less one (products), and an addition
    if some index is not in the result. An equation that only transposes a term is a copy: one
    operation for each element.

    Parameters
    ----------
    equation
        Equation as in ONNX, a subset of NumPy's: terms of letters, perhaps with an ellipsis; the
        result follows an arrow, or is left out.
    shapes
        Shape of each operand, one for each term.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    extents: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for label, extent in zip(_labels(term, len(shape)), shape, strict=True):
            # An extent of one is broadcast.
            extents[label] = extent if extents.get(label, 1) == 1 else extents[label]
    kept = right if arrow else [label for label in left if left.count(label) == 1]
    summed = any(label.isalpha() and label not in kept for label in extents)
    if arrow and "..." not in right:
        summed |= any(not label.isalpha() for label in extents)
    return math.prod(extents.values()) * max(1, len(terms) - 1 + summed)


def _labels(term: str, rank: int) -> list[str]:
    """One label for each axis; axes under the ellipsis are numbered from the last."""
    before, dots, after = term.partition("...")
    hidden = rank - len(before) - len(after) if dots else 0
    return [*before, *(str(k) for k in range(hidden, 0, -1)), *after]
