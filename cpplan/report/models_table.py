"""Markdown table of results, with one row per model and one column per setting."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from cpplan.batches.summary import RATIO
from cpplan.model.byte_sizes import format_bytes
from cpplan.model.printable import printable

PROVED = "proved the smallest that the setting allows"


def format_models(rows: Sequence[Mapping[str, Any]]) -> str:
    """Bytes of every model under baselines and settings, with a star if proved the smallest.

    Parameters
    ----------
    rows
        Rows of :func:`cpplan.batch` or :func:`~cpplan.batches.table.read_rows`.

    Examples
    --------
    >>> row = {"model": "a", "setting": "x", "bytes": 12, "status": "optimal", "ratio_bump": 0.5}
    >>> print(format_models([row]))
    | model | bump |      x |
    |:------|-----:|-------:|
    | a     | 24 B | 12 B * |
    <BLANKLINE>
    \\* proved the smallest that the setting allows
    <BLANKLINE>
    """
    models = list(dict.fromkeys(row["model"] for row in rows))
    settings = list(dict.fromkeys(row["setting"] for row in rows))
    baselines = [name for name in rows[0] if name.startswith(RATIO)]
    of = {(row["model"], row["setting"]): row for row in rows}
    table = [["model", *(name.removeprefix(RATIO) for name in baselines), *settings]]
    for model in models:
        found = [of.get((model, setting), {}) for setting in settings]
        table.append(
            [model, *(_baseline(found, name) for name in baselines), *map(_planned, found)]
        )
    # An unescaped bar would end the cell.
    cells = [[printable(text).replace("|", "\\|") for text in line] for line in table]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["| " + " | ".join(_justify(line, widths)) + " |" for line in cells]
    rule = ["-" * (width + 1) for width in widths]
    lines.insert(1, "|:" + "|".join([rule[0], *(f"{dashes}:" for dashes in rule[1:])]) + "|")
    return "\n".join([*lines, "", f"\\* {PROVED}"]) + "\n"


def _justify(line: Sequence[str], widths: Sequence[int]) -> list[str]:
    """Cells of a line, the name padded on the right and figures on the left."""
    name, *figures = line
    return [name.ljust(widths[0]), *(t.rjust(w) for t, w in zip(figures, widths[1:], strict=True))]


def _planned(row: Mapping[str, Any]) -> str:
    """A row's bytes, or its status or error if there is no plan."""
    if row.get("bytes") is None:
        return "error" if row.get("error") else str(row.get("status") or "")
    return format_bytes(int(row["bytes"])) + (" *" if row.get("status") == "optimal" else "")


def _baseline(rows: Sequence[Mapping[str, Any]], name: str) -> str:
    """A baseline's bytes, from the first row that was compared with it."""
    for row in rows:
        if row.get("bytes") is not None and row.get(name):
            need = row["bytes"] / row[name]
            return format_bytes(round(need)) if math.isfinite(need) else ""
    return ""
