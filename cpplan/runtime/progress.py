"""Progress of a run on stderr: its peak and bound so far."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cpplan.model.byte_sizes import format_bytes
from cpplan.model.plan_data import Progress
from cpplan.model.printable import printable
from cpplan.runtime.streams import write_to


@contextmanager
def watching(
    *, enabled: bool = True, seconds: float | None = None
) -> Iterator[Callable[[Progress], None] | None]:
    """A callback for ``solve``: a live line on a terminal, a line per improvement elsewhere.

    The terminal line appears only if the run takes long enough to be watched, so that easy models
    do not pay for it. It says how much of the time limit of ``seconds`` is left.
    """
    if not enabled:
        yield None
    elif sys.stderr is None or not sys.stderr.isatty():
        # A caller that closed stderr still wants the plan.
        yield _write_line
    else:
        line = _Line(seconds)
        try:
            yield line.update
        finally:
            line.close()


def _write_line(event: Progress) -> None:
    write_to(sys.stderr, f"{describe(event)}\n")


def describe(event: Progress) -> str:
    """One improvement in words."""
    if event.peak is None and event.lower_bound is None:
        return f"{event.seconds:8.3f} s  {printable(event.source)}"
    gap = "unknown"
    if event.peak is not None and event.lower_bound is not None:
        gap = f"{(event.peak - event.lower_bound) / event.peak if event.peak else 0.0:.2%}"
    return (
        f"{event.seconds:8.3f} s  peak {format_bytes(event.peak)}  "
        f"bound {format_bytes(event.lower_bound)}  gap {gap}  {printable(event.source)}"
    )


class _Line:
    """A spinner with the latest improvement behind it."""

    _WATCHED_AFTER = 0.5

    def __init__(self, seconds: float | None) -> None:
        from threading import Timer

        self._seconds, self._began = seconds, time.monotonic()
        self._latest: Progress | None = None
        self._status = None
        self._timer = Timer(self._WATCHED_AFTER, self._open)
        self._timer.daemon = True
        self._timer.start()

    def update(self, event: Progress) -> None:
        self._latest = event
        if self._status is not None:
            self._status.update(self._text(event))

    def _text(self, event: Progress) -> str:
        """An improvement, and the time left when it was made."""
        if self._seconds is None:
            return describe(event)
        left = max(0.0, self._seconds - (time.monotonic() - self._began))
        return f"{describe(event)}  {left:.0f} s left"

    def close(self) -> None:
        self._timer.cancel()
        if self._status is not None:
            self._status.stop()

    def _open(self) -> None:
        from rich.console import Console

        text = self._text(self._latest) if self._latest else "planning"
        status = Console(stderr=True).status(text)
        status.start()
        self._status = status  # type: ignore[assignment]
