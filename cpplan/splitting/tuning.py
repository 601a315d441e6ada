"""Thresholds and shares of the time of the search for pieces."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SplittingTuning:
    """Thresholds and shares of the time of the search for pieces.

    Attributes
    ----------
    unsplit_share
        Of the time, for the plan without pieces, which is a candidate and gives the order.
    regions_share
        Of what is left, for regions and their styles.
    most_cuts
        Places between steps at which regions may begin and end: those with the fewest live bytes.
    longest_region
        Steps of a region at most.
    strips
        Numbers of strips along an outer axis.
    most_labels
        Pairs of peak and cost that are kept at each place.
    most_pieces
        Pieces of a plan at most.
    candidates
        Choices of regions that are packed, for one point.
    coarser
        Steps at a time that replace finer ones where they need no more bytes.
    """

    unsplit_share: float = 0.2
    regions_share: float = 0.5
    most_cuts: int = 48
    longest_region: int = 120
    strips: tuple[int, ...] = (2, 3, 4, 5, 6, 8, 12, 16)
    most_labels: int = 120
    most_pieces: int = 12_000
    candidates: int = 4
    coarser: tuple[int, ...] = (16, 8, 4, 2, 1)
