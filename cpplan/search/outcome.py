"""What a search on one part of a problem hands back."""

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
