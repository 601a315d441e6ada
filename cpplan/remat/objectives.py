"""The two objectives of rematerialization, and the best packed schedule of a run.

Either the least cost within a limit on bytes, or the fewest bytes within a limit on the cost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from cpplan.aliasing.packed import Packed
from cpplan.remat.known_schedules import KnownSchedules
from cpplan.remat.search.outcome import RematOutcome
from cpplan.remat.tuning import active


class Trial(NamedTuple):
    """A schedule, and the packing found for it."""

    outcome: RematOutcome
    packed: Packed

    def over(self, limit: int) -> int:
        """Bytes beyond a limit; with several pools, a few percent of it if nothing fits."""
        if self.packed.pooled is None:
            return self.packed.peak - limit
        return (
            0
            if self.packed.pooled.packing.offset is not None
            else int(active().pools_step * limit) + 1
        )


class Objective(Protocol):
    """Objective of a run: levels to minimise, and the bounds that they can reach."""

    def levels(self, trial: Trial, /) -> tuple[object, ...]:
        """Values that rank packed schedules, compared as tuples."""

    def settled(self, best: Trial, /) -> bool:
        """True if no packed schedule can be better, or none can fit."""

    def most_cost(self, best: Trial | None, /) -> float:
        """The largest cost of a schedule that may still be an improvement."""

    def promises(self, outcome: RematOutcome, best: Trial | None, /) -> bool:
        """True if a packing of the schedule may be better than the best one."""


@dataclass(frozen=True, slots=True)
class LeastCost:
    """The least cost within a limit on the bytes of all pools; bytes beyond it come first."""

    limit: int
    known: KnownSchedules

    def levels(self, trial: Trial) -> tuple[int, int | float]:
        """Bytes beyond the limit, and the cost."""
        return max(0, trial.over(self.limit)), trial.outcome.cost

    def fits(self, trial: Trial | None) -> bool:
        """True if there is a packed schedule and it is within the limit."""
        return trial is not None and trial.over(self.limit) <= 0

    def settled(self, best: Trial) -> bool:
        """True if it fits at a cost that meets the bound, or nothing fits."""
        least = self.known.cost_bound(self.limit).cost
        proved = self.fits(best) and best.outcome.cost <= least
        return proved or self.known.none_within(self.limit)

    def most_cost(self, best: Trial | None) -> float:
        """Cost of the best packed schedule within the limit, else infinity."""
        return best.outcome.cost if best is not None and self.fits(best) else math.inf

    def promises(self, outcome: RematOutcome, best: Trial | None) -> bool:
        """True if the schedule is cheaper than the best packed one within the limit."""
        return outcome.cost < self.most_cost(best)


@dataclass(frozen=True, slots=True)
class LeastBytes:
    """The smallest packing at a cost of at most ``most``."""

    most: float
    known: KnownSchedules

    def levels(self, trial: Trial) -> tuple[bool, tuple[int | float, ...]]:
        """True if it costs too much, and the value of the packing."""
        return trial.outcome.cost > self.most, trial.packed.value

    def settled(self, best: Trial) -> bool:
        """True if the peak of the one pool meets the bound on all schedules."""
        return best.packed.pooled is None and best.packed.peak <= self.known.least.bytes

    def most_cost(self, best: Trial | None) -> float:
        """The limit on the cost."""
        return self.most

    def promises(self, outcome: RematOutcome, best: Trial | None) -> bool:
        """True unless it has at least as many live bytes as the best packing needs.

        With several pools or aliases, live bytes are no bound on a packing, so that it is true.
        """
        if best is None or best.packed.pooled is not None or not self.known.exact:
            return True
        return outcome.peak < best.packed.peak


class BestTrial:
    """The best packed schedule of a run, by its objective.

    Attributes
    ----------
    trial
        The best packed schedule; ``None`` if there is none yet.
    """

    def __init__(self, objective: Objective, trial: Trial | None = None):
        self.objective, self.trial = objective, trial
        self._tried = set() if trial is None else {trial.outcome.schedule}

    def offer(self, trial: Trial) -> None:
        """Take a trial if it is better."""
        self._tried.add(trial.outcome.schedule)
        if self.trial is None or self.objective.levels(trial) < self.objective.levels(self.trial):
            self.trial = trial

    def tried(self, outcome: RematOutcome) -> bool:
        """True if the schedule was already packed."""
        return outcome.schedule in self._tried

    def packing_of(self, outcome: RematOutcome) -> Packed | None:
        """The packing of a schedule if it is the best one, else ``None``."""
        if self.trial is None or self.trial.outcome.schedule != outcome.schedule:
            return None
        return self.trial.packed

    @property
    def settled(self) -> bool:
        """True if the search is over."""
        return self.trial is not None and self.objective.settled(self.trial)
