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
    steepest
        Share of the live bytes below which an op must leave them for regions to end before it.
    brought_forward
        Bytes that ops may make earlier to run together, where they write one storage in turn, as a
        share of the most live between two steps.
    hills, foot
        The highest hills of live bytes at whose feet regions may begin and end, besides; the share
        of a hill's bytes that are at its foot at most.
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
        Steps at a time that are tried, all of which may be pieces.
    coarsest
        Numbers of pieces of an axis that are tried, too, if they have more steps.
    most_elements
        Single steps of all ops at most, for their order to be searched.
    looser
        Peaks, as multiples of the smallest estimate, within which the fewest pieces are packed
        first, in this order: few large buffers leave fewer holes.
    room_ratio
        Ratio of the peaks that are tried besides.
    cost_levels
        Costs, as multiples of that of running every op once, within which pieces are the fewest.
    trials_share
        Of the time left, for plans by heuristics alone.
    most_packed_again, again_share
        Plans that are packed again besides the best of each cost level, and the share of the time
        left for each.
    once_share
        Of the time left, if pieces may run again, for those that run once, and then for those whose
        halos do.
    whole_again_share
        Of the time left then, for whole ops that run again.
    limit_share
        Of the time left, for each cost at which a plan may fit into a limit.
    curve_limits, curve_share
        Limits on the cost that are tried for each point of a curve, and the share of the time for
        them; in what is left, the plans that are chosen are packed again.
    checked
        Time kept to check the plan in the end, as a multiple of that to derive its pieces.
    slower
        Time that must be left to pack a graph of pieces by heuristics, as a multiple of that to
        derive it.
    work_per_region, work_per_piece
        Deterministic seconds of work for the styles of a region, and for a piece of a plan.
    """

    unsplit_share: float = 0.2
    regions_share: float = 0.4
    most_cuts: int = 48
    steepest: float = 0.2
    brought_forward: float = 0.05
    hills: int = 8
    foot: float = 0.25
    longest_region: int = 120
    strips: tuple[int, ...] = (2, 3, 4, 5, 6, 8, 12, 16)
    no_strips: float = 0.01
    most_labels: int = 120
    most_pieces: int = 16_000
    most_elements: int = 32
    coarser: tuple[int, ...] = (1, 2, 4, 8, 16)
    coarsest: tuple[int, ...] = (16, 8, 4)
    looser: tuple[float, ...] = (1.2, 1.06, 1.0, 1.12, 1.5, 2.0)
    room_ratio: float = 1.04
    cost_levels: tuple[float, ...] = (
        1.0, 1.005, 1.01, 1.02, 1.03, 1.05, 1.07, 1.1, 1.15, 1.2, 1.3, 1.4, 1.5, 1.75, 2.0, 3.0
    )  # fmt: skip
    trials_share: float = 0.6
    most_packed_again: int = 6
    again_share: float = 0.25
    once_share: float = 0.4
    whole_again_share: float = 0.3
    limit_share: float = 0.35
    curve_limits: int = 2
    curve_share: float = 0.75
    checked: float = 4.5
    slower: float = 3.0
    work_per_region: float = 0.002
    work_per_piece: float = 1e-4
