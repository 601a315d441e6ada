"""Thresholds and shares of the time of rematerialization."""

from __future__ import annotations

from dataclasses import dataclass

from cpplan.runtime.budget import tuned


@dataclass(frozen=True, slots=True)
class RematTuning:
    """Thresholds and shares of the time of rematerialization.

    Attributes
    ----------
    schedule_share
        Of what is left, for a schedule.
    missing_share
        The same, where none within the limit was found before.
    missing_near
        Live bytes of a schedule, as a multiple of the limit, from which on it is then searched for
        together with offsets.
    packing_share
        Of what is left, for packing a schedule.
    once_share
        Of what is left, for packing an order in which nothing runs again.
    order_share
        Where the cost is limited: for orders in which nothing runs again, and packing them.
    free_order_share
        The same, where only what costs nothing may run again.
    proof_share
        Of all, at the end: for a bound on the cost.
    small_share
        Of small problems: for all searches but the last, which tries short schedules one by one.
    together_share
        Where packing needed more than the limit: for schedule and offsets together.
    first_together_share
        The first time: a schedule of a little less may just pack.
    begin_share
        Of the time for least peak: for a first schedule that is cheap enough.
    descent_share
        There, for one with fewer live bytes, and for packing it, again and again.
    first_bisection_share
        Before, for limits halfway, which find what is far below at once or not at all.
    descending_share
        Of what is left, for going down; the rest is for limits halfway again.
    together_least
        Share of the time below which schedule and offsets together are not begun: with a thousand
        ops, that takes a second.
    together_units
        Units up to which schedule and offsets are searched for together.
    pack_work
        Seconds counted for packing a schedule, besides its search, where time is counted in work.
    bisections
        Peaks tried on the way to the least one under a cost limit.
    together_near
        Live bytes of a schedule, as a multiple of the limit, that may be brought below it with
        offsets.
    fall_back
        Where nothing fits yet: parts of the limit to stay below.
    fall_back_share
        Of the time, for all of them.
    first_fall_back_share
        The same, the first time.
    most_short
        Where all searches have ended: short schedules tried.
    short_share
        Of the time left, for packing each of them.
    more_turns
        There, turns of schedule and offsets together with other seeds.
    grace
        Seconds of heuristics for a schedule that is known but not yet packed after Ctrl-C.
    live_order_share
        Of the time for a schedule: for orders without repetition.
    start_share
        For starts. They end by themselves, mostly within a second: a busy machine must not cut them
        short, since what they lack nothing later makes up for.
    quick_start_share
        For starts where a cost is good enough: one limit of many is asked for.
    reach_share
        For a proof that there is no schedule.
    whole_share
        For CP-SAT on few units.
    bound_share
        For a bound on the cost.
    local_share
        For local search.
    windows_share
        For windows.
    halvings
        Limits tried for a start of least peak.
    start_near
        Live bytes of a start, as a multiple of the limit, that may be brought below it.
    walks
        Starts, each from another order, from which local search begins for a limit.
    skewed
        Cost of the dearest op, as a multiple of the median one, above which costs are skewed.
    cp_sat_units
        Units up to which CP-SAT is asked for the whole schedule.
    single_cut_share
        Of the time for a bound from cuts: for each unit alone.
    first_cut_share
        For the best of them in integers.
    relaxed_cuts_share
        For the relaxations of more cuts; the rest is for these in integers.
    cut_units
        Units up to which cuts are used: what precedes what is a matrix.
    cut_rows
        Rows of a model, up to which CP-SAT notices the time in its relaxation.
    cut_growth
        Times as long that a relaxation with twice the cuts takes, about.
    reach_states
        Sets of values looked at in the proof that there is no schedule.
    reach_states_of_one
        Of them, for one unit.
    near_enough
        Part of the limit within which two limits on live bytes are one.
    pools_step
        Part of the limit by which the next schedule has less, where several pools do not hold one.
    lp_variables
        Variables of Checkmate's linear relaxation at most.
    milp_variables
        Variables of Checkmate's mixed-integer program at most.
    most_retentions
        Retentions up to which they are separated.
    lp_threshold
        Part of a storage that the linear relaxation keeps, from which on it is retained.
    lp_step
        Part of the limit by which it is lowered at a time for rounding; Checkmate lowers it once,
        by a tenth.
    segments_growth
        Ratio of one number of segments of checkpoints to the next that is tried.
    long_start
        Runs of a start, as a multiple of the units, above which local search begins with its order
        alone.
    descent_step, descent_longest, descent_shortest
        Steps of the descent to the least peak, as parts of the peak: the first, the longest and the
        shortest.
    descent_longer, descent_shorter
        Factors of a step after a success and after a failure.
    descent_moves, descent_most_moves, descent_growth
        Moves for each unit in a step: of the first one and of the last; their growth where the
        shortest step failed.
    descent_step_share
        Of the time of a descent, for one step.
    local_first_moves, local_most_moves, local_growth
        Moves of local search for each position of the start: of the first round and of all rounds;
        their growth from round to round.
    local_most_work
        Positions looked at in all rounds where there is no time limit: some minutes.
    local_heats
        Temperatures at the start and at the end of a round, in mean costs of a unit.
    local_price
        Price of as many bytes as the limit beyond it at one position, in mean costs of a unit.
    local_price_factors
        Factors of the price after a call without a schedule within the limit, and after others.
    packed_first_moves, packed_most_moves, packed_growth
        Moves for each run in the search for schedule and offsets together: of the first round and
        of all rounds; their growth from round to round.
    packed_separations
        Moves for each retention that separate retentions with the schedule unchanged.
    packed_heats, packed_repair_heats, packed_warm_heats
        Temperatures at the start and at the end of a round: where the packing fits, in mean costs
        of a unit; where it does not, as parts of the limit shared; where shared bytes have a low
        price, in mean costs of a unit.
    packed_price, packed_warm_price
        First price of sharing as many bytes as the limit, in mean costs of a unit, and the low one.
    packed_fall, packed_rise
        Divisor of the price after a round that fits, and its factor after one that does not.
    packed_start_share, packed_repair_share, packed_warm_share
        Of what is left: for separating the start, for repairing it, and for rounds of low price.
    packed_near
        Part of the arena shared up to which a packing is repaired.
    packed_slack
        Part of the arena that schedules with fewer live bytes leave free at most: it costs runs.
    packed_turns, packed_fewer_share
        Such schedules tried, and the part of what is left for finding each.
    packed_room
        Runs of a schedule at most, as a multiple of the units and of the start.
    short_units, short_again
        Units up to which short schedules are tried, and runs in them beyond one of each unit: of
        more there are too many.
    window_runs, window_copies, window_work
        Runs in a window that CP-SAT solves anew, times that a unit may run there at most, and its
        deterministic time for it.
    evicted_orders
        Orders of starts along which values are evicted.
    alike_limits
        Parts of the limit to come below with equal parts alike, before members are taken back.
    dropping_longest, eviction_longest
        Runs, as a multiple of the units, above which a schedule of these heuristics is given up.
    """

    schedule_share: float = 0.3
    missing_share: float = 0.7
    missing_near: float = 1.003
    packing_share: float = 0.15
    once_share: float = 0.5
    order_share: float = 0.3
    free_order_share: float = 0.8
    proof_share: float = 0.08
    small_share: float = 0.5
    together_share: float = 0.85
    first_together_share: float = 0.3
    begin_share: float = 0.2
    descent_share: float = 0.5
    first_bisection_share: float = 0.25
    descending_share: float = 0.7
    together_least: float = 0.1
    together_units: int = 1_000_000
    pack_work: float = 0.02
    bisections: int = 8
    together_near: float = 1.05
    fall_back: tuple[float, ...] = (0.96, 0.92, 0.87, 0.8, 0.7)
    fall_back_share: float = 0.4
    first_fall_back_share: float = 0.15
    most_short: int = 500
    short_share: float = 0.1
    more_turns: int = 4
    grace: float = 1.0
    live_order_share: float = 0.5
    start_share: float = 0.8
    quick_start_share: float = 0.2
    reach_share: float = 0.05
    whole_share: float = 0.3
    bound_share: float = 0.2
    local_share: float = 0.6
    windows_share: float = 0.5
    halvings: int = 8
    start_near: float = 1.15
    walks: int = 3
    skewed: float = 30.0
    cp_sat_units: int = 80
    single_cut_share: float = 0.3
    first_cut_share: float = 0.15
    relaxed_cuts_share: float = 0.5
    cut_units: int = 10_000
    cut_rows: int = 20_000
    cut_growth: float = 5.0
    reach_states: int = 200_000
    reach_states_of_one: int = 50_000
    near_enough: float = 0.002
    pools_step: float = 0.03
    lp_variables: int = 200_000
    milp_variables: int = 60_000
    most_retentions: int = 6000
    lp_threshold: float = 0.5
    lp_step: float = 0.1
    segments_growth: float = 1.25
    long_start: float = 1.2
    descent_step: float = 0.1
    descent_longest: float = 0.15
    descent_shortest: float = 0.0005
    descent_longer: float = 1.5
    descent_shorter: float = 0.4
    descent_moves: int = 1000
    descent_most_moves: int = 20_000
    descent_growth: float = 1.5
    descent_step_share: float = 0.15
    local_first_moves: int = 300
    local_most_moves: int = 300_000
    local_growth: float = 1.5
    local_most_work: float = 1e10
    local_heats: tuple[float, ...] = (1.0, 0.003)
    local_price: float = 100.0
    local_price_factors: tuple[float, ...] = (1.1, 0.95)
    packed_first_moves: int = 300
    packed_most_moves: int = 100_000
    packed_growth: float = 1.5
    packed_separations: int = 1000
    packed_heats: tuple[float, ...] = (0.3, 0.01)
    packed_repair_heats: tuple[float, ...] = (1e-4, 4e-6)
    packed_warm_heats: tuple[float, ...] = (1.0, 0.01)
    packed_price: float = 20_000.0
    packed_warm_price: float = 1000.0
    packed_fall: float = 1.3
    packed_rise: float = 2.0
    packed_start_share: float = 0.1
    packed_repair_share: float = 0.3
    packed_warm_share: float = 0.15
    packed_near: float = 0.03
    packed_slack: float = 0.1
    packed_turns: int = 5
    packed_fewer_share: float = 0.5
    packed_room: int = 3
    short_units: int = 12
    short_again: int = 3
    window_runs: int = 40
    window_copies: int = 2
    window_work: float = 0.5
    evicted_orders: int = 2
    alike_limits: tuple[float, ...] = (1.0, 0.96, 0.92, 0.87, 0.81, 0.74)
    dropping_longest: int = 8
    eviction_longest: int = 12


def active() -> RematTuning:
    """The thresholds and shares in use: the defaults, or those of the call."""
    return tuned(RematTuning)
