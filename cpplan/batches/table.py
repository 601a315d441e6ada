"""The table of a batch: one row a task, in Parquet.

==============  ==================================================================================
model, setting  names of the model and of the setting
status          ``optimal``, ``feasible``, ``infeasible``, ``unknown``: the plan's; ``error``: the
                model or setting was refused, or something unforeseen; ``crashed``,
                ``out of memory``, ``out of time``: the end of the task's process
bytes           peak of the plan, over all pools; null if there is no plan
bound           no plan needs fewer bytes (in every order, if the setting searches it)
gap             ``(bytes - bound) / bytes``
cost, base_cost cost of the plan's ops, and of running every op once; null without ops
ratio_NAME      ``bytes`` / bytes of baseline NAME for the given order with nothing shared, one
                column for each baseline; below 1 the plan is smaller
ops, buffers    steps and buffers of the plan
moved_bytes     bytes moved between two pools; null unless tensors may move
copied_bytes    bytes copied to gather and to paste pieces; null unless ops may run in pieces
seed, options   of the setting; ``options`` are all of its keywords as JSON
version         of cpplan
key             digest of all that the row depends on: if it is unchanged, the row is kept
error           reason why there is no plan
seconds         clock: planning alone
task_seconds    clock: reading the model, planning and measuring the baselines
machine         the machine that ran the task
==============  ==================================================================================

If the settings are deterministic, only the last three columns may differ between runs.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from cpplan.batches.summary import RATIO
from cpplan.batches.task_planning import Row
from cpplan.model.errors import InputError, MissingExtraError
from cpplan.runtime import limits
from cpplan.runtime.regular_file import check_source

if TYPE_CHECKING:
    import pandas
    import pyarrow

TEXTS = ("model", "setting", "status", "options", "version", "key", "error", "machine")
COUNTS = ("bytes", "bound", "ops", "buffers", "moved_bytes", "copied_bytes", "seed")
CLOCKS = ("seconds", "task_seconds", "machine")
NUMBERS = (*COUNTS, "gap", "cost", "base_cost", "seconds", "task_seconds")
_LIMIT = 2**63  # counts are 64-bit integers
_BEFORE = ("model", "setting", "status", "bytes", "bound", "gap", "cost", "base_cost")
_AFTER = (
    *("ops", "buffers", "moved_bytes", "copied_bytes"),
    *("seed", "options", "version", "key", "error", *CLOCKS),
)


def columns(baselines: Iterable[str]) -> tuple[str, ...]:
    """The table's columns."""
    return (*_BEFORE, *(f"{RATIO}{name}" for name in baselines), *_AFTER)


def need_arrow() -> Any:
    """The module pyarrow; raises an error that names the extra if it is missing."""
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError("pyarrow", "batch", "a table of results") from error
    return pyarrow


def to_table(rows: Sequence[Row], baselines: Iterable[str]) -> pyarrow.Table:
    """Rows as a table, with null for values that a row lacks."""
    arrow = need_arrow()
    kinds = {name: arrow.string() for name in TEXTS} | {name: arrow.int64() for name in COUNTS}
    schema = arrow.schema([(name, kinds.get(name, arrow.float64())) for name in columns(baselines)])
    return arrow.Table.from_pylist(list(rows), schema=schema)


def to_frame(rows: Sequence[Row], baselines: Iterable[str]) -> pandas.DataFrame:
    """Rows as a data frame; counts stay integers even if some are missing."""
    import pandas

    kinds = dict.fromkeys(TEXTS, "object") | dict.fromkeys(COUNTS, "Int64")
    frame: pandas.DataFrame = pandas.DataFrame(
        {
            name: pandas.Series([row.get(name) for row in rows], dtype=kinds.get(name, "float64"))
            for name in columns(baselines)
        }
    )
    return frame


def read_rows(path: str | PathLike[str]) -> list[Row]:
    """The rows of a table in Parquet, or as CSV (``.csv``).

    Raises
    ------
    InputError
        If the file cannot be read or is not such a table; names the file.
    """
    check_source(path)
    if str(path).lower().endswith(".csv"):
        rows = _read_csv(path)
    else:
        arrow = need_arrow()
        try:
            rows = _read_parquet(path, arrow)
        except (OSError, ValueError, OverflowError, arrow.ArrowException) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"{path}: not a Parquet file, or damaged: expected a table of cpplan batch"
            ) from error
    _check_types(path, rows)
    missing = [name for name in ("model", "setting", "bytes") if rows and name not in rows[0]]
    if missing:
        raise InputError(f"{path}: no column {missing[0]!r}: expected a table of cpplan batch")
    return rows


