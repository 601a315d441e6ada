"""What a search for a sequence has found and proved."""

from __future__ import annotations

from typing import NamedTuple


class RematOutcome(NamedTuple):
    """The cheapest sequence within a memory limit, and a bound on every such sequence's cost.

    Attributes
    ----------
    sequence
        Units in order of execution, some of them repeated.
    peak
        Its live bytes at most, within the limit.
    cost
        What running it costs.
    bound
        No sequence within the limit costs less.
    found_by, bound_by
        What found the sequence; what proves the bound.
    """

    sequence: tuple[int, ...]
    peak: int
    cost: int | float
    bound: int | float
    found_by: str
    bound_by: str
