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
        Of what is left, for packing the best of the eviction rules.
    relaxation_share
        Of what is left, for the linear relaxation.
    search_share
        Of what is left, for CP-SAT on the gaps.
    packing_share
        Of what is left, for packing its solution.
    margins
        Parts of the fast pool left empty, one after another, where packing did not fit.
    rounds
        Number of these with which CP-SAT runs again.
    repairs
        Gaps dropped one after another at most until a packing fits.
    repair_share
        Of what is left, for packing after each of them.
    order_share
        Of the time, for orders of least live bytes, if orders are searched.
    climb_share
        Of what is left then, for orders that move fewer bytes.
    most_orders
        Neighbours of an order that are tried.
    cp_sat_terms
        Gaps times the steps that they hold beyond which CP-SAT is not begun.
    """

    still_share: float = 0.4
    first_share: float = 0.2
    relaxation_share: float = 0.3
    search_share: float = 0.6
    packing_share: float = 0.3
    margins: tuple[float, ...] = (0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5)
    rounds: int = 4
    repairs: int = 24
    repair_share: float = 0.1
    order_share: float = 0.2
    climb_share: float = 0.5
    most_orders: int = 4000
    cp_sat_terms: int = 4_000_000


def active() -> SpillingTuning:
    """The tuning of spilling in use."""
    return tuned(SpillingTuning)
