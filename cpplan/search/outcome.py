"""What searches hand back: the best they know, and who found and proved it."""

from __future__ import annotations

from typing import NamedTuple

from cpplan.problem import Ints


class Outcome(NamedTuple):
    """The best offsets known (bytes), the best bound, and what found and proved them, if we did."""

    offsets: Ints
    peak: int
    bound: int
    found_by: str | None = None
    bound_by: str | None = None


class OrderOutcome(NamedTuple):
    """The best order known, shape ``(ops,)``, its peak, and every order's bound, bytes."""

    order: Ints
    peak: int
    bound: int
    found_by: str
    bound_by: str
