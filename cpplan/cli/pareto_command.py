"""``cpplan pareto``."""

from __future__ import annotations

from typing import Any

import click

from cpplan.cli.options import (
    BOUNDARY,
    KINDS,
    MODEL,
    READING,
    SEARCHING,
    SHARING,
    WORKSPACES,
    check_outputs,
    parse_dims,
    parse_kinds,
    parse_workspaces,
    request_options,
    with_options,
)
from cpplan.cli.printing import naming, print_out


@click.command()
@MODEL
@with_options(READING)
@with_options(KINDS)
@with_options(WORKSPACES)
@with_options(BOUNDARY)
@with_options(SHARING)
@with_options(SEARCHING)
@click.option("--points", type=click.IntRange(2, 1000), default=8, show_default=True)
@with_options(
    request_options(
        "order",
        "time_limit",
        "split",
        order={"help": "Whether first runs keep the order of MODEL.", "default": "search"},
        time_limit={"help": "Seconds for all points."},
        split={"help": "Ops in pieces, instead of ops that run again."},
    )
)
@click.option("--json", "json_path", metavar="FILE|-", help="The rows as a JSON list.")
def pareto(
    model: str, dims: tuple[str, ...], kinds: tuple[str, ...], workspaces: tuple[str, ...],
    kernels: str | None,
    points: int, time_limit: float,
    json_path: str | None, **options: Any,
) -> None:  # fmt: skip
    """Print the memory that recomputation, or pieces, save in MODEL, and their cost."""
    import json

    check_outputs(model, json_path, {})
    in_place = parse_kinds(kinds, used=options["in_place"])
    from cpplan.comparison.pareto_curve import pareto_plans
    from cpplan.io import load
    from cpplan.report.tables import format_tradeoff
    from cpplan.runtime.atomic import write_text

    source = load(
        model,
        dims=parse_dims(dims),
        in_place=in_place,
        workspaces=parse_workspaces(workspaces),
        kernels=kernels,
    )
    with naming(model):
        plans = list(pareto_plans(source, points, time_limit, **options))  # type: ignore[arg-type]
    keys = ("capacity", "peak", "cost", "base_cost", "cost_bound", "status")
    rows = [{key: getattr(plan, key) for key in keys} for plan in plans]
    text = json.dumps(rows, indent=1) + "\n"
    if json_path == "-":
        print_out(text)
        return
    if json_path is not None:
        write_text(json_path, text)
    print_out(format_tradeoff(plans))
