"""One time budget that every stage of a run shares."""

from __future__ import annotations

import math
import threading
import time


class TimeUpError(Exception):
    """The time budget is spent; a caller that has a best plan so far returns it."""


class Deadline:
    """A countdown from ``seconds``, by the clock or, if ``deterministic``, by reported work.

    With deterministic time, only work reported through :meth:`spend` counts, so that a run does not
    depend on the machine's load.
    """

    def __init__(
        self, seconds: float, *, deterministic: bool = False, parent: Deadline | None = None
    ):
        self.seconds = float(seconds)
        self._parent = parent
        self.deterministic = deterministic
        self._start = time.monotonic()
        self._begin: float = self._start if parent is None else parent._begin
        self._spent = 0.0
        self._reserved = 0.0
        self._cancelled = False

    @property
    def endless(self) -> bool:
        """True if the clock never ends the run."""
        return self.deterministic or math.isinf(self.seconds)

    def patience(self) -> float | None:
        """Seconds to wait for news, as the timeout of a queue; ``None`` means no limit."""
        return None if self.endless else min(self.remaining(), threading.TIMEOUT_MAX)

    def grace(self) -> float:
        """Seconds that a solver may take to stop after it is told to."""
        return min(1.0, 0.02 * self.seconds)

    def elapsed(self) -> float:
        """Seconds by the clock since the start of the whole run."""
        return time.monotonic() - self._begin

    def remaining(self, reserved: float = 0.0) -> float:
        """Seconds left, never negative, if at least ``reserved`` seconds are reserved."""
        if self._cancelled:
            return 0.0
        used = self._spent if self.deterministic else time.monotonic() - self._start
        if self._parent is not None:
            return min(max(0.0, self.seconds - used), self._parent.remaining(reserved))
        kept = self._reserved if self.deterministic else max(self._reserved, reserved)
        return max(0.0, self.seconds - used - kept)

    def expired(self) -> bool:
        return self.remaining() <= 0.0

    def spend(self, work: float) -> None:
        """Report deterministic seconds of work done."""
        self._spent += work
        if self._parent is not None:
            self._parent.spend(work)

    def reserve(self, seconds: float) -> None:
        """Keep the last seconds of the whole run for work after its stages.

        If there are several reservations, the largest counts. With deterministic time, no time is
        reserved, since work after the stages is not counted.
        """
        if self._parent is not None:
            self._parent.reserve(seconds)
        elif not self.deterministic:
            self._reserved = max(self._reserved, seconds)

    def anew(self, seconds: float, *, deterministic: bool) -> Deadline:
        """Deadline for work that must be done in this run, even if no time is left."""
        deadline = Deadline(seconds, deterministic=deterministic)
        deadline._begin = self._begin
        return deadline

    def share(self, part: float) -> Deadline:
        """Deadline for one stage: this share of the time left."""
        seconds = part * self.remaining()
        return Deadline(seconds, deterministic=self.deterministic, parent=self)

    @property
    def cancelled(self) -> bool:
        return self._cancelled or (self._parent is not None and self._parent.cancelled)

    def cancel(self) -> None:
        """End the whole run now (Ctrl-C)."""
        self._cancelled = True
        if self._parent is not None:
            self._parent.cancel()

    def check(self, work: float = 0.0) -> None:
        """Spend ``work``, then raise :class:`TimeUpError` if no time is left."""
        self.spend(work)
        if self.expired():
            raise TimeUpError
