"""The groups of compiled loops of the checker."""

from __future__ import annotations

from cpplan.runtime.compiled import LoopGroup

_USES = "cpplan.verification.first_uses"

SWEEP = LoopGroup("sweep", ("cpplan.verification.sweep_kernel",), f"{_USES}:use_sweep")
CHECKS = LoopGroup("checks", ("cpplan.verification.runs_kernel",), f"{_USES}:use_checks")
LOOPS = SWEEP, CHECKS
