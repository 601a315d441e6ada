"""Summary of a batch's results for the terminal."""

from __future__ import annotations

from cpplan.batches.summary import Summary
from cpplan.model.printable import printable
from cpplan.model.text_table import format_table


def format_summary(summary: Summary) -> str:
    """Tables of the means, the performance profile, and the wins between settings.

    Examples
    --------
    >>> from cpplan.batches.summary import summarize
    >>> row = {"model": "a", "setting": "x", "bytes": 12, "bound": 12, "status": "optimal"}
    >>> print(format_summary(summarize([row], factors=(1, 2))))
    1 model; geometric means over the 1 that every setting planned
    <BLANKLINE>
    setting  planned  optimal  / best  / bound  seconds
    x              1        1  1.0000   1.0000      0.0
    <BLANKLINE>
    share of models within a factor of the best bytes
    setting       1       2
    x        100.0%  100.0%
    <BLANKLINE>
    """
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
