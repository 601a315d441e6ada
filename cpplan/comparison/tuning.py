"""Shares of the time of comparisons."""

from __future__ import annotations

from dataclasses import dataclass

from cpplan.runtime.budget import tuned


@dataclass(frozen=True, slots=True)
class ComparisonTuning:
    """Shares of the time of comparisons, in which each row has its own time limit.

    Attributes
    ----------
    schedule_share
        Of a row's time, for a baseline's schedule; the rest is for packing it.
    pieces_share
        Of a row's time, for a rule's pieces; the rest is for packing them.
    least_packing
        Seconds that packing has at least.
    """

    schedule_share: float = 0.8
    pieces_share: float = 0.6
    least_packing: float = 0.1


def active() -> ComparisonTuning:
    """Tuning of comparisons in use."""
    return tuned(ComparisonTuning)
