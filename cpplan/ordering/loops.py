"""The group of compiled loops of the ordering room."""

from __future__ import annotations

from cpplan.runtime.compiled import LoopGroup

ORDERING = LoopGroup(
    "ordering",
    ("cpplan.ordering.heuristics.beam_kernel", "cpplan.ordering.search.downset_kernel"),
    "cpplan.ordering.first_uses:use_ordering",
)
LOOPS = (ORDERING,)
