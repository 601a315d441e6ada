"""The user's cache folder, for compiled loops and for plans of training steps."""

from __future__ import annotations

import os
from pathlib import Path

# Environment variable that names the folder.
VARIABLE = "CPPLAN_CACHE"


def user_cache() -> Path | None:
    """``CPPLAN_CACHE`` if set, else ``cpplan`` in the user's cache folder; ``None`` without a home.

    Examples
    --------
    >>> folder = user_cache()
    >>> folder is None or folder.is_absolute() or VARIABLE in os.environ
    True
    """
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen)
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    # Without a home folder, ``~`` is not expanded.
    return Path(caches) / "cpplan" if os.path.isabs(caches) else None
