"""The group of compiled loops of the spilling room."""

from __future__ import annotations

from cpplan.runtime.compiled import LoopGroup

ORDERS = LoopGroup(
    "spilling",
    ("cpplan.spilling.search.order_kernel",),
    "cpplan.spilling.first_uses:use_orders",
)
LOOPS = (ORDERS,)
