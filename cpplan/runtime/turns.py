"""The loop of a search in turns, each longer than the one before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from cpplan.runtime.deadline import Deadline

# Counted seconds of a turn besides its work: turns that find nothing to do must end, too.
_TURN = 1e-4


class Turn(Enum):
    """The next turn after one that has ended: equally long, longer, or none."""

    AGAIN = "again"
    LONGER = "longer"
    LAST = "last"


@dataclass(slots=True)
class Turns:
    """Turns of growing effort, since it is not known beforehand which search will be quick.

    Attributes
    ----------
    longest
        Largest effort of a turn.
    last
        Effort of the last turn: the search ends after it, if given.
    growth
        Effort of a turn as a multiple of the one before.
    effort
        Effort of the next turn; the first turn has 1.
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
        """Take turns until done, exhausted or ended by a turn; it can be called again."""
        while not (done() or self.exhausted):
            deadline.check(_TURN)
            following = turn(self.effort)
            if following is Turn.LAST:
                return
            if following is Turn.LONGER:
                self.effort = min(self.growth * self.effort, self.longest)
