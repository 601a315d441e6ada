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
    order_share
        Limited cost: share of the time for orders without repetitions, and for packing them.
    fall_back
        Limits to try if nothing fits yet, as shares of the limit, the smallest first.
    most_short
        Most short schedules tried after all searches have ended.
    grace
        Seconds for packing a known schedule by heuristics after Ctrl-C.
    halvings
        Limits tried for a start of least peak, each halfway.
    cp_sat_units
        Units up to which CP-SAT searches for the whole schedule.
    """

    seconds_an_op: float = 100e-6
    order_share: float = 0.3
    fall_back: tuple[float, ...] = (0.7, 0.8, 0.87, 0.92, 0.96)
    most_short: int = 500
    grace: float = 1.0
    halvings: int = 8
    cp_sat_units: int = 80


def active() -> RematTuning:
    """The thresholds and shares in use: the defaults, or those given to ``solve``."""
    return tuned(RematTuning)
