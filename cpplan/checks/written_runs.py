"""Which write the bytes of an arena go back to, as runs of bytes that one write left."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from cpplan.checks.script import Script
from cpplan.problem import Ints


class WrittenRuns:
    """An arena too busy to be filled byte by byte; before the first write, all bytes are 0's.

    A write costs O(log runs), and what it costs to move their list.

    Examples
    --------
    >>> arena = WrittenRuns()
    >>> arena.write(0, 8, 1)
    >>> arena.write(6, 10, 2)
    >>> arena.first_other(0, 6, 1), arena.first_other(0, 8, 1), arena.first_other(6, 12, 2)
    (None, 6, 10)
    """

    def __init__(self) -> None:
        self._begin = [0]
        self._number = [0]

    def write(self, low: int, high: int, number: int) -> None:
        """Bytes ``[low, high)``, at least one, are that write's."""
        first = bisect_left(self._begin, low)
        after = bisect_left(self._begin, high, lo=first)
        begins, numbers = [low], [number]
        if after == len(self._begin) or self._begin[after] != high:
            begins.append(high)
            numbers.append(self._number[after - 1])
        self._begin[first:after], self._number[first:after] = begins, numbers

    def first_other(self, low: int, high: int, number: int) -> int | None:
        """The first byte of ``[low, high)`` that is not that write's."""
        run = bisect_right(self._begin, low) - 1
        while run < len(self._begin) and self._begin[run] < high:
            if self._number[run] != number:
                return max(low, self._begin[run])
            run += 1
        return None


def run_in_runs(script: Script, begin: Ints, end: Ints) -> tuple[int, int] | None:
    """The first check that fails, with the first address found wrong."""
    arena = WrittenRuns()
    columns = (script.writes, begin, end, script.serial)
    accesses = zip(*(column.tolist() for column in columns), strict=True)
    for k, (is_write, low, high, number) in enumerate(accesses):
        if is_write:
            arena.write(low, high, number)
        elif (wrong := arena.first_other(low, high, number)) is not None:
            return k, wrong
    return None
