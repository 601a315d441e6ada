"""Limits on live bytes to search for schedules within, one after another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cpplan.remat.tuning import active


@dataclass(slots=True)
class Halving:
    """Limits halfway between what no schedule may have and what one has.

    Whoever iterates says by :meth:`missed` that a limit was not kept, and sets :attr:`high` where
    it was.

    Attributes
    ----------
    low
        The smallest limit that may be kept.
    high
        Live bytes of a known schedule.
    left
        The most limits still to be tried, this one included.

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
        """Take it that no schedule with so few live bytes will be found."""
        self.low = limit + 1


class MovingLimit:
    """A limit on live bytes that moves until packings just fit another limit.

    A packing may need more bytes than are live, for holes, or fewer, where bytes are shared. So the
    limit on live bytes goes down by the bytes that a packing had too many, up by those it had left,
    and then between limits that packed and limits that did not.

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
        # The largest limit on live bytes under which a packing fitted, the smallest where not.
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
