"""Rows are kept whole or not at all."""

from __future__ import annotations

import os

import pytest

from cpplan.batches import row_store
from cpplan.batches.row_store import RowStore
from cpplan.batches.table import read_rows
from cpplan.model.errors import InputError


def _row(key: str) -> dict[str, object]:
    return {
        "model": f"model {key}",
        "setting": "s",
        "status": "optimal",
        "bytes": 2**60,
        "key": key,
    }


def test_rows_are_found_again_by_their_keys(tmp_path):
    output = tmp_path / "r.parquet"
    with RowStore(output) as store:
        store.keep(_row("a"))
        store.keep(_row("b"))
    with RowStore(output) as store:
        assert store.found() == {"a": _row("a"), "b": _row("b")}
        store.finish([_row("b"), _row("a")], ())
    assert os.listdir(tmp_path) == ["r.parquet"]
    assert [row["key"] for row in read_rows(output)] == ["b", "a"]
    assert read_rows(output)[0]["bytes"] == 2**60
    with RowStore(output) as store:
        assert set(store.found()) == {"a", "b"}
    assert os.listdir(tmp_path) == ["r.parquet"]


def test_what_a_killed_run_was_writing_is_cleared_away(tmp_path):
    output, parts = tmp_path / "r.parquet", tmp_path / "r.parquet.parts"
    parts.mkdir()
    for name, text in {
        ".cpplan.x1": "{",
        "table": "PAR1",
        "cut.json": '{"key": "cut',
        "lock": "",
    }.items():
        (parts / name).write_text(text)
    with RowStore(output) as store:
        assert store.found() == {}
        assert sorted(os.listdir(parts)) == ["cut.json", "lock"]
        store.finish([_row("a")], ())
    assert os.listdir(tmp_path) == ["r.parquet"]


def test_two_runs_do_not_write_one_table(tmp_path):
    output = tmp_path / "r.parquet"
    with RowStore(output), pytest.raises(InputError, match="another run is writing it"):
        RowStore(output).__enter__()


def test_a_lock_that_its_last_owner_removes_is_not_taken(tmp_path, monkeypatch):
    output, parts = tmp_path / "r.parquet", tmp_path / "r.parquet.parts"
    take, ends = row_store.lock_file, iter(["now"])

    def take_late(stream):
        # Between opening and locking, the run that had the lock comes to its end.
        for _ in ends:
            (parts / "lock").unlink()
            parts.rmdir()
        take(stream)

    monkeypatch.setattr(row_store, "lock_file", take_late)
    with RowStore(output) as store:
        store.keep(_row("a"))
        with pytest.raises(InputError, match="another run is writing it"):
            RowStore(output).__enter__()
    assert sorted(os.listdir(parts)) == ["a.json", "lock"]


def test_where_no_folder_can_be_made_is_refused(tmp_path, monkeypatch):
    # As below /proc, where even root makes none.
    def refuse(self, *arguments, **options):
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(row_store.Path, "mkdir", refuse)
    with pytest.raises(InputError, match=r"r\.parquet\.parts: cannot be written: No such file"):
        RowStore(tmp_path / "r.parquet").__enter__()


def test_a_table_of_something_else_is_left_alone(tmp_path):
    output = tmp_path / "r.parquet"
    output.write_text("not a table")
    with RowStore(output) as store, pytest.raises(InputError, match="not a Parquet file"):
        store.found()
    assert output.read_text() == "not a table"
