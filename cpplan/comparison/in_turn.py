"""Rows of a comparison, made one after another."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from cpplan.model.plan_data import Progress

Row = TypeVar("Row")


def rows_in_turn(
    names: Sequence[str],
    run: Callable[[str], Row],
    interrupted: Callable[[], bool],
    progress: Callable[[Progress], None] | None,
) -> Iterator[Row]:
    """Yield the row of each name, until Ctrl-C: the row that it cuts short is left out."""
    begin = time.monotonic()
    for number, name in enumerate(names, start=1):
        if interrupted():
            return
        try:
            if progress is not None:
                text = f"baseline {number} of {len(names)}: {name}"
                progress(Progress(time.monotonic() - begin, None, None, text))
            row = run(name)
        except KeyboardInterrupt:
            return
        yield row
