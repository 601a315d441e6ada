"""Ctrl-C: held while results are checked and written, noted where one search follows another."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


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


@contextmanager
def noting_interrupts() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C has come: a search that ends at it, with what it has, does not say so.

    Ctrl-C acts as ever. Only in the main thread, as above.
    """
    previous = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(previous):
        yield lambda: False
        return
    noted = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal noted
        noted = True
        previous(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: noted
    finally:
        signal.signal(signal.SIGINT, previous)


def _ignore() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
