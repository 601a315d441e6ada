"""Sequences of limits on live bytes for the search for schedules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cpplan.remat.tuning import active


@dataclass(slots=True)
class Halving:
    """Limits halfway between a lower bound and the live bytes of a known schedule.

    The caller calls :meth:`missed` if no schedule was found within a limit, else sets :attr:`high`.

    Attributes
    ----------
    low
        The smallest limit that a schedule may keep.
    high
        Live bytes of a known schedule.
    left
        Number of limits still to be tried, including the current one.

    Examples
    --------
    >>> limits = Halving(0, 16, 8)
    >>> for limit in limits:  # that can be kept from 11 on
    ...     print(limit)
    ...     if limit < 11:
    ...         limits.missed(limit)
    ...     else:
    ...         limits.high = limit
    8
    12
    10
    11
    """

    low: int
    high: int
    left: int

    def __iter__(self) -> Iterator[int]:
        while self.left > 0 and self.low < self.high:
            yield (self.low + self.high) // 2
            self.left -= 1

    def missed(self, limit: int) -> None:
        """Raise :attr:`low` above a limit for which no schedule was found."""
        self.low = limit + 1


class MovingLimit:
    """A limit on live bytes that moves until packings just fit the limit on the arena.

    A packing may need more bytes than are live, because of holes, or fewer, because of aliases. So
    the limit on live bytes falls by the bytes that a packing exceeded its limit, or rises by the
    bytes it left free. Then it moves between limits that packed and limits that did not.

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

    Examples
    --------
    >>> moving = MovingLimit(100, 40, sharing=False)
    >>> moving.packed(live=98, over=5)
    >>> moving.live
    93
    >>> moving.packed(live=91, over=-1)
    >>> moving.live
    96
    """

    def __init__(self, limit: int, least: int, *, sharing: bool):
        self.live = limit
        self._limit, self._least, self._sharing = limit, least, sharing
        # The largest limit on live bytes with a packing that fits, and the smallest without.
        self._fits: int | None = None
        self._fails: int | None = None

    def packed(self, live: int, over: int) -> None:
        """Move the limit after a packing, given its live bytes and its bytes beyond the limit."""
        within = max(self.live, live)
        if over > 0:
            self._fails = within if self._fails is None else min(within, self._fails)
            self.live = live - over
            if self.live < self._least:
                self.live = (live + self._least) // 2
        else:
            self._fits = within if self._fits is None else max(within, self._fits)
            self.live = within - over if self._sharing else within
        if self._fits is not None and self._fails is not None:
            near = self._fails - self._fits <= active().near_enough * self._limit
            self.live = self._fits if near else (self._fits + self._fails) // 2
