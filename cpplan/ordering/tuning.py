"""Thresholds and shares of the time of the search for orders."""

from __future__ import annotations

from dataclasses import dataclass

from cpplan.runtime.budget import tuned


@dataclass(frozen=True, slots=True)
class OrderingTuning:
    """Thresholds and shares of the time of the search for orders.

    Attributes
    ----------
    bound_share
        Share of the time left for the bytes live in every order; it is reached only with very many
        ops.
    cuts_share
        Share of the time left for minimum cuts, a few milliseconds each; a few cuts are mostly
        enough.
    divisions
        Number of times that the order is divided at minimum cuts, within an equal share of the time
        left.
    few_ops
        Largest number of ops for which CP-SAT runs before the loops are compiled.
    few_ops_work
        CP-SAT's deterministic time in that run.
    few_ops_share
        Largest share of the time left for that run: loops often find more in less time.
    first_states
        Most states of the exact search in the first turn.
    first_windows
        Windows searched in the first turn.
    window_states
        Most states of the search of one window.
    most_state_bytes
        Most bytes that the states of the exact search may take.
    first_cp_sat_work
        CP-SAT's deterministic time in the first turn.
    cp_sat_ops
        Number of ops above which CP-SAT improves windows only.
    most_effort
        Longest turn, as a multiple of the first: without a time limit, the search ends after it, so
        that packing can begin.
    shortest_window
        Number of ops in the shortest window.
    longest_window
        Number of ops in the longest window.
    cp_sat_window, cp_sat_window_work
        Number of ops in a window for CP-SAT, and most units of its deterministic time for one.
    beam_state_ops
        Product of states and ops that sets the beam's default width: 1,000 ops take a second or
        two.
    beam_states
        Largest default width of the beam, states.
    widest_slack, narrowest_slack
        Largest and smallest distance from the peak down to the target of a window search, as a
        share of the peak.
    """

    bound_share: float = 0.1
    cuts_share: float = 0.2
    divisions: int = 8
    few_ops: int = 150
    few_ops_work: float = 0.3
    few_ops_share: float = 0.5
    first_states: int = 40_000
    first_windows: int = 10
    window_states: int = 20_000
    most_state_bytes: int = 1 << 30
    first_cp_sat_work: float = 0.2
    cp_sat_ops: int = 400
    most_effort: int = 1024
    shortest_window: int = 20
    longest_window: int = 250
    cp_sat_window: int = 80
    cp_sat_window_work: float = 0.1
    beam_state_ops: int = 1_000_000
    beam_states: int = 2048
    widest_slack: float = 0.02
    narrowest_slack: float = 1e-4


def active() -> OrderingTuning:
    """The thresholds and shares in use: the defaults, or those of the call."""
    return tuned(OrderingTuning)
