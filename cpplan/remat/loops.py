"""Groups of compiled loops of the rematerialization room."""

from __future__ import annotations

from cpplan.runtime.compiled import LoopGroup

_USES = "cpplan.remat.first_uses"
EVICTION = LoopGroup(
    "eviction", ("cpplan.remat.heuristics.eviction_kernel",), f"{_USES}:use_eviction"
)
SCHEDULES = LoopGroup(
    "schedules",
    (
        "cpplan.remat.search.moves_kernel",
        "cpplan.remat.search.profile_kernel",
        "cpplan.remat.search.schedule_kernel",
    ),
    f"{_USES}:use_schedules",
)
LOOPS = EVICTION, SCHEDULES
