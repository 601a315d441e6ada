"""The best packing of one pool and the best bound so far, part by part."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cpplan.model.problem import Ints, Problem
from cpplan.packing.bounds import Bound, fixed_offset_bound, largest_buffer_bound, lower_bound
from cpplan.packing.heuristics.greedy import bump
from cpplan.packing.levels import LevelIncumbent, OneLevel
from cpplan.packing.reduction import reduce_problem
from cpplan.packing.search.outcome import Outcome

Report = Callable[[int, int, str], None]


class Incumbent(LevelIncumbent[Ints]):
    """The best packing so far and its bounds, shared by the stages of a run.

    Its one level is the peak. Independent parts are packed separately: each part keeps the best
    offsets found for it, by any method, and the peak is that of the highest part.

    Attributes
    ----------
    reduction
        The reduced problem; all rows below are its rows.
    part_peak, part_bound
        Peak and proved lower bound of every part, bytes, shape ``(parts,)``.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        target: int | None = None,
        limit: int | None = None,
        report: Report = lambda peak, bound, source: None,
    ):
        bound = lower_bound(problem)
        self.reduction = reduce_problem(problem)
        parts = int(self.reduction.part.max(initial=-1)) + 1
        # Buffers that never hold a byte have an end too, but the reduced problem leaves them out.
        self._least_peak = max(
            fixed_offset_bound(problem).value, largest_buffer_bound(problem).value
        )
        # The first plan, without reuse, is there from the start.
        start, first = bump(self.reduction.problem), "bump" if parts else "no bytes"
        self.part_peak = self._peaks(start, parts)
        self.part_bound = np.zeros(parts, np.int64)
        self._found_by: list[str | None] = ["bump"] * parts
        super().__init__(
            OneLevel(self._peak_of), start, first, [bound], target=target, limit=limit,
            report=lambda incumbent, source: report(incumbent.peak, incumbent.bound.value, source),
        )  # fmt: skip

    @property
    def offsets(self) -> Ints:
        """Offsets of all rows, bytes, shape ``(n,)``."""
        return self.best

    @property
    def peak(self) -> int:
        """Peak of the whole problem, bytes."""
        return self.values[0]

    def highest_part(self) -> int:
        return int(np.argmax(self.part_peak))

    def next_peak(self) -> int:
        """The second highest peak of a part; lowering the highest part below it gains nothing."""
        below = self.part_peak[self.part_peak < self.part_peak.max(initial=0)]
        return int(below.max(initial=0))

    def offer(self, solution: Ints, name: str, *, or_equal: bool = False) -> bool:
        """Take those parts of a packing of the whole problem that are better than the known ones.

        Parts with an equal peak are taken too if ``or_equal``. Returns true if any part was taken.
        """
        peaks = self._peaks(solution, len(self.part_peak))
        better = peaks <= self.part_peak if or_equal else peaks < self.part_peak
        rows = better[self.reduction.part]
        self.best[rows] = solution[rows]
        self.part_peak[better] = peaks[better]
        for part in np.flatnonzero(better):
            self._found_by[part] = name
        self._update(name)
        return bool(better.any())

    def replace(self, solution: Ints, name: str) -> None:
        """Take a packing of the whole problem, better or not."""
        self.best = solution.copy()
        self.part_peak = self._peaks(solution, len(self.part_peak))
        self._found_by = [name] * len(self.part_peak)
        self._update(name)

    def part_state(self, part: int, rows: Ints) -> Outcome:
        """The best packing and bound of one part, for a search to start from."""
        return Outcome(self.best[rows], int(self.part_peak[part]), int(self.part_bound[part]))

    def bound_part(self, part: int, bound: Bound) -> None:
        """Take a bound on one part."""
        self.part_bound[part] = max(self.part_bound[part], bound.value)

    def offer_part(self, part: int, rows: Ints, outcome: Outcome) -> None:
        """Take the packing and the bound of one part, each if it is better than the known one."""
        if outcome.peak < self.part_peak[part]:
            self.best[rows] = outcome.offsets
            self.part_peak[part] = outcome.peak
            self._found_by[part] = outcome.found_by
        self.part_bound[part] = max(self.part_bound[part], outcome.bound)
        if outcome.bound > self.bound.value:
            name = outcome.bound_by or self.bound.name
            self.bounds[0] = Bound(outcome.bound, name, self._fullest_step(rows))
        self._update(outcome.found_by or outcome.bound_by or "")

    def _update(self, source: str) -> None:
        self.values = (self._peak_of(self.best),)
        if len(self.part_peak):
            self.found_by = self._found_by[self.highest_part()] or source
        self.announce(source)

    def _peak_of(self, offsets: Ints) -> int:
        """Peak of the whole problem with the best offsets of each part; ``offsets`` is not read."""
        return max(int(self.part_peak.max(initial=0)), self._least_peak)

    def _fullest_step(self, rows: Ints) -> int:
        """The original step at which most bytes of these rows are live, for messages."""
        sections, live = self.reduction.problem.subset(rows).live_profile()
        return int(self.reduction.step[sections[live.argmax()]])

    def _peaks(self, offsets: Ints, parts: int) -> Ints:
        peaks = np.zeros(parts, np.int64)
        np.maximum.at(peaks, self.reduction.part, offsets + self.reduction.problem.size)
        return peaks
