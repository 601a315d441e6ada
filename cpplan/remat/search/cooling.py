"""Temperatures of an annealing round that ends after a number of moves or when time is up.

A round that ends while it is hot gains nothing. So it cools by its moves or, if time would end it
first, by the time: on a busy machine, rounds are shorter but still complete.
"""

from __future__ import annotations

import math

from cpplan.runtime.deadline import Deadline


class Cooling:
    """Temperatures from ``hot`` to ``cold`` over a number of calls, or over the time left.

    Parameters
    ----------
    hot, cold
        The first temperature and the last.
    calls
        Number of calls of the loop that makes the moves.
    deadline
        Ends the round.

    Examples
    --------
    >>> deadline = Deadline(10, deterministic=True)
    >>> cooling = Cooling(1.0, 0.01, 4, deadline)
    >>> [round(temperature, 3) for temperature in cooling.step(0)]
    [1.0, 0.316]
    >>> deadline.spend(5)  # half of the time for a quarter of the moves
    >>> [round(temperature, 3) for temperature in cooling.step(1)]
    [0.1, 0.01]
    """

    def __init__(self, hot: float, cold: float, calls: int, deadline: Deadline):
        self._hot, self._fall, self._calls = hot, cold / hot, calls
        self._deadline, self._time = deadline, deadline.remaining()

    def step(self, call: int) -> tuple[float, float]:
        """Temperatures at the begin and at the end of a call; calls count from 0."""
        begin = call / self._calls
        if call and 0 < self._time < math.inf:
            begin = max(begin, 1 - self._deadline.remaining() / self._time)
        # Expect the call to take as long as the mean of the calls before.
        end = min(1.0, begin + max(1 / self._calls, begin / max(1, call)))
        return self._hot * self._fall**begin, self._hot * self._fall**end
