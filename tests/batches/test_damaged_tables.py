"""Tables of results that are damaged, lie about their size, or hold something else."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from cpplan.batches.table import read_rows, to_table
from cpplan.cli.main import main
from cpplan.model.errors import InputError
from cpplan.runtime import limits

parquet = pytest.importorskip("pyarrow.parquet", reason="cpplan[batch] is not installed")
import pyarrow  # noqa: E402

ROWS = [
    {"model": model, "setting": setting, "status": "optimal", "bytes": 100, "bound": 100}
    for model in ("one", "two")
    for setting in ("given", "searched")
]


@pytest.fixture
def data(tmp_path: Path) -> bytes:
    path = tmp_path / "whole.parquet"
    parquet.write_table(to_table(ROWS, ["greedy_by_size"]), path)
    return path.read_bytes()


@pytest.mark.parametrize("block", range(4))
def test_flipped_bits_end_in_a_summary_or_in_one_line(
    data: bytes, tmp_path: Path, capsys, block: int
) -> None:
    path = tmp_path / "r.parquet"
    rng = random.Random(block)
    codes = set()
    for _ in range(100):
        damaged = bytearray(data)
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        codes.add(main(["summary", str(path)]))
        assert capsys.readouterr().err.count("\n") <= 1
    assert codes == {0, 2}


def test_column_name_that_is_no_text_is_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    path.write_bytes(data.replace(b"base_cost", b"base\xffcost"))
    with pytest.raises(InputError, match=r"r\.parquet: not a Parquet file, or damaged"):
        read_rows(path)


@pytest.mark.parametrize(
    ("column", "values", "expected"),
    [("model", [1], "text"), ("bytes", ["7"], "a number"), ("ratio_bump", [True], "a number")],
)
def test_cells_of_another_type_are_named(tmp_path: Path, column, values, expected) -> None:
    path = tmp_path / "r.parquet"
    columns = {"model": ["one"], "setting": ["given"], "bytes": [1]} | {column: values}
    parquet.write_table(pyarrow.table(columns), path)
    with pytest.raises(InputError, match=rf"row 1: {column} is .*: expected {expected}"):
        read_rows(path)


def test_few_bytes_of_many_rows_are_refused(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "r.parquet"
    rows = pyarrow.table({"model": pyarrow.repeat("m", 400_000)})
    parquet.write_table(rows, path)
    assert path.stat().st_size < 5_000
    with pytest.raises(InputError, match=r"r\.parquet: expected at most 250000 rows"):
        read_rows(path)
    monkeypatch.setattr(limits, "MOST_UNPACKED", 10)
    with pytest.raises(InputError, match="unpacks to more than 0 MiB"):
        read_rows(path)


@pytest.mark.parametrize("column", ["bytes", "bound", "ops", "seed"])
@pytest.mark.parametrize("cell", ["1.5", "1" * 4_000, str(2**63), "1e400"])
def test_count_that_no_column_holds_is_refused(
    tmp_path: Path, capsys, column: str, cell: str
) -> None:
    path, report = tmp_path / "r.csv", tmp_path / "r.html"
    row = {"model": "one", "setting": "given", "bytes": "1"} | {column: cell}
    path.write_text(f"{','.join(row)}\n{','.join(row.values())}\n")
    assert main(["summary", str(path), "--report", str(report)]) == 2
    assert f"row 1: {column} is " in capsys.readouterr().err
    assert not report.exists()


@pytest.mark.parametrize("cell", [1.5, 2.0**63, math.inf])
def test_count_of_a_parquet_table_must_be_whole(tmp_path: Path, cell: float) -> None:
    path = tmp_path / "r.parquet"
    columns = {"model": ["one"], "setting": ["given"], "bytes": [cell]}
    parquet.write_table(pyarrow.table(columns), path)
    with pytest.raises(InputError, match=r"row 1: bytes is .*: expected a whole number below 2"):
        read_rows(path)


def test_missing_counts_of_a_data_frame_are_read(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    columns = {"model": ["one", "two"], "setting": ["given"] * 2, "bytes": [1.0, math.nan]}
    parquet.write_table(pyarrow.table(columns), path)
    assert [row["bytes"] for row in read_rows(path)] == [1.0, None]


def of_rows(path: Path, rows: int, **columns: object) -> Path:
    """A table of results whose columns hold one value each, or an array."""
    cells = {"model": "one", "setting": "given", "bytes": 1} | columns
    held = {
        name: cell if isinstance(cell, pyarrow.Array) else pyarrow.repeat(cell, rows)
        for name, cell in cells.items()
    }
    parquet.write_table(pyarrow.table(held), path, compression="zstd")
    return path


def test_few_bytes_of_many_cells_are_refused(tmp_path: Path) -> None:
    ratios = {f"ratio_{k}": 1.5 for k in range(97)}
    path = of_rows(tmp_path / "r.parquet", 80_000, **ratios)
    assert path.stat().st_size < 100_000
    with pytest.raises(InputError, match=r"r\.parquet: expected at most 6000000 cells"):
        read_rows(path)


def test_columns_that_no_table_has_are_not_read(tmp_path: Path) -> None:
    numbers = pyarrow.repeat(1, 1_000_000)
    one = pyarrow.LargeListArray.from_arrays(pyarrow.array([0, 1_000_000]), numbers)
    path = of_rows(tmp_path / "r.parquet", 1, notes=one)
    assert read_rows(path) == [{"model": "one", "setting": "given", "bytes": 1}]
    with pytest.raises(InputError, match=r"column 'bytes' is of large_list.*, not of"):
        read_rows(of_rows(path, 1, bytes=one))


def test_long_text_in_many_rows_is_refused(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(limits, "MOST_UNPACKED", 1 << 20)
    long = pyarrow.DictionaryArray.from_arrays([0] * 1_000, ["m" * 2_000])
    path = of_rows(tmp_path / "r.parquet", 1_000, model=long)
    assert path.stat().st_size < 10_000
    with pytest.raises(InputError, match="unpacks to more than 1 MiB"):
        read_rows(path)
    monkeypatch.setattr(limits, "MOST_UNPACKED", 2 << 20)
    assert len(read_rows(path)) == 1_000


def test_too_many_settings_or_pairs_are_refused(tmp_path: Path, capsys) -> None:
    path = tmp_path / "r.parquet"
    names = pyarrow.array([str(k) for k in range(2_100)])
    assert main(["summary", str(of_rows(path, 2_100, setting=names))]) == 2
    assert "2100 settings: expected at most 500" in capsys.readouterr().err
    few = pyarrow.array([str(k % 500) for k in range(2_100)])
    assert main(["summary", str(of_rows(path, 2_100, model=names, setting=few))]) == 2
    assert "expected at most 1000000 pairs" in capsys.readouterr().err


def test_baseline_of_a_tiny_ratio_is_left_empty(tmp_path: Path, capsys) -> None:
    path = of_rows(tmp_path / "r.parquet", 1, bytes=1 << 40, ratio_bump=1e-300)
    assert main(["summary", str(path), "--models"]) == 0
    assert "| one   |      | 1.00 TiB |" in capsys.readouterr().out
