"""Simulation in real bytes: every write fills its bytes with a pattern that checks look for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cpplan.model.problem import Ints
from cpplan.verification.script import Script, copies

# Larger arenas are simulated in cells instead of bytes.
_BYTES_AT_MOST = 1 << 30
_CHUNK = 1 << 20

# Pattern of access number k in the cells [low, high): written there, or looked for.
_Pattern = Callable[[int, int, int], "Ints | NDArray[np.uint8] | int"]


def run_in_bytes(
    script: Script, offset: Ints, begin: Ints, end: Ints, peak: int
) -> tuple[int, tuple[int, int] | None]:
    """Rounds made, and the first check that fails, with the first address found wrong."""
    arena_size, borders = peak, None
    if peak > _BYTES_AT_MOST:
        borders = np.unique(np.concatenate([begin, end]))
        begin, end = np.searchsorted(borders, begin), np.searchsorted(borders, end)
        arena_size = len(borders)
    arena = np.zeros(arena_size, np.uint8)
    patterns = _patterns(script, offset, borders)
    writes, begins, ends = script.writes.tolist(), begin.tolist(), end.tolist()
    for pattern in patterns:
        arena[:] = 0
        for k, is_write in enumerate(writes):
            for low in range(begins[k], ends[k], _CHUNK):
                high = min(ends[k], low + _CHUNK)
                wanted = pattern(k, low, high)
                if is_write:
                    arena[low:high] = wanted
                elif np.count_nonzero(arena[low:high] != wanted):
                    wrong = low + int(np.argmax(arena[low:high] != wanted))
                    return len(patterns), (k, wrong if borders is None else int(borders[wrong]))
    return len(patterns), None


def rounds_needed(script: Script) -> int:
    """Number of rounds such that any two writes, and any two bytes of a write, differ in one."""
    return sum(map(len, _shifts(script)))


def _patterns(script: Script, offset: Ints, borders: Ints | None) -> list[_Pattern]:
    """Pattern of each round; ``borders`` are the cells' addresses if cells are not bytes."""
    serial = script.serial.tolist()
    # Address of byte 0 of the write that each access belongs to.
    origin = (offset[script.buffer] + script.begin - script.start).tolist()

    def number_of_write(shift: int) -> _Pattern:
        return lambda k, low, high: serial[k] >> shift & 255

    def number_of_byte(shift: int) -> _Pattern:
        if borders is not None:
            return lambda k, low, high: borders[low:high] - origin[k] >> shift & 255
        numbers = _numbers_of_bytes(shift, _last_byte(script))
        return lambda k, low, high: numbers[low - origin[k] : high - origin[k]]

    of_writes, of_bytes = _shifts(script)
    return [*map(number_of_write, of_writes), *map(number_of_byte, of_bytes)]


def _numbers_of_bytes(shift: int, last: int) -> NDArray[np.uint8]:
    """Eight bits, from ``shift`` on, of the numbers 0 to ``last``."""
    period = np.repeat(np.arange(min(256, (last >> shift) + 1), dtype=np.uint8), 1 << shift)
    return np.resize(period, last + 1)


def _last_byte(script: Script) -> int:
    """Largest number, within its write, of a byte that is accessed."""
    return int((script.start + script.end - script.begin).max()) - 1


def _shifts(script: Script) -> tuple[range, range]:
    """Bit shifts of the rounds for write numbers, and for byte numbers if any bytes are copies."""
    last = int(script.serial.max(initial=0))
    of_writes = range(0, max(1, last.bit_length()), 8)
    if not copies(script):
        return of_writes, range(0)
    last = _last_byte(script)
    return of_writes, range(0, max(1, last.bit_length()), 8)
