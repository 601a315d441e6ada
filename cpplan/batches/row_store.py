"""Store of a batch's rows while it runs; a kill at any time leaves each row whole or absent.

Beside ``results.parquet``, the folder ``results.parquet.parts`` holds one file for each row,
written under a temporary name and then renamed. When all rows are done, the table is written into
the folder in the same way and moved to its final place in one step; then the folder is removed. A
later run reads the table and the folder, and keeps every row that has the key of one of its tasks.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO

from cpplan.batches.table import need_arrow, read_rows, to_table
from cpplan.batches.task_planning import Row
from cpplan.model.errors import InputError
from cpplan.runtime.atomic import write_text
from cpplan.runtime.loop_cache import lock_file
from cpplan.runtime.regular_file import resolve_target

_LOCK, _TABLE = "lock", "table"


class RowStore:
    """The rows of one table; a context that keeps other runs from writing to it.

    Raises
    ------
    InputError
        If the table cannot be written there, or another run is writing it.
    """

    def __init__(self, path: str | os.PathLike[str]):
        if Path(path).suffix.lower() != ".parquet":
            raise InputError(f"{path}: expected a name that ends in .parquet")
        need_arrow()
        self.path = path
        self._target = resolve_target(path)
        self._folder = self._target.with_name(f"{self._target.name}.parts")
        self._lock: IO[str] | None = None

    def __enter__(self) -> RowStore:
        while self._lock is None:
            self._lock = self._take_lock()
        # Remove files that a killed run had begun to write.
        for begun in (*self._folder.glob(".cpplan.*"), self._folder / _TABLE):
            begun.unlink(missing_ok=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._lock is not None
        # Remove the file while the lock is held; Windows cannot remove an open file.
        if os.name != "posix":
            self._lock.close()
        # A later run has no use for an empty folder.
        with suppress(OSError):
            if not any(self._parts()):
                (self._folder / _LOCK).unlink(missing_ok=True)
                self._folder.rmdir()
        self._lock.close()
        self._lock = None

    def _take_lock(self) -> IO[str] | None:
        """The lock file, open and locked, or ``None`` if a run that ended has just removed it."""
        lock = self._folder / _LOCK
        try:
            self._folder.mkdir(exist_ok=True)
            try:
                stream = lock.open("w")
            except FileNotFoundError:
                return None
        except OSError as error:
            raise InputError(f"{self._folder}: cannot be written: {error.strerror}") from error
        try:
            lock_file(stream)
        except OSError as error:
            stream.close()
            raise InputError(f"{self.path}: another run is writing it") from error
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(stream.fileno()), lock.stat()):
                return stream
        stream.close()
        return None

    def found(self) -> dict[str, Row]:
        """Rows that earlier runs have left, by key."""
        rows = read_rows(self._target) if self._target.exists() else []
        rows += [row for part in self._parts() if (row := _read_part(part)) is not None]
        return {str(row.get("key")): row for row in rows}

    def keep(self, row: Row) -> None:
        """Write a row to disk at once, so that it survives a kill."""
        write_text(self._folder / f"{row['key']}.json", json.dumps(row))

    def finish(self, rows: Iterable[Row], baselines: Iterable[str]) -> None:
        """Write the table, which replaces the stored rows."""
        arrow = need_arrow()
        table = self._folder / _TABLE
        try:
            arrow.parquet.write_table(to_table(list(rows), baselines), table)
            with table.open("rb") as written:
                os.fsync(written.fileno())
            os.replace(table, self._target)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be written: {error.strerror}") from error
        for part in self._parts():
            part.unlink(missing_ok=True)

    def _parts(self) -> list[Path]:
        return sorted(self._folder.glob("*.json"))


def _read_part(path: Path) -> Row | None:
    """The row in a file, or ``None`` if the file is incomplete after a power failure."""
    try:
        row = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return row if isinstance(row, dict) else None
