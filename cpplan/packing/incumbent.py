"""The best packing and the best bound so far, part by part, and how they came to be."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cpplan.model.problem import Ints, Problem
from cpplan.packing.bounds import Bound, fixed_offset_bound, largest_buffer_bound, lower_bound
from cpplan.packing.heuristics.bump_allocator import bump
from cpplan.packing.reduction import reduce_problem
from cpplan.packing.search.outcome import Outcome


class Incumbent:
    """The best packing so far, with its bounds, that the stages of a run pass on.

    Independent parts are kept apart: each has the offsets of the method that packed it best, and
    the peak is that of the highest part.

    Attributes
    ----------
    reduction
        The reduced problem; all rows below are its rows.
    offsets
        Bytes, shape ``(n,)``.
    part_peak, part_bound
        Peak and proved lower bound of every part, bytes, shape ``(parts,)``.
    bound
        On the whole problem.
    goal
        A peak that ends the run, if one is good enough.
    ceiling
        A peak above this is of no use, if there is a limit.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        goal: int | None = None,
        ceiling: int | None = None,
        report: Callable[[int, int, str], None] = lambda peak, bound, source: None,
    ):
        self.goal, self.ceiling, self._report = goal, ceiling, report
        self.bound: Bound = lower_bound(problem)
        self.reduction = reduce_problem(problem)
        parts = int(self.reduction.part.max(initial=-1)) + 1
        # There is a plan from the first moment on: the one without reuse.
        self.offsets = bump(self.reduction.problem)
        self.part_peak = self._peaks(self.offsets, parts)
        self.part_bound = np.zeros(parts, np.int64)
        # Buffers that hold no byte still end somewhere; the reduced problem has lost sight of them.
        self._least_peak = max(
            fixed_offset_bound(problem).value, largest_buffer_bound(problem).value
        )
        self._found_by: list[str | None] = ["bump"] * parts
        self._reported: tuple[int, int] | None = None

    def watch(self, report: Callable[[int, int, str], None]) -> None:
        """From now on, report improvements to this function."""
        self._report = report

    def announce(self) -> None:
        """Report the packing that there is from the start."""
        self._record("bump")

    @property
    def peak(self) -> int:
        """Peak of the whole problem, bytes."""
        return max(int(self.part_peak.max(initial=0)), self._least_peak)

    @property
    def found_by(self) -> str | None:
        """Name of the method that packed the highest part."""
        return self._found_by[self.highest_part()] if len(self.part_peak) else "no bytes"

    @property
    def good_enough(self) -> bool:
        """True if the peak is at most the goal."""
        return self.goal is not None and self.peak <= self.goal

    @property
    def done(self) -> bool:
        """Good enough, proved smallest, or proved not to fit."""
        hopeless = self.ceiling is not None and self.bound.value > self.ceiling
        return hopeless or self.peak <= max(self.goal or 0, self.bound.value)

    def highest_part(self) -> int:
        return int(np.argmax(self.part_peak))

    def next_peak(self) -> int:
        """The highest peak below the highest: lowering one part further than that gains nothing."""
        below = self.part_peak[self.part_peak < self.part_peak.max(initial=0)]
        return int(below.max(initial=0))

    def offer(self, offsets: Ints, name: str) -> None:
        """Take from a packing of the whole every part that it packs better."""
        peaks = self._peaks(offsets, len(self.part_peak))
        better = peaks < self.part_peak
        rows = better[self.reduction.part]
        self.offsets[rows] = offsets[rows]
        self.part_peak[better] = peaks[better]
        for part in np.flatnonzero(better):
            self._found_by[part] = name
        self._record(name)

    def replace(self, offsets: Ints, name: str) -> None:
        """Take a packing of the whole as it is, better or not."""
        self.offsets = offsets.copy()
        self.part_peak = self._peaks(offsets, len(self.part_peak))
        self._found_by = [name] * len(self.part_peak)
        self._record(name)

    def part_state(self, part: int, rows: Ints) -> Outcome:
        """Outcome that a search on one part starts from."""
        return Outcome(self.offsets[rows], int(self.part_peak[part]), int(self.part_bound[part]))

    def offer_bound(self, part: int, bound: Bound) -> None:
        """Take a bound on one part; the whole problem's is at least that."""
        self.part_bound[part] = max(self.part_bound[part], bound.value)

    def offer_part(self, part: int, rows: Ints, outcome: Outcome) -> None:
        """Take the packing and the bound of a search on one part, where they are better."""
        if outcome.peak < self.part_peak[part]:
            self.offsets[rows] = outcome.offsets
            self.part_peak[part] = outcome.peak
            self._found_by[part] = outcome.found_by
        self.part_bound[part] = max(self.part_bound[part], outcome.bound)
        if outcome.bound > self.bound.value:
            name = outcome.bound_by or self.bound.name
            self.bound = Bound(outcome.bound, name, self._fullest_step(rows))
        self._record(outcome.found_by or outcome.bound_by or "")

    def _fullest_step(self, rows: Ints) -> int:
        """The original step at which most bytes of these rows are live, for messages to name."""
        sections, live = self.reduction.problem.subset(rows).live_profile()
        return int(self.reduction.step[sections[live.argmax()]])

    def _peaks(self, offsets: Ints, parts: int) -> Ints:
        peaks = np.zeros(parts, np.int64)
        np.maximum.at(peaks, self.reduction.part, offsets + self.reduction.problem.size)
        return peaks

    def _record(self, source: str) -> None:
        now = self.peak, self.bound.value
        if now != self._reported:
            self._reported = now
            self._report(*now, source)
