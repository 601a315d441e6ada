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
        Share of the time left for packing many buffers without sharing.
    first_moves
        Neighbours of the best choice tried in the first turn.
    packing_share
        Share of the time left for packing one choice.
    first_work
        CP-SAT's deterministic time in the first turn.
    many_buffers
        Number of buffers above which the plan without sharing is made first, and CP-SAT runs before
        fewer candidates are tried.
    most_effort
        Longest turn, as a multiple of the first.
    cp_sat_pairs
        Largest number of buffer pairs for which CP-SAT runs: pairs live together in which at least
        one buffer may share bytes. Each pair makes three literals or more.
    pools_choice_share
        With several pools: share of the time left for each choice of candidates.
    pools_move_share
        With several pools: share of the time left for packing with one candidate fewer.
    any_order_ops
        Largest number of ops for which candidates that hold in every order are looked for: with
        many more, the bit sets of ancestors and the pairs of storages that may be live together
        take gigabytes.
    few_members
        Size of an alias set, in storages, above which an index finds its members that are live with
        a given storage.
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
