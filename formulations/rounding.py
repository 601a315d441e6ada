"""Mixed-integer rounding of a limit on bytes.

Some storages, each live or not, fit into H bytes:

    sum of s_i k_i <= H

A relaxation fills this room to the last byte with parts of storages. Counted in multiples of d,
with the storages A by what is absent (y_i = 1 - k_i and a_i = -s_i for i in A, else y_i = k_i and
a_i = s_i), the row is the first of

    sum of a_i y_i <= b                                     b = H - sum of s_i over A
    sum of c_i y_i <= floor(b / d) (d - r)                  r = b mod d
    c_i = floor(a_i / d) (d - r) + max(0, a_i mod d - r)

and the second follows from it for whole y_i >= 0 (Nemhauser and Wolsey, "Integer and Combinatorial
Optimization", 1988, section II.1.7). If A does not fit together and d is its largest size, that is:
one of A is absent, two if a storage twice as large is live, and so on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from formulations.linear_program import Floats, Ints

# Storages of at least this part of the room are counted by what is absent, if they are mostly live.
_LEAST_PART = 0.002
# Values nearer to a whole number are taken to be whole; a row missed by less, in parts of the norm
# of its coefficients, is taken to be satisfied.
_WHOLE, _MISSED = 1e-6, 1e-5


class Rounded(NamedTuple):
    """A rounded row: sum of ``coefficient`` k_i >= ``at_least``.

    ``scale`` is d - r: with d bytes more room, the row allows ``scale`` more.
    """

    coefficient: Ints
    at_least: int
    scale: int


def round_row(size: Ints, room: int, divisor: int, absent: np.ndarray) -> Rounded:
    """The row for storages of some sizes in some room.

    Parameters
    ----------
    size, room
        s_i and H.
    divisor, absent
        d, and True for each storage in A.

    Examples
    --------
    Of three storages of 4 bytes, two fit into 11:

    >>> round_row(np.array([4, 4, 4]), 11, 4, np.ones(3, bool))
    Rounded(coefficient=array([-1, -1, -1]), at_least=-2, scale=1)
    """
    whole, rest = divmod(room - int(size[absent].sum()), divisor)
    scale = divisor - rest
    times, over = np.divmod(np.where(absent, -size, size), divisor)
    counted = times * scale + np.maximum(0, over - rest)
    at_least = int(counted[absent].sum()) - whole * scale
    return Rounded(np.where(absent, counted, -counted), at_least, scale)


def missed_rows(size: Ints, room: int, value: Floats) -> Iterator[tuple[int, np.ndarray]]:
    """The divisors and sets A of rows that values of k_i do not satisfy, the worst first.

    Divisors are the sizes of storages that are live in part. O(n) for each of them.
    """
    absent = (value > 0.5) & (size >= _LEAST_PART * room)
    parts = (value > _WHOLE) & (value < 1 - _WHOLE)
    missed = []
    for divisor in np.unique(size[parts]).tolist():
        row = round_row(size, room, divisor, absent)
        norm = float(np.linalg.norm(row.coefficient.astype(np.float64)))
        by = (row.at_least - float(row.coefficient @ value)) / max(norm, 1.0)
        if by > _MISSED:
            missed.append((-by, divisor))
    for _, divisor in sorted(missed):
        yield divisor, absent