def _read_parquet(path: str | PathLike[str], arrow: Any) -> list[Row]:
    """Rows of a Parquet file, of its known columns; raises for too many bytes, rows or cells.

    A small file can claim billions: one value stands for a whole column, or for a list in a cell.
    """
    about = arrow.parquet.read_metadata(path)
    groups = map(about.row_group, range(about.num_row_groups))
    if sum(group.total_byte_size for group in groups) > limits.MOST_UNPACKED:
        raise InputError(f"{path}: unpacks to more than {limits.MOST_UNPACKED >> 20} MiB")
    known = [
        field
        for field in about.schema.to_arrow_schema()
        if field.name in (*TEXTS, *NUMBERS) or field.name.startswith(RATIO)
    ]
    for field in known:
        if arrow.types.is_nested(field.type):
            raise InputError(f"{path}: column {field.name!r} is of {field.type}, not of cells")
    texts = [field.name for field in known if not arrow.types.is_primitive(field.type)]
    if about.num_rows > limits.MOST_ROWS:
        raise InputError(f"{path}: expected at most {limits.MOST_ROWS} rows")
    if about.num_rows * len(known) > limits.MOST_CELLS:
        raise InputError(f"{path}: expected at most {limits.MOST_CELLS} cells")
    rows: list[Row] = []
    size = 0
    with arrow.parquet.ParquetFile(path, read_dictionary=texts) as file:
        for batch in file.iter_batches(batch_size=10_000, columns=[field.name for field in known]):
            size += sum(map(_text_bytes, batch.columns))
            if size > limits.MOST_UNPACKED:
                raise InputError(f"{path}: unpacks to more than {limits.MOST_UNPACKED >> 20} MiB")
            rows += batch.to_pylist()
            if len(rows) > limits.MOST_ROWS:
                raise InputError(f"{path}: expected at most {limits.MOST_ROWS} rows")
    return rows


def _text_bytes(column: Any) -> int:
    """Bytes of all texts of a column in which equal texts are stored once; 0 of other columns."""
    import pyarrow.compute

    if not pyarrow.types.is_dictionary(column.type):
        return 0
    length = pyarrow.compute.binary_length(column.dictionary)
    return pyarrow.compute.sum(length.take(column.indices)).as_py() or 0


def _check_types(path: str | PathLike[str], rows: Sequence[Row]) -> None:
    """Raise if a cell of a text column is not text, or a cell of a number column not a number.

    Numbers that are missing become ``None``: data frames mark them as not a number.
    """
    for number, row in enumerate(rows, 1):
        for name, cell in row.items():
            if cell is None:
                continue
            if name in TEXTS and not isinstance(cell, str):
                raise InputError(
                    f"{path}: row {number}: {name} is {reprlib.repr(cell)}: expected text"
                )
            if name not in NUMBERS and not name.startswith(RATIO):
                continue
            if isinstance(cell, float) and math.isnan(cell):
                row[name] = None
                continue
            wanted = None
            if not isinstance(cell, (int, float)) or isinstance(cell, bool):
                wanted = "a number"
            elif name in COUNTS and not (abs(cell) < _LIMIT and cell == int(cell)):
                wanted = "a whole number below 2**63"
            if wanted is not None:
                raise InputError(
                    f"{path}: row {number}: {name} is {reprlib.repr(cell)}: expected {wanted}"
                )


def _read_csv(path: str | PathLike[str]) -> list[Row]:
    import pandas

    try:
        # Read cells as text: pandas would turn counts into floats if some are missing.
        frame = pandas.read_csv(path, dtype="object", keep_default_na=False, encoding="utf-8-sig")
    except (ValueError, OSError) as error:
        raise InputError(f"{path}: not a CSV table: {error}") from error
    rows = [{str(name): cell for name, cell in row.items()} for row in frame.to_dict("records")]
    for number, row in enumerate(rows, 1):
        for name, cell in row.items():
            if cell == "" or not isinstance(cell, str):
                row[name] = None
            elif name in NUMBERS or name.startswith(RATIO):
                try:
                    row[name] = _number(name, cell)
                except ValueError as error:
                    reason = f"row {number}: {name} is {cell!r}: expected a number"
                    raise InputError(f"{path}: {reason}") from error
    return rows


def _number(name: str, cell: str) -> float | None:
    if name in COUNTS:
        # Other tools write counts as 12.0 if some are missing.
        whole, _, zeros = cell.partition(".")
        if zeros.strip("0") == "":
            return int(whole)
    value = float(cell)
    return None if math.isnan(value) else value
