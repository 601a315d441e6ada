"""Thresholds and shares of the time of the search for pieces."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SplittingTuning:
    """Thresholds and shares of the time of the search for pieces.

    Attributes
    ----------
    strips
        Numbers of strips along an outer axis.
    most_elements, most_lines
        Most single steps, and most lines along one axis, of all ops whose order is searched.
    most_halves
        Most pieces into which the pieces of the best plan are cut in two.
    most_packed_again
        Number of plans that are packed again, besides the best of each cost level; share of the
        time left for each.
    seconds_an_op
        Least seconds for each op to begin the search, and to check the bound that it proves.
    """

    strips: tuple[int, ...] = (2, 3, 4, 5, 6, 8, 12, 16)
    most_elements: int = 32
    most_lines: int = 800
    most_halves: int = 1000
    most_packed_again: int = 6
    seconds_an_op: float = 16e-6
