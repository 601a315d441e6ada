"""Thresholds and shares of the time of the search for orders."""

from __future__ import annotations

from dataclasses import dataclass

from cpplan.runtime.budget import tuned


@dataclass(frozen=True, slots=True)
class OrderingTuning:
    """Thresholds and shares of the time of the search for orders.

    Attributes
    ----------
    cuts_share
        Share of the time left for minimum cuts, a few milliseconds each; a few cuts are mostly
        enough.
    divisions
        Number of times that the order is divided at minimum cuts, within an equal share of the time
        left.
    few_ops
        Largest number of ops for which CP-SAT runs before the loops are compiled.
    first_windows
        Windows searched in the first turn.
    most_state_bytes
        Most bytes that the states of the exact search may take.
    first_cp_sat_work
        CP-SAT's deterministic time in the first turn.
    most_effort
        Longest turn, as a multiple of the first: without a time limit, the search ends after it, so
        that packing can begin.
    cp_sat_window_work
        Number of ops in a window for CP-SAT, and most units of its deterministic time for one.
    """

    cuts_share: float = 0.2
    divisions: int = 8
    few_ops: int = 150
    first_windows: int = 10
    most_state_bytes: int = 1 << 30
    first_cp_sat_work: float = 0.2
    most_effort: int = 1024
    cp_sat_window_work: float = 0.1


def active() -> OrderingTuning:
    """The thresholds and shares in use: the defaults, or those of the call."""
    return tuned(OrderingTuning)
