"""Progress of a batch: rows done and left, and the time that they take."""

from __future__ import annotations

from dataclasses import dataclass

from cpplan.batches.task_planning import Row


@dataclass(frozen=True)
class BatchProgress:
    """Progress of a batch: rows done, rows kept, and time since the start.

    Attributes
    ----------
    done, total
        Rows so far, and rows at the end.
    kept
        Number of done rows that come from an earlier run.
    seconds
        Seconds since this run began.
    row
        The latest row, or ``None`` at the start.
    note
        Current work other than planning.
    others
        At the start: number of rows of an earlier run that will be dropped from the table, since
        they belong to other models, settings, limits or versions.
    """

    done: int
    total: int
    kept: int
    seconds: float
    row: Row | None = None
    note: str | None = None
    others: int = 0

    @property
    def rate(self) -> float | None:
        """Rows a second in this run, or ``None`` if no row is done yet."""
        new = self.done - self.kept
        return new / self.seconds if new and self.seconds else None

    @property
    def left(self) -> float | None:
        """Estimated seconds left at the rate so far, or ``None`` if there is no rate."""
        return (self.total - self.done) / self.rate if self.rate else None
