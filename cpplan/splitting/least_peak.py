"""The least peak over all ways to divide a program into regions, as estimates are added."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple


class Highest(NamedTuple):
    """Region ``[start, stop)`` of most bytes in a division of least peak."""

    peak: int
    start: int
    stop: int


class LeastPeak:
    """Least peak of a path of regions over all steps, kept while estimates of regions are added.

    Parameters
    ----------
    whole
        Peak of each step, if it is not cut.
    ends
        Places at which regions may begin and end, ascending, the first and the last one included;
        all places if left out.
    """

    def __init__(self, whole: Sequence[int], ends: Sequence[int] | None = None):
        self._ends = range(len(whole) + 1) if ends is None else ends
        # Start of a region -> its end -> what decides its peak.
        self._from: dict[int, dict[int, Highest]] = {end: {} for end in self._ends}
        for start, stop in pairwise(self._ends):
            high = max(range(start, stop), key=whole.__getitem__)
            self._from[start][stop] = Highest(whole[high], high, high + 1)
        self._highest: Highest | None = None

    def add(self, start: int, stop: int, peak: int) -> None:
        """Add an estimate of the region ``[start, stop)``."""
        known = self._from[start].get(stop)
        if known is None or peak < known.peak:
            self._from[start][stop] = Highest(peak, start, stop)
            # A region above the least peak known does not lower it.
            if self._highest is not None and peak < self._highest.peak:
                self._highest = None

    def highest(self) -> Highest:
        """The region that decides the least peak. Only a region that overlaps it can lower that."""
        if self._highest is None:
            best = {self._ends[0]: Highest(0, 0, 0)}
            for start in self._ends:
                before = best[start]
                for stop, region in self._from[start].items():
                    found = region if region.peak > before.peak else before
                    known = best.get(stop)
                    if known is None or found.peak < known.peak:
                        best[stop] = found
            self._highest = best[self._ends[-1]]
        return self._highest
