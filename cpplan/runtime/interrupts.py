"""Ctrl-C: ignored while results are checked and written, noted while searches run in turn."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from cpplan.runtime.deadline import Deadline


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
    noted = False

    def note(usual: Callable[[], object]) -> None:
        nonlocal noted
        noted = True
        usual()

    with _on_interrupt(note):
        yield lambda: noted


@contextmanager
def first_interrupt_ending(deadline: Deadline) -> Iterator[None]:
    """Context in which the first Ctrl-C ends a deadline and raises nothing, in the main thread.

    The search then ends with its best plan, wherever it is. Contexts around this one note Ctrl-C;
    further ones act as usual.
    """

    def end(usual: Callable[[], object]) -> None:
        again = deadline.cancelled
        deadline.cancel()
        try:
            usual()
        except KeyboardInterrupt:
            if again:
                raise

    with _on_interrupt(end):
        yield


@contextmanager
def _on_interrupt(act: Callable[[Callable[[], object]], None]) -> Iterator[None]:
    """Context in which Ctrl-C calls a function, which is given the usual action."""
    previous = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(previous):
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        act(lambda: previous(number, frame))

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def _ignore() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
