"""Groups of compiled loops of the packing room."""

from __future__ import annotations

from cpplan.runtime.compiled import LoopGroup

_USES = "cpplan.packing.first_uses"
NICHE = LoopGroup(
    "niche",
    (
        "cpplan.packing.search.niche_kernel",
        "cpplan.packing.search.niche_nogoods_kernel",
        "cpplan.packing.search.niche_state_kernel",
    ),
    f"{_USES}:use_niche",
)
SIZES = LoopGroup("sizes", ("cpplan.packing.sizes.fit_kernel",), f"{_USES}:use_sizes")
MANY_BUFFERS = LoopGroup(
    "many-buffers",
    (
        "cpplan.packing.heuristics.fit_index_kernel",
        "cpplan.packing.heuristics.segregated_fit_kernel",
    ),
    f"{_USES}:use_many_buffers",
)
INSERTION = LoopGroup(
    "insertion", ("cpplan.packing.search.insertion_kernel",), f"{_USES}:use_insertion"
)
SKYLINE = LoopGroup(
    "skyline", ("cpplan.packing.heuristics.skyline_kernel",), f"{_USES}:use_skyline"
)
STAGED = LoopGroup(
    "staged", ("cpplan.packing.search.staged_insertion_kernel",), f"{_USES}:use_staged"
)
LOOPS = NICHE, SIZES, MANY_BUFFERS, INSERTION, SKYLINE, STAGED
