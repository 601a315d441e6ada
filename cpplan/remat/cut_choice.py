"""Choice of the cuts that together bound the cost of schedules most.

Few cuts are enough, if they are the right ones: after each, other units must run again. A unit is a
candidate if it leaves little room for all else: in its part of the listed order, it accesses the
most bytes, or has the most live in every order. First every candidate is tried as the only cut; its
linear program says how often each unit runs again. Further cuts are units that access more than
their neighbours, since what they force to run again may have to run a third time, or at which the
best schedule known is fuller than at its neighbours; and candidates after which units run again
that do not yet run again with the cuts chosen. The one that is expected to gain most is next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple, Protocol

import numpy as np

from cpplan.model.remat_problem import RematProblem
from cpplan.ordering.bounds import order_bounds
from cpplan.remat.footprint import accessed_bytes
from cpplan.runtime.deadline import Deadline

# Parts of the listed order, each with two candidates.
_PARTS = 24
# Units up to which each is a candidate.
_FEW_UNITS = 64
# Neighbours on either side that access no more bytes than a candidate.
_NEIGHBOURS = 3
# Share of the time for candidates as the only cut.
_ALONE_SHARE = 0.4
# Expected gain of a unit that accesses as much as may be live, as a part of the cost proved. Of the
# bytes live there in the best schedule known, this part counts as accessed at least.
_ACCESS_GAIN, _LIVE_ACCESSED = 0.1, 0.3
# Expected gain of a cut after which, if it is the only one, other units run again, as a part of
# their cost.
_AGAIN_GAIN = 0.05
# Factor of the expected gain after each cut that gained nothing.
_FADING = 0.25
# Part of the cost proved that a further cut must be expected to add, and must add.
_LEAST_EXPECTED, _LEAST_GAIN = 1e-3, 5e-3
# A set with one more cut takes at most about so many times as long.
_MORE_TIME = 2.0
# The same of a set of as many cuts as there may be.
_ALL_TIME = 16.0
# Further cuts, one after another, that gain nothing before the choice ends.
_MOST_FAILED = 12
# Cuts that a set grows to at most.
_MOST_CUTS = 16


class Tried(NamedTuple):
    """The result of a linear program at some cuts.

    Attributes
    ----------
    cuts
        The cuts that the proof needs.
    extra
        Bound on the cost beyond that of every unit once.
    again
        Runs of each unit beyond its first, in the program's solution.
    """

    cuts: tuple[int, ...]
    extra: float
    again: np.ndarray


class Relaxing(Protocol):
    """A search for a bound within one limit, which tries sets of cuts."""

    def relax(self, cuts: tuple[int, ...], deadline: Deadline, /) -> Tried | None:
        """Try some cuts; ``None`` if that proves nothing."""

    @property
    def settled(self) -> bool:
        """True if the bound is good enough."""


class CutChoice:
    """Sets of cuts that prove more and more within one limit.

    Parameters
    ----------
    problem
        A problem whose precedences have no cycle.
    before
        Precedences of first runs: cuts must be in such an order.
    order
        All units in the order of their first runs, if only such schedules count.
    schedule
        The best schedule known; empty if there is none.
    """

    def __init__(
        self,
        problem: RematProblem,
        before: np.ndarray,
        order: Sequence[int] | None,
        schedule: Sequence[int] = (),
    ):
        self.before, self._cost = before, np.array(problem.cost, np.float64)
        accessed, live = accessed_bytes(problem).astype(np.float64), _live_before(problem, schedule)
        listed = np.arange(len(problem)) if order is None else np.array(order, np.int64)
        self._listed = listed
        self._first = _fullest_of_parts(listed, _needs(problem, order), accessed)
        runs = np.array(list(dict.fromkeys(schedule)), np.int64)
        peaks = chain(_local_peaks(listed, accessed), _local_peaks(runs, live))
        self._peaks = list(dict.fromkeys(peaks))
        self._accessed = np.maximum(accessed, _LIVE_ACCESSED * live)
        self._alone: dict[int, Tried] = {}
        # Seconds that the last cuts took.
        self._took = 0.0
        # Times that each unit gained nothing as a further cut.
        self._failed: dict[int, int] = {}

    def grow(self, search: Relaxing, limit: int, deadline: Deadline) -> Iterator[Tried]:
        """Yield sets of cuts, each with a larger bound than the one before."""
        best = self._begin(search, deadline)
        if best is None:
            return
        yield best
        failed, longer, filled, fruitless = self._failed, _MORE_TIME, False, 0
        while len(best.cuts) < _MOST_CUTS and not search.settled:
            unit = self._next(best, limit) if fruitless < _MOST_FAILED else None
            if unit is None and not filled:
                filled, longer, cuts = True, _ALL_TIME, self._filled(best.cuts)
            elif unit is not None:
                cuts = self._with(best.cuts, unit)
            else:
                break
            if deadline.remaining() <= longer * self._took:
                break
            tried = self._relax(search, cuts, deadline)
            useless = set() if unit is None else {unit}
            if tried is not None and tried.extra > best.extra * (1 + _LEAST_GAIN):
                best, useless, longer = tried, set(cuts).difference(tried.cuts), _MORE_TIME
                fruitless = 0
                yield best
            else:
                longer, fruitless = 1.0, fruitless + 1
            failed.update((cut, failed.get(cut, 0) + 1) for cut in useless)
        while not search.settled and deadline.remaining() > self._took:
            # The same cuts, with rows rounded that the last solution missed.
            tried = self._relax(search, best.cuts, deadline)
            if tried is None or tried.extra <= best.extra * (1 + _LEAST_GAIN):
                return
            yield (best := tried)

    def _relax(self, search: Relaxing, cuts: tuple[int, ...], deadline: Deadline) -> Tried | None:
        """Try some cuts, and note the time."""
        before = deadline.remaining()
        tried = search.relax(cuts, deadline)
        self._took = before - deadline.remaining()
        return tried

    def _begin(self, search: Relaxing, deadline: Deadline) -> Tried | None:
        """The best single cut."""
        slot = deadline.share(_ALONE_SHARE)
        for unit in self._first:
            if slot.remaining() <= self._took or search.settled:
                break
            if unit not in self._alone and (tried := self._relax(search, (unit,), slot)):
                self._alone[unit] = tried
        return max(self._alone.values(), key=lambda tried: tried.extra, default=None)

    def _next(self, best: Tried, limit: int) -> int | None:
        """The unit that is expected to gain most as a further cut."""
        gains = {
            unit: _AGAIN_GAIN * float(self._cost @ np.maximum(0.0, tried.again - best.again))
            for unit, tried in self._alone.items()
        }
        for unit in self._peaks:
            more = _ACCESS_GAIN * best.extra * float(self._accessed[unit]) / max(limit, 1)
            gains[unit] = gains.get(unit, 0.0) + more
        expected = {
            unit: gain * _FADING ** self._failed.get(unit, 0)
            for unit, gain in gains.items()
            if unit not in best.cuts and self._in_order(best.cuts, unit)
        }
        least = _LEAST_EXPECTED * best.extra
        worthwhile = [unit for unit, gain in expected.items() if gain > least]
        return max(worthwhile, key=expected.__getitem__, default=None)

    def _filled(self, cuts: tuple[int, ...]) -> tuple[int, ...]:
        """The cuts, and more candidates and other units beside them."""
        for unit in (*self._first, *self._peaks, *self._listed.tolist()):
            if len(cuts) >= _MOST_CUTS:
                break
            if unit not in cuts and self._in_order(cuts, unit):
                cuts = self._with(cuts, unit)
        return cuts

    def _in_order(self, cuts: tuple[int, ...], unit: int) -> bool:
        """True if a unit runs first before or after each of the cuts, in every schedule."""
        return all(self.before[unit, cut] or self.before[cut, unit] for cut in cuts)

    def _with(self, cuts: tuple[int, ...], unit: int) -> tuple[int, ...]:
        place = sum(bool(self.before[cut, unit]) for cut in cuts)
        return (*cuts[:place], unit, *cuts[place:])


def _needs(problem: RematProblem, order: Sequence[int] | None) -> np.ndarray:
    """Bytes live at each unit if nothing runs twice, in the given order or in every order."""
    if order is None:
        return order_bounds(problem.ordering).forced.astype(np.float64)
    needs = np.zeros(len(problem))
    needs[list(order)] = problem.pressure(tuple(order))
    return needs


def _live_before(problem: RematProblem, schedule: Sequence[int]) -> np.ndarray:
    """The most bytes live at each unit's first run, or since the first run before it."""
    live, most = np.zeros(len(problem)), 0
    ran: set[int] = set()
    pressure = problem.pressure(schedule).tolist() if schedule else []
    for unit, now in zip(schedule, pressure, strict=True):
        most = max(most, now)
        if unit not in ran:
            live[unit], most = most, 0
            ran.add(unit)
    return live


def _fullest_of_parts(listed: np.ndarray, *rankings: np.ndarray) -> list[int]:
    """The units of each part of the listed order with the most bytes of each ranking in turn.

    A unit that accesses much leaves little room for all else, also where little is live in every
    order: what waits to be read may run before it, or after.
    """
    few = len(listed) <= _FEW_UNITS
    parts = np.array_split(listed, len(listed) if few else _PARTS)
    fullest = ([int(part[ranking[part].argmax()]) for part in parts] for ranking in rankings)
    ranked = (
        sorted(units, key=lambda unit: -ranking[unit])
        for units, ranking in zip(fullest, rankings, strict=True)
    )
    return list(dict.fromkeys(chain.from_iterable(zip(*ranked, strict=True))))


def _local_peaks(listed: np.ndarray, needed: np.ndarray) -> list[int]:
    """Units that need more than some and no less than all of their neighbours."""
    found = []
    along = needed[listed]
    for place, unit in enumerate(listed.tolist()):
        near = along[max(0, place - _NEIGHBOURS) : place + _NEIGHBOURS + 1]
        if near.min() < along[place] >= near.max():
            found.append(unit)
    return found
