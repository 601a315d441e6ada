"""Thresholds and shares of the time of spilling."""

from __future__ import annotations

from dataclasses import dataclass

from cpplan.runtime.budget import tuned


@dataclass(frozen=True, slots=True)
class SpillingTuning:
    """Thresholds and shares of the time of spilling.

    Attributes
    ----------
    still_share
        Share of the time for packing everything into the fast pool, if its live bytes fit.
    first_share
        Share of the time left for packing the best choice of the eviction rules and the relaxation.
    rules_placed_share
        Share of the time left for packing the choices of the eviction rules, the cheapest first.
    margin_share
        Share of the time left for packing choices that leave a part of the pool empty.
    relaxation_share
        Share of the time left for the linear relaxation.
    search_share
        Share of the time left for CP-SAT on the gaps.
    packing_share
        Share of the time left for packing CP-SAT's solution.
    room_turns, room_share
        Times that gaps are chosen again with as much room left empty as packing them lacked; share
        of the time left for each choice and for each packing.
    margins
        Parts of the fast pool left empty, tried one after another while no packing fits.
    address_share
        Share of the time left for choosing gaps and offsets together.
    address_starts
        Number of unpacked choices from which that search begins, besides the best packed choice.
    address_states, address_states_share
        Number of packings that it changes at first, and the share of its time for that.
    address_powers
        The cost of an eviction is divided by the steps to the next access, raised to this power.
    address_change_power
        The same power where a packing is changed.
    address_turns
        Most turns of one cooling.
    address_heats, coolest
        Temperatures, as parts of the median cost of a reload: at the start of each cooling, and at
        its end. A change may be worse by about the temperature.
    repacking_share
        Share of the time left for placing retentions by insertion and dropping gaps that are in
        the way.
    repacked_gaps, insertion_first
        Most gaps for which that is done; fewest for which it comes before all other packing.
    settling_share
        Share of its time for packing choices of gaps that leave a margin of the pool empty.
    smaller_margins, wider_margins
        These margins, as parts of the pool: tried one after another until no choice of one can be
        packed; and if the first one's choice cannot, until one can.
    margin_choices, margin_packing_share, insertions_a_retention
        Most choices tried for each of the smaller margins; share of the time left for packing one;
        moves per retention made in any case for the first margin and for wider ones.
    choice_turns, choice_share
        Most changes of such a choice, and most time for them, as a share of the time left.
    choice_heats, choice_noise
        Temperatures of these changes, as parts of the median cost of a reload: at first and at
        last; random part of the cost of a gap to drop.
    choice_price
        Price of the room of a gap in such a choice, as a part of the mean cost saved by a byte and
        step of the gaps dropped: emptier choices are packed more easily.
    repacking_turns
        Most changes tried of the best packing.
    window_widths, window_fits
        Steps of a window; chance that the narrowest one that holds what must change place is taken
        instead of a wider one.
    window_moves, window_patience
        Moves between two looks at the retentions that still wait, and moves without fewer bytes
        waiting after which a change is given up.
    window_power
        The chance of a gap to be kept falls with its steps, raised to this power: narrow windows
        are packed much sooner than wide ones.
    most_dropped, repacking_noise
        Most gaps dropped so that one more is kept; random part of their cost.
    order_share
        If orders are searched: share of the time for orders of least live bytes.
    climb_share
        Share of the time then left for orders that move fewer bytes.
    climb_turns
        Most turns of hill climbing.
    every_order_share
        Share of the time left after the given order for the bound that holds for every order.
    every_order_ops
        Most ops of a graph for which that bound is computed.
    given_share
        If orders are searched: share of the time for the given order.
    change_share
        If ops may run again: share of the time left for each single change of the best schedule.
    alone_share
        If ops may run again: share of the time for moves alone at the given order.
    schedules_planned
        Number of schedules in which ops run again for which moves are planned first.
    rules_share
        Share of the time for all eviction rules.
    hiding_share
        If the slow pool has a copy engine: share of the time for running copies beside ops.
    checked
        Time reserved to make and check a plan: multiples of the time for a layout, and of the time
        for the bound by prices.
    many_first_rule_share
        With many ops: share of the time left for the first eviction rule.
    many_laid_out, many_checked
        With many ops: time expected for a layout, as a multiple of the time to build the problem;
        and the time reserved, as before.
    every_choice_ops, every_choice_edges, every_choice_share
        Most ops for which all choices of gaps, or of orders and gaps, are tried; most steps from
        one state of the pools to the next for that; share of the time left.
    cp_sat_gaps
        Most gaps for which the linear relaxation and CP-SAT are begun.
    solver_seconds
        Least seconds left for which these are begun: loading their solvers takes almost as long.
    solver_seconds_a_pair
        Seconds more for each pair of a gap and a step that is too full if all gaps are kept.
    full_steps
        Most steps with a price of room, in the bound that needs no linear program.
    slow_share
        Share of the time left for packing the slow pool.
    longest_again
        Most ops in a row that may run again for one tensor instead of a reload.
    """

    still_share: float = 0.4
    first_share: float = 0.2
    rules_placed_share: float = 0.4
    margin_share: float = 0.6
    relaxation_share: float = 0.3
    search_share: float = 0.5
    packing_share: float = 0.3
    room_turns: int = 2
    room_share: float = 0.3
    margins: tuple[float, ...] = (0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7)
    address_share: float = 0.9
    address_starts: int = 8
    address_states: int = 4
    address_states_share: float = 0.15
    address_powers: tuple[float, ...] = (0.0, 0.5, 1.0)
    address_change_power: float = 0.5
    address_turns: int = 10_000
    address_heats: tuple[float, ...] = (0.3, 0.1)
    coolest: float = 0.01
    repacking_share: float = 0.8
    repacked_gaps: int = 50_000
    insertion_first: int = 2_000
    settling_share: float = 0.6
    smaller_margins: tuple[float, ...] = (0.05, 0.03, 0.02, 0.014, 0.01, 0.007, 0.005, 0.0035)
    wider_margins: tuple[float, ...] = (0.1, 0.2, 0.35, 0.5)
    choice_turns: int = 4_000
    choice_share: float = 0.1
    choice_heats: tuple[float, float] = (0.5, 0.01)
    choice_noise: float = 0.5
    choice_price: float = 0.25
    margin_choices: int = 2
    margin_packing_share: float = 0.2
    insertions_a_retention: int = 120
    repacking_turns: int = 1_000_000
    window_widths: tuple[int, ...] = (32, 64, 128, 256, 512, 1024, 2048)
    window_fits: float = 0.5
    window_moves: int = 50
    window_patience: int = 300
    window_power: float = 2.0
    most_dropped: int = 12
    repacking_noise: float = 0.3
    order_share: float = 0.2
    climb_share: float = 0.5
    climb_turns: int = 200
    every_order_share: float = 0.2
    every_order_ops: int = 20_000
    given_share: float = 0.25
    change_share: float = 0.2
    alone_share: float = 0.2
    schedules_planned: int = 3
    rules_share: float = 0.2
    hiding_share: float = 0.15
    checked: tuple[float, float] = (4.0, 1.0)
    many_first_rule_share: float = 0.6
    many_laid_out: float = 1.8
    many_checked: tuple[float, float] = (1.3, 9.0)
    every_choice_ops: int = 12
    every_choice_edges: int = 20_000
    every_choice_share: float = 0.5
    cp_sat_gaps: int = 100_000
    solver_seconds: float = 0.4
    solver_seconds_a_pair: float = 3e-7
    full_steps: int = 400
    slow_share: float = 0.2
    longest_again: int = 12


def active() -> SpillingTuning:
    """The tuning of spilling in use."""
    return tuned(SpillingTuning)
