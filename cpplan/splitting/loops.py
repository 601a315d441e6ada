"""The group of compiled loops of the splitting room."""

from __future__ import annotations

from cpplan.runtime.compiled import LoopGroup

SPLITTING = LoopGroup(
    "splitting",
    ("cpplan.splitting.cascade_kernel", "cpplan.splitting.strip_kernel"),
    "cpplan.splitting.first_uses:use_splitting",
)
LOOPS = (SPLITTING,)
