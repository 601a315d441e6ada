"""MiniMalloc's CSV: one buffer a row, in any order of columns.

============================  ===================================================================
``id``, ``buffer[_id]``       name, unique
``lower``, ``start, begin``   first step
``upper`` | ``end``           step after the last | last step; gaps then end alike
``size``                      bytes
``alignment``                 the offset must be a multiple of it
``gaps``                      ``lower-upper`` or ``lower-upper@begin:end``, separated by spaces:
                              steps without the buffer, or with no more than bytes [begin, end)
``offset``                    where the buffer must be, or blank
``hint``                      an offset worth trying, or blank
============================  ===================================================================

The last four are optional. Source: google/minimalloc, ``converter.cc``.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from array import array
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from os import PathLike
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from cpplan.model.errors import InputError, located
from cpplan.model.graph import Graph
from cpplan.model.names import name_of_file
from cpplan.model.problem import Gap, Ints, Problem
from cpplan.runtime.atomic import write_text
from cpplan.runtime.json_file import read_text

if TYPE_CHECKING:
    from cpplan.model.plan import Plan

_COLUMN = {
    "id": "id",
    "buffer": "id",
    "buffer_id": "id",
    "lower": "lower",
    "start": "lower",
    "begin": "lower",
    "upper": "upper",
    "end": "upper",
    "size": "size",
    "alignment": "alignment",
    "gaps": "gaps",
    "offset": "offset",
    "hint": "hint",
}
_REQUIRED = ("id", "lower", "upper", "size")
_INTEGER = re.compile(r"-?[0-9]+")
_GAP = re.compile(r"([0-9]{1,19})-([0-9]{1,19})(?:@([0-9]{1,19}):([0-9]{1,19}))?")
_LIMIT = 1 << 62  # so that the end of a buffer still fits 64 bits
# Rows read at once: few enough that they are gone before garbage collection comes to them.
_CHUNK = 1 << 9
_LONGEST = csv.field_size_limit()
# The csv module neither writes nor reads it.
_WITHOUT_NUL = sys.version_info < (3, 11)


def read_problem(path: str | PathLike[str]) -> Problem:
    """Read a packing problem. A header alone is a problem without buffers."""
    text = read_text(path)
    chunks = _chunks(text, path)
    first = next(chunks, None)
    if first is None:
        raise InputError(f"{path}: empty file: expected a header with {', '.join(_REQUIRED)}")
    header, *rows = first
    columns = _columns(header, path)
    table = _Table(text, path, closed="end" in map(str.strip, header))
    for chunk in chain([rows], chunks):
        table.add(chunk, columns)
    return table.problem()


def check_ids(names: Sequence[str], path: str | PathLike[str]) -> None:
    """Refuse names that could be written to ``path``, but not be read again."""
    for name in names:
        if not name or len(name) > _LONGEST:
            raise InputError(
                f"{path}: buffer {name!r}: an id must have from 1 to {_LONGEST} characters"
            )
        if _WITHOUT_NUL and "\0" in name:
            raise InputError(
                f"{path}: buffer {name!r}: an id must have no NUL character before Python 3.11"
            )


def write_csv(plan: Plan, path: str | PathLike[str], source: object) -> None:
    """Write the problem that a plan solves, with its offsets, whole or not at all.

    Raises
    ------
    InputError
        If the plan has several pools or buffers that share bytes, which the format cannot say, or
        is for another source; or the file cannot be written.
    """
    from cpplan.packing.problem import as_problem
    from cpplan.program.anf import Program
    from cpplan.verification.lowering import planned_program

    graph = source.graph if isinstance(source, Program) else source
    with located(path):
        if len(plan.pools) > 1:
            raise InputError("a CSV holds one pool only")
        if plan.relations:
            raise InputError("a CSV cannot say which buffers share bytes")
        if not isinstance(graph, (Graph, Problem)):
            found = "nothing" if source is None else f"a {type(source).__name__}"
            raise InputError(f"a CSV needs the graph or problem that was planned, not {found}")
        if isinstance(graph, Graph):
            problem = as_problem(planned_program(graph, plan), plan.residency)
        else:
            problem = graph
        if problem.names != plan.buffers:
            raise InputError(f"plan {plan.name!r} is for another source: other buffers")
    write_problem(problem, path, plan.offset)


def write_problem(
    problem: Problem, path: str | PathLike[str], offsets: Sequence[int] | Ints | None = None
) -> None:
    """Write a packing problem, whole or not at all; with ``offsets``, a row a buffer, solved.

    Without ``offsets`` the ``offset`` column holds the problem's fixed offsets, if it has any.

    Raises
    ------
    InputError
        If the file cannot be written, there is not one offset a buffer, or a name is empty or too
        long for a field; names the file.
    """
    check_ids(problem.names, path)
    count = range(len(problem))
    columns: dict[str, Sequence[object]] = {"id": problem.names}
    for column in ("lower", "upper", "size"):
        columns[column] = getattr(problem, column).tolist()
    if (problem.alignment != 1).any():
        columns["alignment"] = problem.alignment.tolist()
    if problem.gaps:
        columns["gaps"] = [" ".join(map(_gap_text, problem.gaps.get(row, ()))) for row in count]
    if offsets is not None:
        if len(offsets) != len(problem):
            raise InputError(f"{path}: {len(offsets)} offsets for {len(problem)} buffers")
        columns["offset"] = [int(offset) for offset in offsets]
    elif problem.fixed:
        columns["offset"] = [problem.fixed.get(row, "") for row in count]
    if problem.hint:
        columns["hint"] = [problem.hint.get(row, "") for row in count]
    stream = io.StringIO()
    # The csv module quotes a name for the line end it writes itself, but not for another.
    odd = any("\r" in name for name in problem.names)
    writer = csv.writer(
        stream,
        lineterminator="\n",
        quoting=csv.QUOTE_NONNUMERIC if odd else csv.QUOTE_MINIMAL,
    )
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    write_text(path, stream.getvalue())


class _Table:
    """Columns as they grow, chunk by chunk, so that a million rows are never a million lists."""

    def __init__(self, text: str, path: str | PathLike[str], closed: bool):
        self.text, self.path, self.closed = text, path, closed
        self.names: list[str] = []
        self.integers = {c: array("q") for c in ("lower", "upper", "size", "alignment")}
        self.sparse: dict[str, dict[int, int]] = {"offset": {}, "hint": {}}
        self.gaps: dict[int, list[Gap]] = {}

    def add(self, chunk: list[list[str]], columns: Sequence[str]) -> None:
        if not chunk:
            return
        first = len(self.names)
        if set(map(len, chunk)) != {len(columns)}:
            row = next(k for k, fields in enumerate(chunk) if len(fields) != len(columns))
            found = f"{len(chunk[row])} fields: expected {len(columns)}"
            raise InputError(f"{self.path}:{self._line(first + row)}: {found}")
        values: dict[str, Sequence[str]] = dict(zip(columns, zip(*chunk, strict=True), strict=True))
        self.names.extend(values["id"])
        if "" in values["id"]:
            self._fail(first + values["id"].index(""), "id must not be blank")
        for column, numbers in self.integers.items():
            if column in values:
                numbers.extend(self._parse(column, values[column], range(first, len(self.names))))
        for column, offsets in self.sparse.items():
            filled = [k for k, v in enumerate(values.get(column, ())) if v and not v.isspace()]
            texts = [values[column][k] for k in filled]
            rows = [first + k for k in filled]
            offsets.update(zip(rows, self._parse(column, texts, rows), strict=True))
        for row, value in enumerate(values.get("gaps", ()), first):
            if gaps := [self._gap(row, piece) for piece in value.split()]:
                self.gaps[row] = gaps

    def problem(self) -> Problem:
        try:
            return self._build(slice(None))
        except InputError as error:
            raise self._located(error) from error

    def _build(self, rows: slice) -> Problem:
        lower, upper, size, alignment = (np.array(a[rows]) for a in self.integers.values())
        return Problem(
            self.names[rows],
            lower,
            upper + self.closed,
            size,
            alignment if len(self.integers["alignment"]) else np.ones_like(size),
            gaps=self._of(rows, self.gaps),
            fixed=self._of(rows, self.sparse["offset"]),
            hint=self._of(rows, self.sparse["hint"]),
            name=name_of_file(self.path),
        )

    def _of(self, rows: slice, table: dict[int, Any]) -> dict[int, Any]:
        if rows == slice(None):
            return table
        chosen = enumerate(range(rows.start, rows.stop))
        return {k: table[row] for k, row in chosen if row in table}

    def _located(self, error: InputError) -> InputError:
        """The same error with its line: that of the first row that is no problem by itself."""
        if len(set(self.names)) < len(self.names):
            seen: set[str] = set()
            for row, name in enumerate(self.names):
                if name in seen:
                    return InputError(f"{self.path}:{self._line(row)}: {error}")
                seen.add(name)
        lower, upper = (np.array(self.integers[column]) for column in ("lower", "upper"))
        suspects = np.flatnonzero(upper + self.closed <= lower)[:1].tolist()
        if 0 in self.integers["alignment"]:
            suspects.append(self.integers["alignment"].index(0))
        for row in sorted({*suspects, *self.gaps, *self.sparse["offset"]}):
            try:
                self._build(slice(row, row + 1))
            except InputError as alone:  # noqa: PERF203 - ends the loop
                return InputError(f"{self.path}:{self._line(row)}: {alone}")
        return InputError(f"{self.path}: {error}")

    def _parse(self, column: str, texts: Sequence[str], rows: Sequence[int]) -> list[int]:
        joined = "".join(texts)
        # Nineteen digits may be too many; a blank field disappears in the joined text.
        plain = joined.isascii() and joined.isdigit() and "" not in texts
        if plain and max(map(len, texts)) < 19:
            return list(map(int, texts))
        return [self._integer(row, column, text) for row, text in zip(rows, texts, strict=True)]

    def _integer(self, row: int, column: str, text: str) -> int:
        text = text.strip()
        if not _INTEGER.fullmatch(text):
            self._fail(row, f"{column} must be an integer, not {text!r}")
        if text.startswith("-"):
            self._fail(row, f"{column} must not be negative, but is {text}")
        if len(text) > 19 or int(text) >= _LIMIT:
            self._fail(row, f"{column} must be below 2**62, but is {text[:40]}")
        return int(text)

    def _gap(self, row: int, text: str) -> Gap:
        match = _GAP.fullmatch(text)
        if match is None:
            self._fail(row, f"gap {text!r}: expected lower-upper or lower-upper@begin:end")
        numbers = lower, upper, begin, end = [int(number or 0) for number in match.groups()]
        if max(numbers) >= _LIMIT:
            self._fail(row, f"gap {text!r}: numbers must be below 2**62")
        return Gap(lower, upper + self.closed, begin, end)

    def _fail(self, row: int, message: str) -> NoReturn:
        name = self.names[row]
        raise InputError(f"{self.path}:{self._line(row)}: buffer {name!r}: {message}")

    def _line(self, row: int) -> int:
        reader = csv.reader(io.StringIO(self.text, newline=""))
        filled = (reader.line_num for fields in reader if _is_filled(fields))
        return next(islice(filled, row + 1, None))


def _chunks(text: str, path: str | PathLike[str]) -> Iterator[list[list[str]]]:
    """The rows that are not blank, many at a time; the first is the header."""
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        while chunk := list(islice(reader, _CHUNK)):
            # Whatever has two fields is not blank: that is told of all rows at once.
            filled = chunk if min(map(len, chunk)) > 1 else list(filter(_is_filled, chunk))
            if filled:
                yield filled
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num}: not CSV: {error}") from error


def _is_filled(fields: list[str]) -> bool:
    return len(fields) > 1 or bool(fields and fields[0].strip())


def _columns(header: list[str], path: str | PathLike[str]) -> list[str]:
    columns: list[str] = []
    for title in map(str.strip, header):
        if title not in _COLUMN:
            raise InputError(f"{path}: unknown column {title!r}: expected {', '.join(_COLUMN)}")
        if _COLUMN[title] in columns:
            raise InputError(f"{path}: column {title!r} repeats an earlier column")
        columns.append(_COLUMN[title])
    missing = next((column for column in _REQUIRED if column not in columns), None)
    if missing is not None:
        raise InputError(f"{path}: missing column {missing!r}")
    return columns


def _gap_text(gap: Gap) -> str:
    window = f"@{gap.begin}:{gap.end}" if gap.end else ""
    return f"{gap.lower}-{gap.upper}{window}"
