"""Levels of an objective: the numbers that are minimised one after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from cpplan.model.problem import Ints, Problem


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """One number to minimise.

    Attributes
    ----------
    weight
        Cost of a byte of each pool's peak, in units of 1/scale.
    beyond
        Bytes of each pool that cost nothing.
    access
        Cost of accessing a buffer in each pool, in units of 1/scale, shape ``(n, pools)``.
    scale
        Units for a cost of one.
    rows
        Buffers whose ends count for the peaks of this level; all buffers if ``None``.
    """

    weight: tuple[int, ...]
    beyond: tuple[int, ...]
    access: Ints
    scale: int = 1
    rows: tuple[int, ...] | None = None

    def of(self, problem: Problem, pool: Ints, offset: Ints) -> int:
        """Value of a layout in units of 1/scale."""
        return self.value(pool_peaks(problem, pool, offset, self.rows), pool)

    def counted(self, problem: Problem) -> Problem:
        """The problem of the buffers whose ends count for the peaks."""
        return problem if self.rows is None else problem.subset(np.array(self.rows, np.int64))

    def value(self, peaks: Ints, pool: Ints) -> int:
        """Value in units of 1/scale for given peaks and the pool of every row."""
        bytes_used = np.maximum(0, peaks - np.array(self.beyond, np.int64)).tolist()
        used: int = sum(w * part for w, part in zip(self.weight, bytes_used, strict=True))
        return used + int(self.access[np.arange(len(pool)), pool].sum())

    def shown(self, value: int) -> int | float:
        """A value divided by the scale, as users see it: an ``int`` if it is whole."""
        exact = Fraction(value, self.scale)
        return exact.numerator if exact.denominator == 1 else float(exact)

    def merged(self, row: Ints) -> Level:
        """The level after buffers are merged: row ``row[b]`` stands for the former ``b``."""
        access = np.zeros((int(row.max(initial=-1)) + 1, len(self.weight)), np.int64)
        np.add.at(access, row, self.access)
        rows = None if self.rows is None else tuple(sorted({int(row[b]) for b in self.rows}))
        return Level(self.weight, self.beyond, access, self.scale, rows)


def pool_peaks(
    problem: Problem, pool: Ints, offset: Ints, rows: Sequence[int] | None = None
) -> Ints:
    """Peak of each pool over all buffers or those in ``rows``, bytes, shape ``(pools,)``."""
    peaks = np.zeros(len(problem.pools), np.int64)
    some = slice(None) if rows is None else list(rows)
    np.maximum.at(peaks, pool[some], (offset + problem.size)[some])
    return peaks


@dataclass(frozen=True, eq=False)
class ArenaLevel:
    """One number to be minimised: the largest cost of an arena over some sizes.

    The cost of arena ``a`` at size ``k`` is ``scale * (a - free[k]) / base[k]``, rounded up, and at
    least 0.

    Attributes
    ----------
    name
        Name for messages.
    sizes
        Sizes that count, shape ``(m,)``.
    base, free
        Divisor, positive, and free bytes of each of these sizes, shape ``(m,)``.
    scale
        Positive factor.
    """

    name: str
    sizes: Ints
    base: Ints
    free: Ints
    scale: int = 1

    def value(self, arenas: Ints) -> int:
        """Value of the level for the arenas of all sizes, of shape ``(sizes,)``."""
        rows = zip(self.sizes.tolist(), self.base.tolist(), self.free.tolist(), strict=True)
        # Python's integers: a product may not fit into 64 bits.
        found: list[int] = [-(-self.scale * (int(arenas[k]) - f) // b) for k, b, f in rows]
        return max(0, *found)

    def limits(self, value: int, count: int) -> Ints:
        """The largest arenas, of ``count`` sizes, that cost no more than ``value``."""
        found = np.full(count, np.iinfo(np.int64).max)
        rows = zip(self.sizes.tolist(), self.base.tolist(), self.free.tolist(), strict=True)
        for k, base, free in rows:
            found[k] = free + value * base // self.scale
        return found
