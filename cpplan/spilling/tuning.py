"""Thresholds and shares of the time of spilling."""

from __future__ import annotations

from dataclasses import dataclass

from cpplan.runtime.budget import tuned


@dataclass(frozen=True, slots=True)
class SpillingTuning:
    """Thresholds and shares of the time of spilling.

    Attributes
    ----------
    margins
        Parts of the fast pool left empty, tried one after another while no packing fits.
    window_widths
        Steps of a window; chance that the narrowest one that holds what must change place is taken
        instead of a wider one.
    order_share
        If orders are searched: share of the time for orders of least live bytes.
    climb_share
        Share of the time left for schedules that run ops again instead of moving their results.
    every_order_ops
        Most ops of a graph for which that bound is computed.
    every_choice_ops
        Most ops for which all choices of gaps, or of orders and gaps, are tried.
    cp_sat_gaps
        Most gaps for which the linear relaxation and CP-SAT are begun.
    full_steps
        Most steps with a price of room, in the bound that needs no linear program.
    """

    margins: tuple[float, ...] = (0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7)
    window_widths: tuple[int, ...] = (32, 64, 128, 256, 512, 1024, 2048)
    order_share: float = 0.2
    climb_share: float = 0.5
    every_order_ops: int = 20_000
    every_choice_ops: int = 12
    cp_sat_gaps: int = 100_000
    full_steps: int = 400


def active() -> SpillingTuning:
    """The tuning of spilling in use."""
    return tuned(SpillingTuning)
