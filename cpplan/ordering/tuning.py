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
        Of the time, for what is live in every order, where there are very many ops.
    cuts_share
        Of what is left, for minimum cuts: milliseconds each, of which a few mostly do.
    divisions
        Times that the order is divided at minimum cuts, within the same share.
    few_ops
        Ops up to which CP-SAT has its turn before anything is compiled.
    few_ops_work
        Deterministic time of that turn.
    first_states
        States of the exact search in the first turn.
    first_windows
        Windows of the first turn.
    window_states
        States for each window.
    most_state_bytes
        Bytes that states of the exact search may take.
    first_cp_sat_work
        Deterministic time of CP-SAT in the first turn.
    cp_sat_ops
        Ops above which CP-SAT improves windows only.
    most_effort
        Longest turn, as a multiple of the first: without a time limit, the search ends there, so
        that packing has its turn.
    shortest_window
        Ops of the shortest window.
    longest_window
        Ops of the longest window.
    cp_sat_window
        Ops of a window for CP-SAT.
    beam_state_ops
        States times ops of the beam by default: 1,000 ops take a second or two.
    beam_states
        States of the beam at most, by default.
    widest_slack, narrowest_slack
        Of the peak: how far below it the target of a window search lies at most, and at least.
    """

    bound_share: float = 0.1
    cuts_share: float = 0.2
    divisions: int = 8
    few_ops: int = 150
    few_ops_work: float = 0.3
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
    beam_state_ops: int = 1_000_000
    beam_states: int = 2048
    widest_slack: float = 0.02
    narrowest_slack: float = 1e-4


def active() -> OrderingTuning:
    """The thresholds and shares in use: the defaults, or those of the call."""
    return tuned(OrderingTuning)
