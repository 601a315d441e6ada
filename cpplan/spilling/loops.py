"""Groups of compiled loops of the spilling room."""

from __future__ import annotations

from cpplan.runtime.compiled import LoopGroup

ADDRESSES = LoopGroup(
    "evictions by address",
    ("cpplan.spilling.search.address_kernel",),
    "cpplan.spilling.first_uses:use_addresses",
)
REPACKING = LoopGroup(
    "evictions by insertion",
    ("cpplan.spilling.search.gap_kernel", "cpplan.spilling.search.window_kernel"),
    "cpplan.spilling.first_uses:use_repacking",
)
LOOPS = (ADDRESSES, REPACKING)
