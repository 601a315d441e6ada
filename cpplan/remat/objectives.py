"""The two objectives of rematerialization, and the best packed schedule of a run.

Either the least cost within a limit on bytes, or the fewest bytes within a limit on the cost.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from cpplan.aliasing.packed import Packed
from cpplan.remat.known_schedules import KnownSchedules, RematOutcome

# Share of the limit within which two limits on live bytes count as equal.
_NEAR_ENOUGH = 0.002
# Several pools: share of the limit by which the next schedule has fewer live bytes, if they do
# not hold the last one.
_POOLS_STEP = 0.03
# The least bound that counts for limits between it and the live bytes known, as their divisor.
_FARTHEST = 16


class Trial(NamedTuple):
    """A schedule, its packing, and the seconds that had; infinity if more would not help."""

    outcome: RematOutcome
    packed: Packed
    seconds: float = math.inf

    def over(self, limit: int) -> int:
        """Bytes beyond a limit; with several pools, a few percent of it if nothing fits."""
        if self.packed.pooled is None:
            return self.packed.peak - limit
        return 0 if self.packed.pooled.packing.offset is not None else int(_POOLS_STEP * limit) + 1


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
        # Schedule -> the most seconds in which it was packed.
        self._tried: dict[tuple[int, ...], float] = {}
        if trial is not None:
            self._tried[trial.outcome.schedule] = trial.seconds

    def offer(self, trial: Trial) -> None:
        """Take a trial if it is better."""
        schedule = trial.outcome.schedule
        self._tried[schedule] = max(trial.seconds, self._tried.get(schedule, 0.0))
        if self.trial is None or self.objective.levels(trial) < self.objective.levels(self.trial):
            self.trial = trial

    def tried(self, outcome: RematOutcome, seconds: float = 0.0) -> bool:
        """True if the schedule was already packed, and had at least half of these seconds."""
        return self._tried.get(outcome.schedule, -math.inf) >= 0.5 * seconds

    @property
    def settled(self) -> bool:
        """True if the search is over."""
        return self.trial is not None and self.objective.settled(self.trial)


@dataclass(slots=True)
class Halving:
    """Limits halfway between a lower bound and the live bytes of a known schedule.

    They are geometric means: the given order may need many times the least bytes.

    The caller calls :meth:`missed` if no schedule was found within a limit, else sets :attr:`high`.

    Attributes
    ----------
    low
        The smallest limit that a schedule may keep.
    high
        Live bytes of a known schedule.
    left
        Number of limits still to be tried, including the current one.
    """

    low: int
    high: int
    left: int

    def __iter__(self) -> Iterator[int]:
        while self.left > 0 and self.low < self.high:
            yield math.isqrt(max(self.low, self.high // _FARTHEST) * self.high)
            self.left -= 1

    def missed(self, limit: int) -> None:
        """Raise :attr:`low` above a limit for which no schedule was found."""
        self.low = limit + 1


class MovingLimit:
    """A limit on live bytes that moves until packings just fit the limit on the arena.

    A packing may need more bytes than are live, because of holes, or fewer, because of aliases. So
    the limit on live bytes falls by the bytes that a packing exceeded its limit, by twice as many
    after the second one and so on, or rises by the bytes it left free. Then it moves between limits
    that packed and limits that did not.

    Parameters
    ----------
    limit
        Limit on the bytes of all pools.
    least
        Lower bound on the live bytes of every schedule.
    sharing
        True if a packing may need fewer bytes than are live, because of aliases.

    Attributes
    ----------
    live
        The limit on live bytes for the next schedule.
    """

    def __init__(self, limit: int, least: int, *, sharing: bool):
        self.live = limit
        self._limit, self._least, self._sharing = limit, least, sharing
        # The largest limit on live bytes with a packing that fits, and the smallest without.
        self._fits: int | None = None
        self._fails: int | None = None
        # Times the bytes beyond the limit by which the limit on live bytes falls next.
        self._fall = 1

    def packed(self, live: int, over: int) -> None:
        """Move the limit after a packing, given its live bytes and its bytes beyond the limit."""
        within = max(self.live, live)
        if over > 0:
            self._fails = within if self._fails is None else min(within, self._fails)
            self.live = live - self._fall * over
            self._fall *= 2
            if self.live < self._least:
                self.live = (live + self._least) // 2
        else:
            self._fits = within if self._fits is None else max(within, self._fits)
            self.live = within - over if self._sharing else within
        if self._fits is not None and self._fails is not None:
            near = self._fails - self._fits <= _NEAR_ENOUGH * self._limit
            self.live = self._fits if near else (self._fits + self._fails) // 2
