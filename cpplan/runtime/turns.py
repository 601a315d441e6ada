"""The loop of searches that take turns, each longer than the last."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from cpplan.runtime.deadline import Deadline


class Turn(Enum):
    """The turn to follow one that has ended: as long, longer, or none."""

    AGAIN = "again"
    LONGER = "longer"
    LAST = "last"


@dataclass(slots=True)
class Turns:
    """Turns of growing effort, since it is not known beforehand which search will be quick.

    Attributes
    ----------
    longest
        No turn has a larger effort.
    last
        The search ends after the turn of this effort, if given.
    growth
        Effort of a turn as a multiple of the one before.
    effort
        Of the next turn; the first has 1.

    Examples
    --------
    >>> efforts = []
    >>> def turn(effort):
    ...     efforts.append(effort)
    ...     return Turn.LONGER
    >>> Turns(longest=8).run(turn, lambda: len(efforts) == 4, Deadline(60))
    >>> efforts
    [1, 4, 8, 8]
    """

    longest: int
    last: int | None = None
    growth: int = 4
    effort: int = 1

    @property
    def exhausted(self) -> bool:
        """True if the turn of the last effort has ended."""
        return self.last is not None and self.effort > self.last

    def run(
        self, turn: Callable[[int], Turn], done: Callable[[], bool], deadline: Deadline
    ) -> None:
        """Take turns until done or exhausted, or one is the last; it can be called again.

        Raises
        ------
        TimeUpError
            If nothing is left of the deadline.
        """
        while not (done() or self.exhausted):
            deadline.check()
            following = turn(self.effort)
            if following is Turn.LAST:
                return
            if following is Turn.LONGER:
                self.effort = min(self.growth * self.effort, self.longest)
