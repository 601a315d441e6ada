"""Buffers of a plan's file as columns, read some lines at a time.

Parsed as a whole, a plan of a million buffers is a million objects and takes a gigabyte. Plans are
written with a line a buffer; where the file is so, and its rows right, they are read piece by
piece. Any other file is parsed as a whole, which also says what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from cpplan.io.plan_fields import right_columns
from cpplan.runtime.collection import without_collection
from cpplan.runtime.json_file import parse_json, parse_values, read_text

if TYPE_CHECKING:
    from cpplan.model.problem import Ints

# What comes before the first row and after the last.
_OPENING, _CLOSING = ',\n "buffers": [\n', "\n ]\n}\n"
# Characters parsed at once, and those of a file that is parsed as a whole.
_PIECE, _FEW = 1 << 20, 1 << 22


@dataclass(frozen=True, slots=True, eq=False)
class BufferColumns:
    """Buffers of a plan.

    Attributes
    ----------
    name
        Names.
    size, lower, upper
        Bytes and steps.
    offset
        Bytes; ``None`` if one buffer has none.
    pool
        Numbers in ``pools``.
    pools
        Names of the pools, in the order in which they first come.
    """

    name: Sequence[str]
    size: Ints
    lower: Ints
    upper: Ints
    offset: Ints | None
    pool: Ints
    pools: Sequence[str]


def columns_of(pieces: Sequence[Mapping[str, Any]]) -> BufferColumns:
    """Columns of rows that were read in pieces, each a column by its key."""
    number: dict[str, int] = {}
    names: list[str] = []
    parts: dict[str, list[Ints]] = {key: [] for key in ("size", "lower", "upper", "offset", "pool")}
    placed = True
    for piece in pieces:
        names += piece["name"]
        for pool in dict.fromkeys(piece["pool"]):
            number.setdefault(pool, len(number))
        placed &= isinstance(piece["offset"], np.ndarray) or None not in piece["offset"]
        for key, found in parts.items():
            values = piece[key] if key != "pool" else [number[pool] for pool in piece[key]]
            if key != "offset" or placed:
                found.append(np.asarray(values, np.int64))
    none = np.zeros(0, np.int64)
    size, lower, upper, offset, pool = (np.concatenate([none, *found]) for found in parts.values())
    return BufferColumns(names, size, lower, upper, offset if placed else None, pool, [*number])


def read_rows(path: str | PathLike[str]) -> tuple[Any, BufferColumns | None]:
    """JSON value of a file, and its buffers if they are left out of the value."""
    with without_collection():
        text = read_text(path)
        found = _by_rows(text) if len(text) > _FEW else None
        return (parse_json(text, path), None) if found is None else found


def _by_rows(text: str) -> tuple[Any, BufferColumns] | None:
    """A plan's fields and the columns of its buffers; ``None`` unless all rows are right."""
    begin, end = text.find(_OPENING), len(text) - len(_CLOSING)
    if begin < 0 or not text.endswith(_CLOSING):
        return None
    pieces = []
    try:
        # No string has a line end in it: a comma that ends a line parts two rows.
        values = parse_values(text[:begin] + "\n}")
        at = begin + len(_OPENING)
        while at < end:
            cut = text.find("},\n", at + _PIECE, end)
            stop = end if cut < 0 else cut + 1
            columns = _columns(text[at:stop])
            if columns is None:
                return None
            pieces.append(columns)
            at = stop + 2
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict) or "buffers" in values:
        return None
    return {**values, "buffers": []}, columns_of(pieces)


def _columns(text: str) -> dict[str, Any] | None:
    """The columns of some rows; ``None`` unless all are right."""
    rows = parse_values(f"[{text}]")
    columns = right_columns(rows) if rows else None
    if columns is None:
        return None
    whole = {key: np.array(columns[key], np.int64) for key in ("size", "lower", "upper")}
    offset = columns["offset"]
    placed = None not in offset
    return {**columns, **whole, "offset": np.array(offset, np.int64) if placed else offset}
