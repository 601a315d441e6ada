"""Progress of a batch on stderr: a bar on a terminal, a line per row elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cpplan.model.byte_sizes import format_bytes
from cpplan.model.printable import printable
from cpplan.runtime.streams import write_to

if TYPE_CHECKING:
    from cpplan.batches.progress import BatchProgress


@contextmanager
def watching_batch(*, enabled: bool = True) -> Iterator[Callable[[BatchProgress], None] | None]:
    """A progress callback for ``cpplan.batch``, or ``None`` unless ``enabled``."""
    if not enabled:
        yield None
    elif sys.stderr is None or not sys.stderr.isatty():
        yield _write_line
    else:
        from rich.progress import BarColumn, Progress, TextColumn
        from rich.text import Text

        columns = BarColumn(bar_width=30), TextColumn("{task.fields[counts]}", markup=False)
        with Progress(*columns, transient=True) as bar:
            # Added before the first event, since a batch may have nothing to do.
            task = bar.add_task("", total=None, counts="reading")

            def show(event: BatchProgress) -> None:
                counts = _describe_counts(event)
                bar.update(task, completed=event.done, total=event.total, counts=counts)
                if event.others:
                    bar.console.print(Text(describe_others(event)), soft_wrap=True)
                if event.row is not None and event.row["error"] is not None:
                    bar.console.print(Text(describe_row(event)), soft_wrap=True)

            yield show


def _write_line(event: BatchProgress) -> None:
    line = _describe_counts(event)
    if event.row is not None:
        line += f"  {describe_row(event)}"
    write_to(sys.stderr, f"{line}\n")


def _describe_counts(event: BatchProgress) -> str:
    width = len(str(event.total))
    parts = [f"{event.done:{width}}/{event.total}"]
    if event.row is None and event.note is None and event.kept:
        parts.append(f"{event.kept} kept from an earlier run")
    if event.others:
        parts.append(describe_others(event))
    if event.note is not None:
        parts.append(event.note)
    if event.rate is not None and event.left is not None:
        parts += [f"{event.rate * 60:.3g} a minute", f"{format_time(event.left)} left"]
    return "  ".join(parts)


def describe_others(event: BatchProgress) -> str:
    """Number of rows that will be replaced, in words."""
    rows = "row" if event.others == 1 else "rows"
    return f"{event.others} {rows} of another batch or version will be replaced"


def describe_row(event: BatchProgress) -> str:
    """The latest row in words."""
    row = event.row or {}
    names = f"{printable(row['model'])}  {printable(row['setting'])}  {row['status']}"
    if row["error"] is not None:
        return f"{names}: {printable(row['error'], 300)}"
    return f"{names}  {format_bytes(row['bytes'])}"


def format_time(seconds: float) -> str:
    """A duration in seconds, minutes or hours, as text."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02} min"
    return f"{whole // 3600}:{whole % 3600 // 60:02} h"
