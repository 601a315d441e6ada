"""Locks of files, between processes and between threads that open the file by themselves."""

from __future__ import annotations

from typing import IO


def lock_file(stream: IO[str], *, wait: bool = False) -> None:
    """Lock a file until it is closed or the process ends.

    Raises
    ------
    OSError
        If it is locked already, unless the caller waits; or if its file system has no locks.
    """
    try:
        import fcntl
    except ImportError:
        import msvcrt

        # Waits ten seconds at most.
        how = msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK  # type: ignore[attr-defined]
        msvcrt.locking(stream.fileno(), how, 1)  # type: ignore[attr-defined]
        return
    fcntl.flock(stream, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
