"""The group of compiled loops of the checker."""

from __future__ import annotations

from cpplan.runtime.compiled import LoopGroup

CHECKS = LoopGroup(
    "checks",
    ("cpplan.verification.runs_kernel", "cpplan.verification.sweep_kernel"),
    "cpplan.verification.first_uses:use_checks",
)
LOOPS = (CHECKS,)
