"""Pause of the garbage collector while many objects are made that are all kept."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collection() -> Iterator[None]:
    """Context in which the garbage collector is paused; afterwards it is as before.

    The collector walks all objects again and again while a large graph is made, and finds nothing.

    Examples
    --------
    >>> with without_collection():
    ...     gc.isenabled()
    False
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
