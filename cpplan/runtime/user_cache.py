"""The user's cache folder, for compiled loops and for plans of training steps."""

from __future__ import annotations

import os
from pathlib import Path

# Environment variable that names the folder.
VARIABLE = "CPPLAN_CACHE"


def user_cache() -> Path | None:
    """``CPPLAN_CACHE`` if set, else ``cpplan`` in the user's caches; ``None`` without a home."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen)
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    # Without a home folder, ``~`` is not expanded.
    return Path(caches) / "cpplan" if os.path.isabs(caches) else None
