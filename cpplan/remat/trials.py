"""Schedules that were packed, and the limit on live bytes to search within next.

A packing may need more bytes than are live, for holes, or fewer, where bytes are shared. So the
limit on live bytes moves: down by the bytes that a packing had too many, up by those it had left,
and then between limits that packed and limits that did not. Where the cost is limited, the smallest
packing is kept.
"""

from __future__ import annotations

from typing import NamedTuple

from cpplan.aliasing.packed import Packed
from cpplan.remat.search.outcome import RematOutcome
from cpplan.remat.tuning import active


class Trial(NamedTuple):
    """A schedule, and the packing found for it."""

    outcome: RematOutcome
    packed: Packed

    def over(self, limit: int) -> int:
        """Bytes beyond a limit; of several pools, a few percent if they do not hold it."""
        if self.packed.pooled is None:
            return self.packed.peak - limit
        return (
            0
            if self.packed.pooled.packing.offset is not None
            else int(active().pools_step * limit) + 1
        )


class Least:
    """The smallest packing among trials that cost at most ``most``.

    Attributes
    ----------
    best
        That trial.
    """

    def __init__(self, most: float, first: Trial):
        self.most, self.best = most, first

    def keep(self, trial: Trial) -> None:
        """Replace the best trial if this one is smaller, and cheap enough."""
        if trial.outcome.cost <= self.most and trial.packed.value < self.best.packed.value:
            self.best = trial


class Trials:
    """The schedules packed, the best of them, and the limit on live bytes for the next.

    Parameters
    ----------
    limit
        Limit on the bytes of all pools.
    least
        Lower bound on the live bytes of every schedule.
    sharing
        True if a packing may have fewer bytes than are live, as bytes are shared.

    Attributes
    ----------
    best
        The cheapest trial that fits, or the one that is least beyond the limit.
    target
        Limit on the live bytes of the next schedule.
    """

    def __init__(self, limit: int, least: int, *, sharing: bool):
        self.limit, self.target = limit, limit
        self.best: Trial | None = None
        self._least, self._sharing = least, sharing
        self._tried: set[tuple[int, ...]] = set()
        # The largest limit on live bytes under which a packing fitted, the smallest where not.
        self._fits: int | None = None
        self._fails: int | None = None

    def keep(self, trial: Trial) -> None:
        """Record a trial, the new best if it is better; :attr:`target` does not change."""
        self._tried.add(trial.outcome.schedule)
        if self.best is None or self._rank(trial) < self._rank(self.best):
            self.best = trial

    def add(self, trial: Trial) -> None:
        """Record the trial of a schedule searched for within :attr:`target`, and set the next."""
        over, live = trial.over(self.limit), trial.outcome.peak
        target = max(self.target, live)
        self.keep(trial)
        if over > 0:
            self._fails = target if self._fails is None else min(target, self._fails)
            self.target = live - over
            if self.target < self._least:
                self.target = (live + self._least) // 2
        else:
            self._fits = target if self._fits is None else max(target, self._fits)
            self.target = target - over if self._sharing else target
        if self._fits is not None and self._fails is not None:
            near = self._fails - self._fits <= active().near_enough * self.limit
            self.target = self._fits if near else (self._fits + self._fails) // 2

    def knows(self, outcome: RematOutcome) -> bool:
        """True if the schedule was packed already."""
        return outcome.schedule in self._tried

    @property
    def cost(self) -> int | float | None:
        """Cost of the best trial if it fits, else ``None``."""
        if self.best is None or self.best.over(self.limit) > 0:
            return None
        return self.best.outcome.cost

    def _rank(self, trial: Trial) -> tuple[int, int | float]:
        return max(0, trial.over(self.limit)), trial.outcome.cost
