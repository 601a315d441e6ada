"""Last writes of an arena's bytes, kept as runs of bytes that one write left."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np
from numpy.typing import NDArray

from cpplan.model.problem import Ints
from cpplan.runtime.compiled import is_ready
from cpplan.verification.loops import CHECKS
from cpplan.verification.script import Script, copies

# Number of accesses above which a compiled loop keeps the runs, if it is compiled already.
_VERY_MANY = 50_000


class WrittenRuns:
    """Arena kept as runs of bytes; before the first write, all bytes belong to write 0.

    A write costs O(log runs), and the time to move the list of runs.
    """

    def __init__(self) -> None:
        self._begin = [0]
        self._number = [0]

    def write(self, low: int, high: int, number: int) -> None:
        """Record that a write covers bytes ``[low, high)``, at least one."""
        first = bisect_left(self._begin, low)
        after = bisect_left(self._begin, high, lo=first)
        begins, numbers = [low], [number]
        if after == len(self._begin) or self._begin[after] != high:
            begins.append(high)
            numbers.append(self._number[after - 1])
        self._begin[first:after], self._number[first:after] = begins, numbers

    def first_other(self, low: int, high: int, number: int) -> int | None:
        """First byte of ``[low, high)`` that does not come from that write, or ``None``."""
        run = bisect_right(self._begin, low) - 1
        while run < len(self._begin) and self._begin[run] < high:
            if self._number[run] != number:
                return max(low, self._begin[run])
            run += 1
        return None

    def number_at(self, address: int) -> int:
        """Number of the write that a byte comes from."""
        return self._number[bisect_right(self._begin, address) - 1]


def run_in_runs(script: Script, begin: Ints, end: Ints) -> tuple[int, int] | None:
    """The first check that fails, with the first address found wrong.

    ``begin`` and ``end`` are the addresses of every access. With very many accesses, a compiled
    loop keeps the runs if it is ready.
    """
    number = _numbers(script, begin)
    if len(begin) > _VERY_MANY and _loop_is_compiled():
        return first_wrong_compiled(script.writes, begin, end, number)
    return first_wrong(script.writes, begin, end, number)


def first_wrong(
    writes: NDArray[np.bool_], begin: Ints, end: Ints, number: Ints
) -> tuple[int, int] | None:
    """First check that fails, with the first address found wrong."""
    arena = WrittenRuns()
    accesses = zip(*(column.tolist() for column in (writes, begin, end, number)), strict=True)
    for k, (is_write, low, high, written) in enumerate(accesses):
        if is_write:
            arena.write(low, high, written)
        elif (wrong := arena.first_other(low, high, written)) is not None:
            return k, wrong
    return None


def first_wrong_compiled(
    writes: NDArray[np.bool_], begin: Ints, end: Ints, number: Ints
) -> tuple[int, int] | None:
    """First check that fails, as :func:`first_wrong` finds it; compiled."""
    from cpplan.verification import runs_kernel

    columns = map(np.ascontiguousarray, (writes, begin, end, number))
    most = 1 + 2 * int(np.count_nonzero(writes))
    runs = np.empty(most, np.int64), np.empty(most, np.int64)
    access, wrong = runs_kernel.first_wrong(*columns, *runs)
    return None if access < 0 else (int(access), int(wrong))


def _numbers(script: Script, begin: Ints) -> Ints:
    """Number, from 1, that each access writes or must find: one a write and address of its byte 0.

    A write's bytes have several addresses if it is copied. Bytes with the same number are the
    same bytes of the same write, as they have the same address.
    """
    if not copies(script):
        return script.serial
    origin = begin - script.start
    order = np.lexsort((origin, script.serial))
    serial, origin = script.serial[order], origin[order]
    new = np.ones(len(order), bool)
    new[1:] = (serial[1:] != serial[:-1]) | (origin[1:] != origin[:-1])
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(new)
    return number


def _loop_is_compiled() -> bool:
    return is_ready(CHECKS)
