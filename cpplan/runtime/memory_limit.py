"""Limits on the memory that this process may allocate."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def limit_memory(most: int | None) -> str | None:
    """Limit this process to ``most`` bytes of data; return a reason if that is impossible.

    The limit is on data, not on address space, which includes gigabytes that libraries only
    reserve.
    """
    if most is None:
        return None
    try:
        import resource
    except ImportError:
        return "a memory limit needs a system with resource limits (POSIX)"
    kind = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
    _, hard = resource.getrlimit(kind)
    limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (limit, hard))
    return None


@contextmanager
def limited_growth(most: int) -> Iterator[None]:
    """Let this process allocate at most ``most`` more bytes of data within the block, on Linux.

    It is for short calls of other libraries when a file decides how much memory they take. Other
    threads share the limit meanwhile. Other systems do not limit data: there the block is run as it
    is.

    Raises
    ------
    MemoryError
        Raised by the call if it needs more.

    Examples
    --------
    >>> with limited_growth(64 << 20):
    ...     len(bytearray(1 << 20))
    1048576
    """
    if sys.platform != "linux":
        yield
        return
    import resource

    before, hard = resource.getrlimit(resource.RLIMIT_DATA)
    pages = int(Path("/proc/self/statm").read_text().split()[5])
    limit = pages * os.sysconf("SC_PAGESIZE") + most
    if before != resource.RLIM_INFINITY:
        limit = min(limit, before)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (before, hard))
