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
    smaller_margins
        These margins, as parts of the pool: tried one after another until no choice of one can be
        packed; and if the first one's choice cannot, until one can.
    margin_choices
        Most choices tried for each of the smaller margins; share of the time left for packing one;
        moves per retention made in any case for the first margin and for wider ones.
    choice_share
        Most changes of such a choice, and most time for them, as a share of the time left.
    window_widths
        Steps of a window; chance that the narrowest one that holds what must change place is taken
        instead of a wider one.
    order_share
        If orders are searched: share of the time for orders of least live bytes.
    climb_share
        Share of the time then left for orders that move fewer bytes.
    climb_turns
        Most turns of hill climbing.
    every_order_ops
        Most ops of a graph for which that bound is computed.
    many_laid_out
        With many ops: time expected for a layout, as a multiple of the time to build the problem;
        and the time reserved, as before.
    every_choice_ops, every_choice_edges
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
    """

    margins: tuple[float, ...] = (0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7)
    smaller_margins: tuple[float, ...] = (0.05, 0.03, 0.02, 0.014, 0.01, 0.007, 0.005, 0.0035)
    choice_share: float = 0.1
    margin_choices: int = 2
    window_widths: tuple[int, ...] = (32, 64, 128, 256, 512, 1024, 2048)
    order_share: float = 0.2
    climb_share: float = 0.5
    climb_turns: int = 200
    every_order_ops: int = 20_000
    many_laid_out: float = 1.8
    every_choice_ops: int = 12
    every_choice_edges: int = 20_000
    cp_sat_gaps: int = 100_000
    solver_seconds: float = 0.4
    solver_seconds_a_pair: float = 3e-7
    full_steps: int = 400


def active() -> SpillingTuning:
    """The tuning of spilling in use."""
    return tuned(SpillingTuning)
