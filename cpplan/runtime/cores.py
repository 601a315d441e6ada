"""Number of cores, for choosing a number of threads."""

from __future__ import annotations

import os


def available_cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
