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
    no_strips
        Share of the bytes at its ends by which a region's peak must exceed them, to be worth
        strips.
    most_labels
        Pairs of peak and cost that are kept at each place.
    most_pieces
        Pieces of a plan at most.
    coarser
        Steps at a time that are tried besides single ones.
    looser
        Peaks, as multiples of the smallest estimate, within which the fewest pieces are packed, in
        this order: few large buffers leave fewer holes.
    levels
        Pairs of peak and cost for each of these multiples.
    once_share
        Of the time left, if pieces may run again, for those that run once, and then for those whose
        halos do.
    rooms
        Peaks within which the fewest pieces are looked for if each of them costs bytes besides.
    packing_share
        Of the time left, for each packing, if it needs no more.
    limit_share
        Of the time left, for each cost at which a plan may fit into a limit.
    slower
        Time that must be left to pack a graph of pieces, as a multiple of that to derive it.
    """

    unsplit_share: float = 0.2
    regions_share: float = 0.4
    most_cuts: int = 48
    longest_region: int = 120
    strips: tuple[int, ...] = (2, 3, 4, 5, 6, 8, 12, 16)
    no_strips: float = 0.01
    most_labels: int = 120
    most_pieces: int = 4_000
    coarser: tuple[int, ...] = (1, 2, 4, 8, 16)
    looser: tuple[float, ...] = (1.2, 1.06, 1.0, 1.12, 1.5, 2.0)
    levels: int = 4
    once_share: float = 0.4
    rooms: int = 32
    packing_share: float = 0.03
    limit_share: float = 0.35
    slower: float = 15.0
