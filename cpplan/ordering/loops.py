"""Groups of compiled loops of the ordering room."""

from __future__ import annotations

from cpplan.runtime.compiled import LoopGroup

_USES = "cpplan.ordering.first_uses"
BEAM = LoopGroup("beam", ("cpplan.ordering.heuristics.beam_kernel",), f"{_USES}:use_beam")
DOWNSETS = LoopGroup(
    "downsets", ("cpplan.ordering.search.downset_kernel",), f"{_USES}:use_downsets"
)
LOOPS = BEAM, DOWNSETS
