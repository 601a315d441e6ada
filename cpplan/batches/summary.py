"""Comparison of the settings in a table of results: means, wins, and performance profiles."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpplan.model.errors import InputError
from cpplan.runtime import limits

Floats = NDArray[np.float64]

MEASURES = ("bytes", "cost", "seconds")
FACTORS = (1.0, 1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 4.0)
RATIO = "ratio_"
_NUMBERS = ("bytes", "bound", "cost", "seconds")


@dataclass(frozen=True)
class SettingSummary:
    """One setting over all models.

    Attributes
    ----------
    models, planned, optimal
        Numbers of models, of planned models, and of models with a plan proved optimal.
    to_best, to_bound
        Geometric means of two ratios: the measure to the best of any setting, and the bytes to
        their bound. They run over the models that every setting has planned, without settings that
        have planned none. ``None`` if a ratio is infinite.
    to_baseline
        Baseline -> geometric mean, over the same models, of the ratio of the bytes to the
        baseline's.
    seconds
        Total time of planning, seconds.
    profile
        Share of all models within each factor of the best of any setting (Dolan and Moré, 2002).
    """

    setting: str
    models: int
    planned: int
    optimal: int
    to_best: float | None
    to_bound: float | None
    to_baseline: Mapping[str, float | None]
    seconds: float
    profile: tuple[float, ...]


@dataclass(frozen=True)
class Duel:
    """Numbers of models at which a setting beats, equals or loses to another or to a baseline.

    A plan beats no plan. A model that neither of two settings has planned is left out; in a
    comparison with a baseline, so is a model without a ratio.
    """

    setting: str
    other: str
    wins: int
    ties: int
    losses: int


@dataclass(frozen=True)
class Summary:
    """Comparison of all settings of a table.

    Attributes
    ----------
    measure
        Quantity compared; less is better.
    models, common
        Number of models, and number of models that every setting has planned, without settings that
        have planned none.
    factors
        Factors at which the profiles are given.
    """

    measure: str
    models: int
    common: int
    factors: tuple[float, ...]
    settings: tuple[SettingSummary, ...]
    duels: tuple[Duel, ...]
    baseline_duels: tuple[Duel, ...]


def summarize(
    rows: Iterable[Mapping[str, Any]],
    *,
    measure: str = "bytes",
    factors: Sequence[float] = FACTORS,
) -> Summary:
    """Compare the settings of a table.

    Parameters
    ----------
    rows
        Rows of :func:`cpplan.batch` or :func:`~cpplan.batches.table.read_rows`.
    measure
        ``bytes``, ``cost`` or ``seconds``.
    factors
        Factors at which profiles are read, each at least 1.

    Raises
    ------
    InputError
        If there are no rows, a model has two rows of one setting, a value is not a number, or the
        measure or a factor is not understood.
    """
    if measure not in MEASURES:
        raise InputError(f"measure={measure!r}: expected one of {', '.join(MEASURES)}")
    if any(not 1 <= factor < math.inf for factor in factors):
        raise InputError(f"factors must be at least 1, not {list(factors)}")
    rows = [_checked(row, number) for number, row in enumerate(rows, 1)]
    if not rows:
        raise InputError("no rows to summarize")
    models = list(dict.fromkeys(row["model"] for row in rows))
    table = _by_setting(rows, len(models))
    value = {
        setting: {model: _measured(column.get(model), measure) for model in models}
        for setting, column in table.items()
    }
    best = {model: min(column[model] for column in value.values()) for model in models}
    able = [column for column in value.values() if min(column.values()) < math.inf]
    common = [model for model in models if all(column[model] < math.inf for column in able)]
    common = common if able else []
    baselines = [key.removeprefix(RATIO) for key in rows[0] if str(key).startswith(RATIO)]
    settings = []
    for name, column in table.items():
        factor = {m: _ratio(value[name][m], best[m]) for m in models}
        means = {m: column[m] for m in common if m in column}
        settings.append(_summarize_setting(name, column, factor, means, baselines, factors))
    names = list(table)
    measured = {name: np.array([column[m] for m in models]) for name, column in value.items()}
    return Summary(
        measure=measure,
        models=len(models),
        common=len(common),
        factors=tuple(factors),
        settings=tuple(settings),
        duels=tuple(
            _duel(one, other, measured[one], measured[other])
            for k, one in enumerate(names)
            for other in names[k + 1 :]
        ),
        baseline_duels=tuple(
            _duel(name, baseline, ratios, np.ones_like(ratios))
            for name, column in table.items()
            for baseline in baselines
            for ratios in [_ratios(column.values(), RATIO + baseline)]
        ),
    )  # fmt: skip


def _summarize_setting(
    name: str,
    column: Mapping[str, Mapping[str, Any]],
    factor: Mapping[str, float | None],
    means: Mapping[str, Mapping[str, Any]],
    baselines: Sequence[str],
    factors: Sequence[float],
) -> SettingSummary:
    """Figures of a setting: counts of all its rows, and means over the rows of ``means``."""
    return SettingSummary(
        setting=name,
        models=len(factor),
        planned=sum(row.get("bytes") is not None for row in column.values()),
        optimal=sum(row.get("status") == "optimal" for row in column.values()),
        to_best=geometric_mean(factor[m] for m in means),
        to_bound=geometric_mean(map(_to_bound, means.values())),
        to_baseline={
            baseline: geometric_mean(row.get(RATIO + baseline) for row in means.values())
            for baseline in baselines
        },
        seconds=sum(row.get("seconds") or 0.0 for row in column.values()),
        profile=tuple(_share(factor.values(), most) for most in factors),
    )


def _by_setting(
    rows: Iterable[Mapping[str, Any]], models: int
) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Setting -> model -> its row, for a number of models; raise if there are too many pairs."""
    table: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        column = table.setdefault(row["setting"], {})
        if row["model"] in column:
            raise InputError(f"model {row['model']!r} has two rows of setting {row['setting']!r}")
        column[row["model"]] = row
    if len(table) > limits.MOST_SETTINGS:
        raise InputError(f"{len(table)} settings: expected at most {limits.MOST_SETTINGS}")
    if models * len(table) > limits.MOST_PAIRS:
        pairs = f"{models} models and {len(table)} settings"
        raise InputError(f"{pairs}: expected at most {limits.MOST_PAIRS} pairs of them")
    return table


