"""Ctrl-C: ignored while results are checked and written, noted while searches run in turn."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def holding_interrupts() -> Iterator[Callable[[], None]]:
    """Context that yields a function: once that is called, Ctrl-C is ignored.

    Before the call, Ctrl-C acts as usual; after it, the results found can be written completely.
    The context works only in the main thread, the only one that may handle signals; it changes
    nothing if Ctrl-C is ignored already.
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
    """Context that yields a function which returns True once Ctrl-C was pressed.

    A search that Ctrl-C ends returns its best plan without mention of Ctrl-C. Ctrl-C acts as usual.
    The context works only in the main thread, like :func:`holding_interrupts`.
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
