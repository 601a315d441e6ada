"""``cpplan plan``."""

from __future__ import annotations

import gc
import time
from typing import Any

import click

from cpplan.cli.options import (
    KINDS,
    MODEL,
    PLANNING,
    READING,
    WORKSPACES,
    parse_dims,
    parse_kinds,
    parse_limit_or_share,
    parse_workspaces,
    time_limit_option,
    with_options,
)
from cpplan.cli.plan_files import Outputs, export_options
from cpplan.cli.printing import arena_notes, describe, naming, print_out
from cpplan.io.formats import read_suffixes
from cpplan.model.errors import InfeasibleError, InputError

# What planning gets at least, however long reading the model took.
_SHORTEST = 0.001


@click.command(help=f"Plan the memory of MODEL ({', '.join(read_suffixes())}).")
@MODEL
@with_options(READING)
@with_options(KINDS)
@with_options(WORKSPACES)
@with_options(PLANNING)
@time_limit_option("Seconds for everything; the best plan so far is then returned.")
@click.option(
    "--capacity",
    metavar="BYTES|P%",
    callback=parse_limit_or_share,
    help="Stop at the first plan that fits (256KiB, or 60% of the bytes live at once in the given "
    "order).",
)
@click.option(
    "--memory-limit",
    metavar="BYTES|P%",
    callback=parse_limit_or_share,
    help="The plan must fit (256KiB, 60%), and be as small as can be.",
)
@click.option(
    "--order",
    type=click.Choice(["given", "search"]),
    help="Run ops as the model lists them (but with --remat, the default), or look for the order "
    "that needs least.",
)
@click.option(
    "--remat",
    is_flag=True,
    help="Let ops run again, at the least extra cost within --memory-limit, or within the pools if "
    "all have a size.",
)
@click.option(
    "--cost-limit",
    type=float,
    metavar="R",
    help="With --remat: the fewest bytes at R times the cost of running every op once.",
)
@click.option("--first", multiple=True, metavar="OP", help="Searched orders start with these ops.")
@click.option("--last", multiple=True, metavar="OP", help="Searched orders end with these ops.")
@click.option(
    "--algorithm", metavar="NAME", help="Let this heuristic alone pack (compare lists them)."
)
@click.option("--deterministic", is_flag=True, help="Count work instead of time.")
@click.option("--json", "json_path", metavar="FILE|-", help="The plan with its timings as JSON.")
@with_options(export_options())
@click.option(
    "--explain", is_flag=True, help="Why the plan is not smaller, and what each rule may cost."
)
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def plan(
    model: str, dims: tuple[str, ...], kinds: tuple[str, ...], workspaces: tuple[str, ...],
    time_limit: float,
    json_path: str | None, explain: bool, quiet: bool, **options: Any,
) -> None:  # fmt: skip
    started = time.monotonic()
    wanted = Outputs.of(model, json_path, options)
    wanted.check_paths()
    if explain and json_path == "-":
        raise InputError("--explain and --json - both write to standard output: give one")
    in_place = parse_kinds(kinds, used=options["in_place"])
    from cpplan.io import load
    from cpplan.io.plan_json import plan_text
    from cpplan.report.progress import watching
    from cpplan.runtime.interrupts import holding_interrupts
    from cpplan.solving.pipeline import solve

    bound = parse_dims(dims)
    extents = {name: given for name, given in (bound or {}).items() if isinstance(given, int)}
    if len(extents) < len(bound or {}) and wanted.exports.keys() & {"onnx", "constants-image"}:
        raise InputError("--onnx and --constants-image need extents of dimensions, not bounds")
    stated = parse_workspaces(workspaces)
    source = load(model, dims=bound, in_place=in_place, workspaces=stated)
    gc.freeze()  # the model stays to the end: there is nothing in it to collect
    with naming(model):
        wanted.check_source(source, options)
    if not options["deterministic"]:
        time_limit = max(time_limit - (time.monotonic() - started), _SHORTEST)
    with holding_interrupts() as hold:
        with naming(model), watching(enabled=not quiet) as progress:
            result = solve(source, time_limit=time_limit, progress=progress, **options)
            hold()
        notes = arena_notes(model, result, extents, stated or {})
        wanted.write(source, result, extents, notes)
        if json_path == "-":
            print_out("".join(plan_text(result, clock=True)))
        else:
            print_out(describe(result, notes))
        if explain:
            with naming(model):
                print_out(f"\n{result.explain(source)}")
        if result.offset is None:
            raise InfeasibleError(f"{model}: {result.message}")
