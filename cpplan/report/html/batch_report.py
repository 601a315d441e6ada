"""Report of a batch's results as one HTML file."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cpplan.model.errors import InputError
from cpplan.model.version import __version__
from cpplan.report.html.page_text import TABLE_SCRIPTS, TABLE_STYLES, fill_page

if TYPE_CHECKING:
    import pandas

# Factors of the performance profile, closer together where settings differ most.
_FACTORS = (*(1 + k / 200 for k in range(40)), *(1.2 + k / 50 for k in range(41)))
_SHOWN = ("model", "setting", "status", "bytes", "bound", "gap", "seconds", "error")
_RATIO = "ratio_"


def batch_report(frame: pandas.DataFrame, title: str = "batch") -> str:
    """The report of a batch as self-contained HTML, which makes no network request.

    It shows the settings with their means, a performance profile, wins between settings, and every
    row, with the reason if it has no plan.

    Parameters
    ----------
    frame
        Table with one row per model and setting, as :func:`cpplan.batch` returns it; it needs the
        columns ``model``, ``setting`` and ``bytes``.
    title
        Title of the page, e.g. the file's name.

    Raises
    ------
    InputError
        If the table has no rows, or lacks one of these columns.
    """
    return fill_page(
        "batch.html",
        title=f"{title}: results",
        data=batch_data(frame, title),
        styles=TABLE_STYLES,
        scripts=(*TABLE_SCRIPTS, "batch.js"),
    )


def batch_data(frame: pandas.DataFrame, title: str) -> dict[str, Any]:
    """All data that the report shows, ready for JSON."""
    from cpplan.batches.summary import summarize

    missing = [name for name in ("model", "setting", "bytes") if name not in frame]
    if missing:
        raise InputError(f"no column {missing[0]!r}: expected a table of cpplan batch")
    baselines = [str(key).removeprefix(_RATIO) for key in frame if str(key).startswith(_RATIO)]
    names = [*_SHOWN, *(_RATIO + name for name in baselines)]
    columns = {
        name: [_plain(value) for value in frame[name]] if name in frame else [None] * len(frame)
        for name in names
    }
    rows = [dict(zip(names, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    found = summarize(rows, factors=_FACTORS)
    return {
        "cpplan": __version__,
        "title": title,
        "columns": columns,
        "baselines": baselines,
        "models": found.models,
        "common": found.common,
        "factors": list(found.factors),
        "settings": [asdict(setting) for setting in found.settings],
        "duels": [asdict(duel) for duel in (*found.duels, *found.baseline_duels)],
    }


def _plain(value: Any) -> Any:
    """A cell as a JSON value: a Python number, and ``None`` if missing or not finite."""
    import pandas

    if value is None or value is pandas.NA:
        return None
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value
