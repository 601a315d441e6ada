"""The least peak over all ways to divide a program into regions, as estimates are added."""

from __future__ import annotations

from typing import NamedTuple


class Highest(NamedTuple):
    """Region ``[start, stop)`` of most bytes in a division of least peak."""

    peak: int
    start: int
    stop: int


class LeastPeak:
    """Least peak of a path of regions over all steps, kept while estimates of regions are added.

    Examples
    --------
    >>> paths = LeastPeak([5, 9, 4])
    >>> paths.highest()
    Highest(peak=9, start=1, stop=2)
    >>> paths.add(0, 2, 6)
    >>> paths.highest()
    Highest(peak=6, start=0, stop=2)
    """

    def __init__(self, whole: list[int]):
        self._by_start = [{k + 1: peak} for k, peak in enumerate(whole)]
        self._highest: Highest | None = None

    def add(self, start: int, stop: int, peak: int) -> None:
        """Add an estimate of the region ``[start, stop)``."""
        known = self._by_start[start].get(stop)
        if known is None or peak < known:
            self._by_start[start][stop] = peak
            # A region above the least peak known does not lower it.
            if self._highest is not None and peak < self._highest.peak:
                self._highest = None

    def highest(self) -> Highest:
        """The region that decides the least peak. Only a region that overlaps it can lower that."""
        if self._highest is None:
            steps = len(self._by_start)
            best: list[Highest | None] = [None] * (steps + 1)
            best[0] = Highest(0, 0, 0)
            for start, regions in enumerate(self._by_start):
                before = best[start]
                assert before is not None
                for stop, peak in regions.items():
                    found = max(before, Highest(peak, start, stop), key=lambda each: each.peak)
                    known = best[stop]
                    if known is None or found.peak < known.peak:
                        best[stop] = found
            self._highest = best[steps]
        assert self._highest is not None
        return self._highest
