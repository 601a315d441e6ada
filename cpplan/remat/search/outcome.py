"""The outcome of a search for a schedule: the schedule found and the bound proved."""

from __future__ import annotations

from typing import NamedTuple


class RematOutcome(NamedTuple):
    """The cheapest schedule within a memory limit, and a bound on every such schedule's cost.

    Attributes
    ----------
    schedule
        Units in order of execution, some of them repeated.
    peak
        The most bytes live at a position of it, within the limit.
    cost
        Cost of running it.
    bound
        Lower bound on the cost of every schedule within the limit.
    found_by, bound_by
        Names of the search that found the schedule, and of the bound's proof.
    """

    schedule: tuple[int, ...]
    peak: int
    cost: int | float
    bound: int | float
    found_by: str
    bound_by: str