def _checked(row: Mapping[str, Any], number: int) -> Mapping[str, Any]:
    """The row with ``None`` for each value that a data frame marks as missing."""
    import pandas

    for name in ("model", "setting"):
        if not isinstance(row.get(name), str):
            raise InputError(f"row {number}: {name} is {row.get(name)!r}: expected a name")
    values = dict(row)
    for name, value in row.items():
        if name not in _NUMBERS and not str(name).startswith(RATIO):
            continue
        if value is None or pandas.isna(value):
            values[name] = None
        elif not isinstance(value, Real) or not 0 <= float(value) < math.inf:
            raise InputError(f"row {number}: {name} is {value!r}: expected a number from 0 on")
    return values


def geometric_mean(values: Iterable[float | None]) -> float | None:
    """Geometric mean, skipping ``None``; ``None`` without any value or if one is infinite."""
    there = [value for value in values if value is not None]
    if not there or max(there) == math.inf:
        return None
    if min(there) <= 0:
        return 0.0
    return math.exp(math.fsum(map(math.log, there)) / len(there))


def _measured(row: Mapping[str, Any] | None, measure: str) -> float:
    """Value of the measure in a row, or infinity if there is no plan."""
    if row is None or row.get("bytes") is None or row.get(measure) is None:
        return math.inf
    return float(row[measure])


def _ratio(value: float, best: float) -> float | None:
    if value == math.inf:
        return None
    if best == 0:
        return 1.0 if value == 0 else math.inf
    return value / best


def _to_bound(row: Mapping[str, Any]) -> float | None:
    need, bound = row.get("bytes"), row.get("bound")
    return None if need is None or bound is None else _ratio(need, bound)


def _share(ratios: Iterable[float | None], most: float) -> float:
    ratios = list(ratios)
    return sum(ratio is not None and ratio <= most for ratio in ratios) / len(ratios)


def _ratios(rows: Iterable[Mapping[str, Any]], name: str) -> Floats:
    """A column's ratios to a baseline, without those that are missing."""
    there = (row.get(name) for row in rows)
    return np.array([ratio for ratio in there if ratio is not None], np.float64)


def _duel(one: str, other: str, ours: Floats, theirs: Floats) -> Duel:
    """Wins, ties and losses at pairs of values that are not both infinite."""
    met = int((np.minimum(ours, theirs) < math.inf).sum())
    wins, losses = int((ours < theirs).sum()), int((ours > theirs).sum())
    return Duel(one, other, wins, met - wins - losses, losses)
