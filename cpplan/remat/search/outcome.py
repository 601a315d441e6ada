"""The outcome of a search for a sequence: the sequence found and the bound proved."""

from __future__ import annotations

from typing import NamedTuple


class RematOutcome(NamedTuple):
    """The cheapest sequence within a memory limit, and a bound on every such sequence's cost.

    Attributes
    ----------
    sequence
        Units in order of execution, some of them repeated.
    peak
        The most bytes live at a position of it, within the limit.
    cost
        Cost of running it.
    bound
        Lower bound on the cost of every sequence within the limit.
    found_by, bound_by
        Names of the search that found the sequence, and of the bound's proof.
    """

    sequence: tuple[int, ...]
    peak: int
    cost: int | float
    bound: int | float
    found_by: str
    bound_by: str
