"""Ctrl-C while results are checked and written: too late to stop anything but that."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def holding_interrupts() -> Iterator[Callable[[], None]]:
    """Ctrl-C acts as ever, until the function yielded is called; from then on it does nothing.

    So what was found by then can be written to the end. Only in the main thread, which alone may
    handle signals; where Ctrl-C is ignored already, it stays so.
    """
    previous = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(previous):
        yield lambda: None
        return
    try:
        # A handler that does nothing would still cut a write to a pipe short: the signal itself
        # must be ignored.
        yield _ignore
    finally:
        signal.signal(signal.SIGINT, previous)


def _ignore() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
