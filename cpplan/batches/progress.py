"""How far a batch is."""

from __future__ import annotations

from dataclasses import dataclass

from cpplan.batches.task_planning import Row


@dataclass(frozen=True)
class BatchProgress:
    """How far a batch is.

    Attributes
    ----------
    done, total
        Rows that there are, and that there will be.
    kept
        How many of them an earlier run has left.
    seconds
        Since this run began.
    row
        The latest, or ``None`` at the start.
    note
        What is done instead of planning.
    others
        At the start: rows of an earlier run that the table will not have any more, since they are
        of other models, settings or limits, or of another version.
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
        """Rows a second, of this run."""
        new = self.done - self.kept
        return new / self.seconds if new and self.seconds else None

    @property
    def left(self) -> float | None:
        """Seconds left, if the rest takes as long as what was done.

        Examples
        --------
        >>> BatchProgress(done=12, total=20, kept=2, seconds=5.0).left
        4.0
        """
        return (self.total - self.done) / self.rate if self.rate else None
