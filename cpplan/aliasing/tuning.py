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
    """

    many_buffers: int = 500


def active() -> AliasingTuning:
    """The thresholds and shares in use: the defaults, or those of the call."""
    return tuned(AliasingTuning)
