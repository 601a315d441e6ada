"""``cpplan compare``."""

from __future__ import annotations

from typing import Any

import click

from cpplan.terminal.options import (
    KINDS,
    MODEL,
    PLANNING,
    READING,
    check_outputs,
    parse_dims,
    parse_kinds,
    with_options,
)
from cpplan.terminal.printing import naming, print_out


@click.command()
@MODEL
@with_options(READING)
@with_options(KINDS)
@with_options(PLANNING)
@click.option(
    "--algorithm", "algorithms", multiple=True, metavar="NAME", help="Only this baseline."
)
@click.option(
    "--time-limit",
    type=click.FloatRange(min=0, min_open=True),
    default=10.0,
    show_default=True,
    metavar="S",
    help="Seconds for each row.",
)
@click.option("--json", "json_path", metavar="FILE|-", help="The rows as a JSON list.")
def compare(
    model: str, dims: tuple[str, ...], kinds: tuple[str, ...], algorithms: tuple[str, ...],
    json_path: str | None, **options: Any,
) -> None:  # fmt: skip
    """Every baseline on MODEL beside cpplan's plan and the bound."""
    import json
    from dataclasses import asdict

    from cpplan import heuristics
    from cpplan.baselines import compare_rows
    from cpplan.io import load
    from cpplan.io.atomic import write_text
    from cpplan.report.tables import format_comparison

    check_outputs(model, json_path, {})
    for name in algorithms:
        heuristics.get(name)
    source = load(model, dims=parse_dims(dims), in_place=parse_kinds(kinds))
    with naming(model):
        rows = compare_rows(source, algorithms=algorithms or None, **options)
    if json_path is not None:
        text = json.dumps([asdict(row) for row in rows], indent=1) + "\n"
        if json_path == "-":
            print_out(text)
            return
        write_text(json_path, text)
    print_out(format_comparison(rows))
