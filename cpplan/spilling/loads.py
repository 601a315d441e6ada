"""Bytes in the fast pool at every step, kept up to date while gaps are kept and dropped."""

from __future__ import annotations

import numpy as np

from cpplan.model.problem import Ints
from cpplan.model.spill_problem import Flags, SpillProblem


class Loads:
    """Bytes in the fast pool at each step, for a choice of gaps that changes.

    Parameters
    ----------
    problem
        The problem.
    kept
        Gaps kept at first.

    Attributes
    ----------
    kept
        Gaps kept now.
    load
        Bytes in the fast pool at each step.
    dropped
        Number of gaps dropped, by storage.
    """

    def __init__(self, problem: SpillProblem, kept: Flags):
        self.problem = problem
        self.kept: Flags = kept.copy()
        self.load: Ints = problem.load(kept)
        self.dropped: Ints = np.bincount(
            problem.gap_storage[~kept], minlength=len(problem.names)
        ).astype(np.int64)
        self._room = problem.room[problem.gap_storage].tolist()
        self._lower, self._upper = problem.gap_lower.tolist(), problem.gap_upper.tolist()
        self._before, self._after = problem.gap_before.tolist(), problem.gap_after.tolist()
        self._step = problem.access_step.tolist()
        self._holds = problem.access_near.astype(np.int64)
        for side in (problem.gap_before, problem.gap_after):
            there = side[kept & (side >= 0)]
            np.add.at(self._holds, there, 1)
        # Gap, or access -> credits whose use depends on it.
        self._of_gap: dict[int, list[int]] = {}
        self._of_access: dict[int, list[int]] = {}
        self._inputs: dict[int, list[tuple[int, int]]] = {}
        rows = zip(
            problem.over_credit.tolist(), problem.over_access.tolist(), problem.over_gap.tolist(),
            strict=True,
        )  # fmt: skip
        for credit, access, gap in rows:
            self._inputs.setdefault(credit, []).append((access, gap))
            self._of_access.setdefault(access, []).append(credit)
            if gap >= 0:
                self._of_gap.setdefault(gap, []).append(credit)
        for credit, access in enumerate(problem.credit_access.tolist()):
            self._of_access.setdefault(access, []).append(credit)

    def keep(self, gap: int) -> None:
        """Keep a gap that is dropped."""
        self._change(gap, keep=True)

    def drop(self, gap: int) -> None:
        """Drop a gap that is kept."""
        self._change(gap, keep=False)

    def fits_with(self, gap: int) -> bool:
        """True if no step exceeds the capacity once a dropped gap is kept."""
        capacity, room = self.problem.capacity, self._room[gap]
        lower, upper = self._lower[gap], self._upper[gap]
        if lower < upper and int(self.load[lower:upper].max()) + room > capacity:
            return False
        self.keep(gap)
        fits = all(
            self.load[self._step[access]] <= capacity
            for access in (self._before[gap], self._after[gap])
            if access >= 0
        )
        self.drop(gap)
        return fits

    def _change(self, gap: int, *, keep: bool) -> None:
        ends = [a for a in (self._before[gap], self._after[gap]) if a >= 0]
        affected = dict.fromkeys(
            [c for a in ends for c in self._of_access.get(a, ())] + self._of_gap.get(gap, [])
        )
        for credit in affected:
            self._count(credit, 1)
        room, sign = self._room[gap], 1 if keep else -1
        self.load[self._lower[gap] : self._upper[gap]] += sign * room
        for access in ends:
            held = self._holds[access] > 0
            self._holds[access] += sign
            if held != (self._holds[access] > 0):
                self.load[self._step[access]] += sign * room
        self.kept[gap] = keep
        self.dropped[self.problem.gap_storage[gap]] -= sign
        for credit in affected:
            self._count(credit, -1)

    def _count(self, credit: int, sign: int) -> None:
        """Add the room that a credit saves now to the load; subtract it if the sign is negative."""
        problem = self.problem
        if self._holds[problem.credit_access[credit]] <= 0:
            return
        if any(
            self._holds[access] > 0 and (gap < 0 or not self.kept[gap])
            for access, gap in self._inputs[credit]
        ):
            self.load[problem.credit_step[credit]] += sign * int(problem.credit_room[credit])
