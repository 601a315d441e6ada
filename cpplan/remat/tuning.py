"""Thresholds and shares of the time of rematerialization."""

from __future__ import annotations

from dataclasses import dataclass

from cpplan.runtime.budget import tuned


@dataclass(frozen=True, slots=True)
class RematTuning:
    """Thresholds and shares of the time of rematerialization.

    Attributes
    ----------
    seconds_an_op
        Least seconds for each op to begin the search, to find something, and to check the plan.
    checked
        Time for making and checking the plan of many ops, as a multiple of the time to begin the
        search.
    footprint_share
        Share of the time left for the bytes that every schedule of many units needs.
    schedule_share
        Share of the time left for a schedule.
    missing_share
        Share of the time left for a schedule if none within the limit was found before.
    missing_near
        Largest live bytes of such a schedule, as a multiple of the limit, from which schedule and
        offsets are searched for together.
    packing_share
        Share of the time left for packing a schedule.
    once_share
        Share of the time left for packing an order without repetitions.
    order_share
        Limited cost: share of the time for orders without repetitions, and for packing them.
    free_order_share
        The same, if only units without cost may run again.
    proof_share
        Share of the whole time, at the end, for a bound on the cost.
    small_share
        Small problems: share of the time before short schedules are tried one by one.
    together_share
        Share of the time for schedule and offsets together, after a packing exceeded the limit.
    first_together_share
        The same, the first time: a schedule with slightly fewer live bytes may pack.
    begin_share
        Least peak: share of the time for a first schedule within the cost.
    descent_share
        Least peak: share of the time for a schedule with fewer live bytes, and for packing it.
    first_bisection_share
        Least peak: share of the time, at first, for limits halfway. They find schedules far below
        at once or not at all.
    descending_share
        Least peak: share of the time left for the descent; the rest is for limits halfway again.
    together_least
        Share of the time below which schedule and offsets together are not searched: with a
        thousand ops, the start takes a second.
    together_units
        Units up to which schedule and offsets are searched for together.
    pack_work
        Seconds for packing a schedule, besides its search, for deadlines that count work.
    bisections
        Peaks tried on the way to the least one within a cost.
    together_near
        Largest live bytes of a schedule, as a multiple of the limit, that schedule and offsets
        together may bring below it.
    fall_back
        Limits to try if nothing fits yet, as shares of the limit.
    fall_back_share
        Share of the time for all of them.
    first_fall_back_share
        The same, the first time.
    most_short
        Most short schedules tried after all searches have ended.
    short_share
        Share of the time left for packing each of them.
    more_turns
        Turns of schedule and offsets together with other seeds, after all searches have ended.
    grace
        Seconds for packing a known schedule by heuristics after Ctrl-C.
    live_order_share
        Share of a schedule's time for orders without repetition.
    start_share
        Share for starts. They end by themselves, mostly within a second. A busy machine must not
        cut them short, since no later search makes up for them.
    quick_start_share
        Share for starts if a target cost is given: then this is one limit of many.
    reach_share
        Share for a proof that there is no schedule.
    whole_share
        Share for CP-SAT on the whole schedule, if there are few units.
    bound_share
        Share for a bound on the cost.
    local_share
        Share for local search.
    windows_share
        Share for windows.
    halvings
        Limits tried for a start of least peak, each halfway.
    cut_share
        Least peak: share of the time of starts for minimum cuts.
    even_limits, even_share
        Limits at equal ratios for which values are evicted then, and the part of the time left.
    start_near
        Largest live bytes of a start, as a multiple of the limit, that may be brought below it.
    walks
        Starts of local search for a limit, each from another order.
    skewed
        Largest cost of an op, as a multiple of the median, above which costs are skewed.
    cp_sat_units
        Units up to which CP-SAT searches for the whole schedule.
    single_cut_share
        Bound from cuts: share of its time for each unit as the only cut.
    first_cut_share
        Bound from cuts: share for the best single cut in integers.
    relaxed_cuts_share
        Bound from cuts: share for relaxations of more cuts; the rest is for integers.
    floor_share, floor_steps
        Least bytes at first runs: share of the time, and most limits tried for a proof.
    cut_units
        Units up to which cuts are used: precedences are stored as a matrix.
    cut_rows
        Rows of a model up to which CP-SAT keeps the time limit during its relaxation.
    cut_growth
        Approximate factor by which twice the cuts make a relaxation slower.
    reach_states
        Sets of values visited in the proof that there is no schedule.
    reach_states_of_one
        Sets of values visited for one unit.
    near_enough
        Share of the limit within which two limits on live bytes count as equal.
    pools_step
        Several pools: share of the limit by which the next schedule has fewer live bytes, if they
        do not hold the last one.
    lp_variables
        Most variables of Checkmate's linear relaxation.
    milp_variables
        Most variables of Checkmate's mixed-integer program.
    most_retentions
        Retentions up to which separation is tried.
    lp_threshold
        Value in the linear relaxation from which on a storage is retained.
    lp_step
        Share by which the limit is lowered at a time for rounding; Checkmate lowers it once, by a
        tenth.
    segments_growth
        Ratio of each number of segments tried to the one before.
    long_start
        Runs of a start, as a multiple of the units, above which local search first begins with its
        order alone.
    descent_step, descent_longest, descent_shortest
        Steps of the descent to the least peak, as shares of the peak: the first, the longest and
        the shortest.
    descent_longer, descent_shorter
        Factors of a step after a success and after a failure.
    descent_moves, descent_most_moves, descent_growth
        Moves for each unit in a step: at first and at most; their growth after the shortest step
        failed.
    descent_step_share
        Share of the time of a descent for one step.
    local_first_moves, local_most_moves, local_growth
        Moves of local search for each position of the start: of the first round and of all rounds;
        their growth from round to round.
    local_most_work
        Positions visited in all rounds if there is no time limit: some minutes.
    local_heats
        Temperatures at the start and at the end of a round, in mean costs of a unit.
    local_price
        Price of twice the limit at one position, in mean costs of a unit; other excesses cost in
        proportion.
    local_price_factors
        Factors of the price after a call without a schedule within the limit, and after a call
        with one.
    packed_first_moves, packed_most_moves, packed_growth
        Moves for each run in the search for schedule and offsets together: of the first round and
        of all rounds; their growth from round to round.
    packed_separations
        Moves for each retention that separate retentions while the schedule is unchanged.
    packed_heats, packed_repair_heats, packed_warm_heats
        Temperatures at the start and at the end of a round. If the packing fits, in mean costs of a
        unit; if it does not, as shares of the limit; with a low price of shared bytes, in mean
        costs of a unit.
    packed_price, packed_warm_price
        First price, and the low price, of sharing as many bytes as the limit, in mean costs of a
        unit.
    packed_fall, packed_rise
        Divisor of the price after a round that fits, and its factor after a round that does not.
    packed_start_share, packed_repair_share, packed_warm_share
        Shares of the time left for separating the start, for repairing it, and for rounds with a
        low price.
    packed_near
        Share of the arena that may be shared for a packing to be repaired.
    packed_slack
        Largest share of the arena that schedules with fewer live bytes leave free; more costs runs.
    packed_turns, packed_fewer_share
        Number of such schedules tried, and share of the time left for finding each.
    packed_room
        Most runs of a schedule, as a multiple of the units and of the start.
    short_units, short_again
        Units up to which short schedules are tried, and most repetitions in them. There are too
        many schedules beyond that.
    window_runs, window_copies, window_work
        Runs in a window that CP-SAT solves again, most runs of a unit in it, and CP-SAT's
        deterministic time.
    evicted_orders
        Orders along which values are evicted for starts.
    cut_extra
        Extra cost of the best start, as a share of running every op once, above which values are
        also retained by minimum cuts.
    cut_limits
        Limits for them, as shares of the limit, until a schedule is within it: they do not look at
        bytes live while values are computed again.
    tight_positions, exchange_rates
        Minimum cuts: most positions treated, and exchange rates of bytes against cost tried for
        each.
    alike_limits
        Targets for equal parts alike, as shares of the limit, before members are kept again.
    dropping_longest, eviction_longest
        Runs, as a multiple of the units, above which these heuristics give up a schedule.
    """

    seconds_an_op: float = 100e-6
    checked: float = 1.2
    footprint_share: float = 0.2
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
    cut_share: float = 0.5
    even_limits: int = 12
    even_share: float = 0.5
    start_near: float = 1.15
    walks: int = 3
    skewed: float = 30.0
    cp_sat_units: int = 80
    single_cut_share: float = 0.3
    first_cut_share: float = 0.15
    relaxed_cuts_share: float = 0.5
    floor_share: float = 0.1
    floor_steps: int = 16
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
    cut_extra: float = 0.2
    cut_limits: tuple[float, ...] = (1.0, 0.98)
    tight_positions: int = 64
    exchange_rates: int = 12
    alike_limits: tuple[float, ...] = (1.0, 0.96, 0.92, 0.87, 0.81, 0.74)
    dropping_longest: int = 8
    eviction_longest: int = 12


def active() -> RematTuning:
    """The thresholds and shares in use: the defaults, or those given to ``solve``."""
    return tuned(RematTuning)
