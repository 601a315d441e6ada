"""Thresholds and shares of the time of the search for pieces."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SplittingTuning:
    """Thresholds and shares of the time of the search for pieces.

    Attributes
    ----------
    unsplit_share
        Share of the time for the plan without pieces, a candidate that also gives the order.
    regions_share
        Share of the time left for regions and their styles.
    most_cuts
        Places between steps at which regions may begin and end: those with the fewest live bytes.
    steepest
        Regions may end before an op that leaves less than this share of the live bytes.
    brought_forward
        Ops that write one storage in turn are moved together if they then make at most this share
        of the most live bytes earlier.
    hills, foot
        Number of the highest hills of live bytes at whose feet regions may also begin and end;
        largest share of a hill's bytes that counts as its foot.
    longest_region
        Most steps of a region.
    strips
        Numbers of strips along an outer axis.
    no_strips
        Strips are tried only if a region's peak exceeds the bytes at its ends by this share.
    others_share
        Share of the time left for regions, once none lowers the least peak, for regions that may
        need fewer pieces or less work.
    looser_ends
        Regions that do not lower the least peak are tried if fewer bytes are live at their ends
        than this multiple of it.
    most_labels
        Most pairs of peak and cost kept at each place.
    most_pieces, most_pieces_an_op
        Most pieces of a plan: this number, or this multiple of the number of ops if that is more.
    coarser
        Numbers of steps that the last op runs at a time.
    coarsest
        Numbers of pieces into which an axis is also cut, if the pieces are longer than these.
    most_elements
        Most single steps of all ops whose order is searched.
    looser
        Multiples of the smallest estimated peak. The divisions with the fewest pieces within these
        peaks are packed first, in this order: a few large buffers leave fewer holes.
    room_ratio
        Ratio between neighbours in the grid of all other peaks tried.
    cost_levels
        Grid of costs, as multiples of the cost of running every op once.
    trials_share
        Share of the time left for plans by heuristics alone.
    most_packed_again, again_share
        Number of plans that are packed again, besides the best of each cost level; share of the
        time left for each.
    once_share
        If pieces may run again: share of the time left for plans in which each piece runs once,
        and then for plans in which halos run again.
    whole_again_share
        Share of the time then left for plans in which whole ops run again.
    limit_share
        Share of the time left for each cost at which a plan may fit into a limit.
    curve_limits, curve_share
        Number of cost limits tried for each point of a curve; share of the time for them. In the
        rest of the time, the chosen plans are packed again.
    checked
        Time reserved to check the plan, as a multiple of the time to derive its pieces.
    slower
        Time needed to pack a graph of pieces by heuristics, as a multiple of the time to derive it.
    seconds_an_op
        Least seconds for each op to begin the search, and to check the bound that it proves.
    first_derived
        Time expected to derive the first pieces of many ops, as a multiple of the time to build the
        problem.
    work_per_region, work_per_piece
        Seconds of work, in deterministic mode, for the styles of a region and for a piece.
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
    others_share: float = 0.7
    looser_ends: float = 1.2
    most_labels: int = 120
    most_pieces: int = 16_000
    most_pieces_an_op: int = 2
    most_elements: int = 32
    coarser: tuple[int, ...] = (1, 2, 4, 8, 16)
    coarsest: tuple[int, ...] = (16, 8, 4)
    looser: tuple[float, ...] = (1.2, 1.06, 1.0, 1.12, 1.5, 2.0)
    room_ratio: float = 1.04
    cost_levels: tuple[float, ...] = (
        1.0, 1.005, 1.01, 1.02, 1.03, 1.05, 1.07, 1.1, 1.15, 1.2, 1.3, 1.4, 1.5, 1.75, 2.0, 3.0
    )  # fmt: skip
    trials_share: float = 0.5
    most_packed_again: int = 6
    again_share: float = 0.25
    once_share: float = 0.4
    whole_again_share: float = 0.3
    limit_share: float = 0.35
    curve_limits: int = 2
    curve_share: float = 0.75
    checked: float = 4.5
    slower: float = 3.0
    seconds_an_op: float = 16e-6
    first_derived: float = 4.0
    work_per_region: float = 0.002
    work_per_piece: float = 1e-4
