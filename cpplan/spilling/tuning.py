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
        Of the time, for packing everything in the fast pool, where its bytes fit.
    first_share
        Of what is left, for packing the best of the eviction rules or the relaxation's.
    rules_placed_share
        Of what is left, for packing the choices of the eviction rules, the cheapest first.
    margin_share
        Of what is left, for packing choices that leave a part of the pool empty.
    relaxation_share
        Of what is left, for the linear relaxation.
    search_share
        Of what is left, for CP-SAT on the gaps.
    packing_share
        Of what is left, for packing its solution.
    margins
        Parts of the fast pool left empty, one after another, where packing did not fit.
    address_share
        Of what is left, for gaps and offsets together.
    address_starts
        Choices that could not be packed from which that begins, besides the best one that was.
    address_states, address_states_share
        Packings that it changes at first, and the part of its time for that.
    address_powers
        Of the steps to the next access, by which the cost of an eviction is divided.
    address_change_power
        The same power in changes of a packing.
    address_turns
        Turns of one cooling at most.
    address_heats, coolest
        Parts of the median cost of a reload by which a change may be worse on average at the start
        of each cooling, and at its end.
    order_share
        Of the time, for orders of least live bytes, if orders are searched.
    climb_share
        Of what is left then, for orders that move fewer bytes.
    climb_turns
        Turns of hill climbing at most.
    every_order_share
        Of what the given order leaves, for the bound that holds for every order.
    every_order_ops
        Ops beyond which no order is bounded but the given one.
    given_share
        Of the time, for the given order, if orders are searched.
    alone_share
        Of the time, for moves alone at the given order, if ops may run again.
    schedules_planned
        Schedules in which ops run again for which moves are planned at first.
    rules_share
        Of the time, for all eviction rules.
    hiding_share
        Of the time, for letting ops run beside copies, where the slow pool has an engine.
    checked
        Time kept for making and checking the plan, as a multiple of what its first layout took.
    cp_sat_gaps
        Gaps beyond which neither the linear relaxation nor CP-SAT is begun.
    slow_share
        Of what is left, for packing the slow pool.
    longest_again
        Ops in a row that may run again for one tensor, instead of a reload.
    """

    still_share: float = 0.4
    first_share: float = 0.2
    rules_placed_share: float = 0.4
    margin_share: float = 0.6
    relaxation_share: float = 0.3
    search_share: float = 0.5
    packing_share: float = 0.3
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
    order_share: float = 0.2
    climb_share: float = 0.5
    climb_turns: int = 200
    every_order_share: float = 0.2
    every_order_ops: int = 20_000
    given_share: float = 0.25
    alone_share: float = 0.2
    schedules_planned: int = 3
    rules_share: float = 0.2
    hiding_share: float = 0.15
    checked: float = 4.0
    cp_sat_gaps: int = 100_000
    slow_share: float = 0.2
    longest_again: int = 12


def active() -> SpillingTuning:
    """The tuning of spilling in use."""
    return tuned(SpillingTuning)
