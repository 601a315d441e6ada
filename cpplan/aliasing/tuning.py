"""Thresholds and shares of the time of the choice of what shares bytes."""

from __future__ import annotations

from dataclasses import dataclass

from cpplan.runtime.budget import tuned


@dataclass(frozen=True, slots=True)
class AliasingTuning:
    """Thresholds and shares of the time of the choice of what shares bytes.

    Attributes
    ----------
    plain_share
        Of the time, for packing many buffers without sharing.
    first_moves
        Other choices tried in the first turn.
    packing_share
        Of the time left, for packing one choice.
    first_work
        Deterministic time of CP-SAT in the first turn.
    many_buffers
        Buffers above which CP-SAT has its turn at once, and the plan without sharing comes first.
    most_effort
        Longest turn, as a multiple of the first.
    cp_sat_pairs
        Pairs of buffers of which one may share bytes, up to which CP-SAT is asked: each makes three
        literals or more.
    pools_choice_share
        With several pools: of the time left, for each choice of candidates but the last.
    pools_move_share
        With several pools: of the time left, for packing without one more candidate.
    any_order_ops
        Ops up to which candidates that hold in any order are looked for: ancestors as bits, and
        pairs of storages that may meet, take gigabytes for many more.
    few_members
        Storages of an alias set above which those that live with one are looked up.
    """

    plain_share: float = 0.3
    first_moves: int = 20
    packing_share: float = 0.3
    first_work: float = 0.1
    many_buffers: int = 500
    most_effort: int = 4**6
    cp_sat_pairs: int = 20_000
    pools_choice_share: float = 0.6
    pools_move_share: float = 0.1
    any_order_ops: int = 2000
    few_members: int = 64


def active() -> AliasingTuning:
    """The thresholds and shares in use: the defaults, or those of the call."""
    return tuned(AliasingTuning)
