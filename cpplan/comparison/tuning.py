"""Shares of the time of comparisons."""

from __future__ import annotations

from dataclasses import dataclass

from cpplan.runtime.budget import tuned


@dataclass(frozen=True, slots=True)
class ComparisonTuning:
    """Shares of a row's time limit in comparisons.

    Attributes
    ----------
    schedule_share
        Share of a row's time for a baseline's schedule; the rest is for packing the schedule.
    packing_rate
        Units of a baseline's problem packed in a second, about: more units leave less time for the
        schedule, but half of it at least.
    pieces_share
        Share of a row's time for a rule's pieces; the rest is for packing the pieces.
    least_packing
        Least number of seconds for packing.
    least_rule_share
        Least share of a row's time for an eviction rule, however long its packing takes.
    curve_rules_share
        Time for all eviction rules at one capacity of a curve, as a share of the plan's time.
    """

    schedule_share: float = 0.8
    packing_rate: float = 2e4
    pieces_share: float = 0.6
    least_packing: float = 0.1
    least_rule_share: float = 0.5
    curve_rules_share: float = 0.08


def active() -> ComparisonTuning:
    """Tuning of comparisons in use."""
    return tuned(ComparisonTuning)
