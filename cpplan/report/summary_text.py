"""Summary of a batch's results for the terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from cpplan.batches.summary import RATIO, Summary
from cpplan.model.byte_sizes import format_bytes
from cpplan.model.printable import printable
from cpplan.model.text_table import format_table

PROVED = "proved the smallest that the setting allows; of others, the least that none can be below"


def format_summary(summary: Summary) -> str:
    """Tables of the means, the performance profile, and the wins between settings."""
    many = "" if summary.models == 1 else "s"
    head = f"{summary.models} model{many}; geometric means over the {summary.common} that every "
    none = sum(one.planned == 0 for one in summary.settings)
    rest = f" (but the {none} that planned none)" if none else ""
    blocks = [f"{head}setting planned{rest}\n", _means(summary), _profiles(summary)]
    if summary.duels or summary.baseline_duels:
        blocks.append(_duels(summary))
    return "\n".join(blocks)


def _means(summary: Summary) -> str:
    baselines = list(summary.settings[0].to_baseline)
    header = ("setting", "planned", "optimal", "/ best", "/ bound",
              *(f"/ {printable(name)}" for name in baselines), "seconds")  # fmt: skip
    cells = [
        (
            printable(one.setting),
            str(one.planned),
            str(one.optimal),
            _format(one.to_best),
            _format(one.to_bound),
            *(_format(one.to_baseline[name]) for name in baselines),
            f"{one.seconds:.1f}",
        )
        for one in summary.settings
    ]
    return format_table(header, cells, left=(0,))


def _profiles(summary: Summary) -> str:
    header = ("setting", *(f"{factor:g}" for factor in summary.factors))
    cells = [
        (printable(one.setting), *(f"{share:.1%}" for share in one.profile))
        for one in summary.settings
    ]
    title = f"share of models within a factor of the best {summary.measure}\n"
    return title + format_table(header, cells, left=(0,))


def _duels(summary: Summary) -> str:
    cells = [
        (printable(duel.setting), printable(other), *map(str, (duel.wins, duel.ties, duel.losses)))
        for duels, prefix, suffix in (
            (summary.duels, "", ""),
            (summary.baseline_duels, "baseline ", "" if summary.measure == "bytes" else ", bytes"),
        )
        for duel in duels
        for other in [prefix + duel.other + suffix]
    ]
    return format_table(("setting", "against", "wins", "ties", "losses"), cells, left=(0, 1))


def _format(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.4f}"


def format_models(rows: Sequence[Mapping[str, Any]]) -> str:
    """Bytes of every model under baselines and settings, with a star if proved, else the bound.

    Parameters
    ----------
    rows
        Rows of :func:`cpplan.batch` or :func:`~cpplan.batches.table.read_rows`.
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
    """A row's bytes with a star or their bound, or its status or error if there is no plan."""
    if row.get("bytes") is None:
        return "error" if row.get("error") else str(row.get("status") or "")
    need, bound = format_bytes(int(row["bytes"])), row.get("bound")
    if row.get("status") == "optimal":
        return f"{need} *"
    return (
        need
        if bound is None
        else f"{need} (\N{GREATER-THAN OR EQUAL TO} {format_bytes(int(bound))})"
    )


def _baseline(rows: Sequence[Mapping[str, Any]], name: str) -> str:
    """A baseline's bytes, from the first row that was compared with it."""
    for row in rows:
        if row.get("bytes") is not None and row.get(name):
            need = row["bytes"] / row[name]
            return format_bytes(round(need)) if math.isfinite(need) else ""
    return ""
