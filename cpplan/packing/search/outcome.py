"""Outcomes of searches: the best solution, its bound, and the names of their sources."""

from __future__ import annotations

from typing import NamedTuple

from cpplan.model.certificates import Certificate
from cpplan.model.problem import Ints


class Outcome(NamedTuple):
    """Best offsets (bytes) and bound, and the methods that found and proved them, if searches."""

    offsets: Ints
    peak: int
    bound: int
    found_by: str | None = None
    bound_by: str | None = None

    def merged(self, other: Outcome) -> Outcome:
        """The better packing and the better bound of both."""
        merged = self
        if other.peak < merged.peak:
            merged = merged._replace(
                offsets=other.offsets, peak=other.peak, found_by=other.found_by
            )
        if other.bound > merged.bound:
            merged = merged._replace(bound=other.bound, bound_by=other.bound_by)
        return merged


class OrderOutcome(NamedTuple):
    """Best order, shape ``(ops,)``, its peak, and a bound on the peak of all orders, bytes.

    The ``certificate`` proves the bound if it is a minimum cut of the whole problem, or names the
    op that needs these bytes.
    """

    order: Ints
    peak: int
    bound: int
    found_by: str
    bound_by: str
    certificate: Certificate | None = None
