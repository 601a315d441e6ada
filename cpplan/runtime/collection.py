"""Pause of the garbage collector while many objects are made that are all kept."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# New objects between two runs of the collector: a search makes few cycles, a model many objects.
_MANY_OBJECTS = 50_000


def collect_rarely() -> None:
    """Let the garbage collector run after many new objects only, in a process of one command."""
    gc.set_threshold(_MANY_OBJECTS, *gc.get_threshold()[1:])


@contextmanager
def without_collection() -> Iterator[None]:
    """Context in which the garbage collector is paused; afterwards it is as before.

    While a large graph is made, the collector would walk all objects again and again and find no
    garbage.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def keeping_objects() -> Iterator[None]:
    """Context in which objects are made that are kept to the end of the process.

    The garbage collector is paused, as by :func:`without_collection`, and never walks the objects
    that exist when the context ends.
    """
    with without_collection():
        yield
        gc.freeze()
