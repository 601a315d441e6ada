"""``cpplan pareto``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from cpplan.cli.options import (
    BOUNDARY,
    KINDS,
    MODEL,
    READING,
    SEARCHING,
    SHARING,
    THROUGH,
    WORKSPACES,
    check_outputs,
    parse_dims,
    parse_kinds,
    parse_workspaces,
    request_options,
    with_options,
)
from cpplan.cli.printing import naming, print_out
from cpplan.model.errors import InputError

if TYPE_CHECKING:
    from cpplan.model.pool import Pool


@click.command(short_help="Peak against the cost of running ops again.")
@MODEL
@with_options(READING)
@with_options(THROUGH)
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
@with_options(
    request_options(
        "spill",
        "pools",
        "objective",
        spill={"help": "Bytes moved between two pools against the capacity of the first."},
        pools={"help": "With --spill: the fast pool, whose size is not used, and the slow one."},
        objective={"help": "With --spill: time, for the least time instead of the fewest bytes."},
    )
)
@click.option("--json", "json_path", metavar="FILE|-", help="Write the rows as a JSON list.")
@click.option("--report", metavar="FILE", help="Write the curve and its bounds as an HTML page.")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
def pareto(
    model: str, dims: tuple[str, ...], kinds: tuple[str, ...], workspaces: tuple[str, ...],
    kernels: str | None, through: Literal["tvm"] | None,
    points: int, time_limit: float, spill: bool, pools: tuple[Pool, ...] | None,
    json_path: str | None, report: str | None, quiet: bool, **options: Any,
) -> None:  # fmt: skip
    """Print the memory that recomputation, pieces or spilling save in MODEL, and their cost."""
    import json

    check_outputs(model, json_path, {"--report": report})
    in_place = parse_kinds(kinds, used=options["in_place"])
    from cpplan.comparison.pareto_curve import pareto_plans
    from cpplan.io import load
    from cpplan.report.tables import format_tradeoff
    from cpplan.runtime.atomic import write_text
    from cpplan.runtime.progress import watching

    source = load(
        model,
        dims=parse_dims(dims),
        in_place=in_place,
        workspaces=parse_workspaces(workspaces),
        kernels=kernels,
        through=through,
    )
    if spill or pools is not None:
        with watching(enabled=not quiet) as progress:
            options["progress"] = progress
            files = json_path, report
            _print_moves(model, source, points, time_limit, files, spill, pools, options)
        return
    if options.pop("objective") != "preference":
        raise InputError("--objective is for the time of moves: give --spill too")
    with naming(model), watching(enabled=not quiet) as progress:
        options["progress"] = progress
        plans = list(pareto_plans(source, points, time_limit, **options))  # type: ignore[arg-type]
    if report is not None:
        from cpplan.report.html import curve_report

        write_text(report, curve_report(plans, Path(model).name))
    keys = ("capacity", "peak", "cost", "base_cost", "cost_bound", "status")
    rows = [{key: getattr(plan, key) for key in keys} for plan in plans]
    text = json.dumps(rows, indent=1) + "\n"
    if json_path == "-":
        print_out(text)
        return
    if json_path is not None:
        write_text(json_path, text)
    print_out(format_tradeoff(plans))


def _print_moves(
    model: str, source: Any, points: int, time_limit: float,
    files: tuple[str | None, str | None], spill: bool, pools: tuple[Pool, ...] | None,
    options: dict[str, Any],
) -> None:  # fmt: skip
    """Print the bytes moved between two pools against the capacity of the first."""
    import json
    from dataclasses import asdict

    from cpplan.comparison.spill_curve import spill_curve
    from cpplan.report.tables import format_spill_curve
    from cpplan.runtime.atomic import write_text

    if not spill:
        raise InputError("--pool is for a curve of bytes moved: give --spill too")
    if options.pop("split"):
        raise InputError("--split and --spill are two curves: give one of them")
    if click.get_current_context().get_parameter_source("order") == (
        click.core.ParameterSource.DEFAULT
    ):
        options["order"] = "given"
    with naming(model):
        curve = spill_curve(source, points=points, time_limit=time_limit, pools=pools, **options)
    json_path, report = files
    if report is not None:
        from cpplan.report.html import moves_report

        write_text(report, moves_report(curve, Path(model).name))
    text = json.dumps([asdict(point) for point in curve], indent=1) + "\n"
    if json_path == "-":
        print_out(text)
        return
    if json_path is not None:
        write_text(json_path, text)
    print_out(format_spill_curve(curve))
