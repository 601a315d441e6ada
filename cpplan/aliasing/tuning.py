"""Thresholds and shares of the time of the choice of what shares bytes."""

from __future__ import annotations

from dataclasses import dataclass

from cpplan.runtime.budget import tuned


@dataclass(frozen=True, slots=True)
class AliasingTuning:
    """Thresholds and shares of the time of the choice of what shares bytes.

    Attributes
    ----------
    many_buffers
        Number of buffers above which the plan without sharing is made first, and CP-SAT runs before
        fewer candidates are tried.
    any_order_ops
        Largest number of ops for which candidates that hold in every order are looked for: with
        many more, the bit sets of ancestors and the pairs of storages that may be live together
        take gigabytes.
    few_members
        Size of an alias set, in storages, above which an index finds its members that are live with
        a given storage.
    """

    many_buffers: int = 500
    any_order_ops: int = 2000
    few_members: int = 64


def active() -> AliasingTuning:
    """The thresholds and shares in use: the defaults, or those of the call."""
    return tuned(AliasingTuning)
