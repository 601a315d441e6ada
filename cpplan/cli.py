"""The command line: ``cpplan plan | verify | compare | show``.

Results go to stdout, progress and errors to stderr. Exit codes: 0 done, 2 usage or unreadable
input, 3 it does not fit, 4 verification failed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from cpplan import __version__
from cpplan.errors import CpplanError, InfeasibleError, InputError, MissingExtraError
from cpplan.printable import MESSAGE, printable
from cpplan.terminal.options import (
    MODEL,
    PLANNING,
    READING,
    check_outputs,
    parse_dims,
    parse_kinds,
    parse_limit,
    with_options,
)
from cpplan.terminal.streams import write_to

if TYPE_CHECKING:
    from cpplan.graph import Graph
    from cpplan.plan import Plan
    from cpplan.problem import Problem

# What planning gets at least, however long reading the model took.
_SHORTEST = 0.001


@click.group()
@click.version_option(__version__, prog_name="cpplan")
def cli() -> None:
    """Memory plans for neural networks, with proof."""


@cli.command()
@MODEL
@with_options(READING)
@with_options(PLANNING)
@click.option(
    "--time-limit",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    metavar="S",
    help="Seconds for everything; the best plan so far is then returned.",
)
@click.option(
    "--capacity",
    metavar="BYTES",
    callback=parse_limit,
    help="Stop at the first plan that fits (256KiB).",
)
@click.option(
    "--memory-limit",
    metavar="BYTES",
    callback=parse_limit,
    help="The plan must fit, and be as small as can be.",
)
@click.option(
    "--order",
    type=click.Choice(["given", "search"]),
    default="given",
    show_default=True,
    help="Run ops as the model lists them, or look for the order that needs least.",
)
@click.option("--first", multiple=True, metavar="OP", help="Searched orders start with these ops.")
@click.option("--last", multiple=True, metavar="OP", help="Searched orders end with these ops.")
@click.option(
    "--algorithm", metavar="NAME", help="Let this heuristic alone pack (compare lists them)."
)
@click.option("--deterministic", is_flag=True, help="Count work instead of time.")
@click.option("--json", "json_path", metavar="FILE|-", help="The plan with its timings as JSON.")
@click.option("-o", "--output", metavar="FILE", help="The plan as JSON, the same at every run.")
@click.option("--csv", "csv_path", metavar="FILE", help="The offsets as MiniMalloc CSV.")
@click.option("--program", "text_path", metavar="FILE", help="The ops in order, as text.")
@click.option(
    "--onnx", "onnx_path", metavar="FILE", help="MODEL with its nodes in the plan's order."
)
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def plan(
    model: str, dims: tuple[str, ...], kinds: tuple[str, ...], time_limit: float,
    json_path: str | None, output: str | None, csv_path: str | None, text_path: str | None,
    onnx_path: str | None, quiet: bool, **options: Any,
) -> None:  # fmt: skip
    """Plan the memory of MODEL (.onnx, .json or .csv)."""
    started = time.monotonic()
    outputs = {"-o": output, "--csv": csv_path, "--program": text_path, "--onnx": onnx_path}
    check_outputs(model, json_path, outputs)
    if onnx_path is not None and not model.lower().endswith(".onnx"):
        raise InputError(f"{model}: --onnx needs an ONNX model")
    from cpplan.anf import to_anf
    from cpplan.graph import Graph
    from cpplan.interrupts import holding_interrupts
    from cpplan.io import load
    from cpplan.io.atomic import write_text
    from cpplan.pipeline import solve
    from cpplan.problem import Problem
    from cpplan.report.progress import watching

    source = load(model, dims=parse_dims(dims), in_place=parse_kinds(kinds))
    if csv_path is not None and options["pools"] is not None and len(options["pools"]) > 1:
        raise InputError(f"{model}: --csv holds one pool only")
    if csv_path is not None and options["in_place"]:
        raise InputError(f"{model}: --csv cannot say which buffers share bytes (--in-place)")
    if text_path is not None and isinstance(source, Problem):
        raise InputError(f"{model}: --program needs a graph, and this is a bare packing problem")
    if csv_path is not None:
        from cpplan.io.minimalloc_csv import check_ids
        from cpplan.residency import choose_residency
        from cpplan.stages.sources import as_problem

        where = choose_residency(
            options["inputs"], options["outputs"], options["constants"], options["pools"] or ()
        )
        with _naming(model):
            check_ids(as_problem(source, where).names, csv_path)
    if not options["deterministic"]:
        time_limit = max(time_limit - (time.monotonic() - started), _SHORTEST)
    with holding_interrupts() as hold:
        with _naming(model), watching(enabled=not quiet) as progress:
            result = solve(source, time_limit=time_limit, progress=progress, **options)
            hold()
        if output is not None:
            result.save(output)
        if csv_path is not None and result.offset is not None:
            from cpplan.io.minimalloc_csv import write_problem

            write_problem(_planned(source, result), csv_path, result.offset)
        if text_path is not None and isinstance(source, Graph):
            write_text(text_path, str(to_anf(source, result.order)))
        if onnx_path is not None:
            from cpplan.io.onnx_reorder import write_reordered

            write_reordered(model, result.order, onnx_path, parse_dims(dims))
        if json_path == "-":
            _print(result.to_json(clock=True))
        else:
            if json_path is not None:
                result.save(json_path, clock=True)
            _print(_describe(result))
        if result.offset is None:
            raise InfeasibleError(f"{model}: {result.message}")


@cli.command()
@MODEL
@click.argument("plan_file", metavar="PLAN", type=click.Path())
@with_options(READING)
@click.option("--simulate/--no-simulate", default=True, help="Also run patterns through an arena.")
@click.option("--execute", "run", is_flag=True, help="Also run the ONNX model in the arena.")
def verify(
    model: str, plan_file: str, dims: tuple[str, ...], kinds: tuple[str, ...], simulate: bool,
    run: bool,
) -> None:  # fmt: skip
    """Check that PLAN is a correct plan of MODEL, without trusting whoever made it."""
    import cpplan
    from cpplan.checks.claims import RECOMPUTED

    if run and not model.lower().endswith(".onnx"):
        raise InputError(f"{model}: --execute needs an ONNX model")
    bound_dims = parse_dims(dims)
    source = cpplan.load(model, dims=bound_dims, in_place=parse_kinds(kinds))
    result = cpplan.Plan.load(plan_file)
    with _naming(model, plan_file):
        cpplan.verify(source, result)
        _print(f"geometry   ok: {len(result.buffers)} buffers within {result.peak} B\n")
        proof = "recomputed" if result.bound_by in RECOMPUTED else "not recomputed"
        by = printable(str(result.bound_by))
        _print(f"bound      ok: {result.lower_bound} B by {by}, {proof}\n")
        if simulate:
            ran = cpplan.simulate(source, result)
            _print(f"simulation ok: {ran.ops} ops, {ran.bytes_checked} B checked\n")
        if run:
            done = cpplan.execute(model, result, dims=bound_dims)
            _print(f"execution  ok: {done.steps} steps, {done.bytes_checked} B equal bit for bit\n")


@cli.command()
@MODEL
@with_options(READING)
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
    with _naming(model):
        rows = compare_rows(source, algorithms=algorithms or None, **options)
    if json_path is not None:
        text = json.dumps([asdict(row) for row in rows], indent=1) + "\n"
        if json_path == "-":
            _print(text)
            return
        write_text(json_path, text)
    _print(format_comparison(rows))


@cli.command()
@click.argument("plan_file", metavar="PLAN", type=click.Path())
@click.option("--all", "everything", is_flag=True, help="All buffers, not only the largest.")
def show(plan_file: str, everything: bool) -> None:
    """Print a saved PLAN: its summary, its buffers, and a map of the arena if it is small."""
    from cpplan.plan import Plan
    from cpplan.report.tables import format_buffers

    result = Plan.load(plan_file)
    with _naming(plan_file):
        text = _describe(result) + format_buffers(result, most=None if everything else 20)
    _print(text)


def _planned(source: Graph | Problem, result: Plan) -> Problem:
    """The packing problem that the plan solves, which depends on the plan's order."""
    from cpplan.anf import to_anf
    from cpplan.graph import Graph
    from cpplan.stages.sources import as_problem

    ordered = to_anf(source, result.order) if isinstance(source, Graph) else source
    return as_problem(ordered, result.residency)


def _describe(result: Plan) -> str:
    """The summary, and the map of the arena if it is small."""
    from cpplan.report.arena_text import format_arena

    arena = format_arena(result)
    return f"{result}\n" if arena is None else f"{result}\n\n{arena}\n"


@contextmanager
def _naming(*paths: str) -> Iterator[None]:
    """Say in front of an error which files it is about, once each."""
    where = printable(", ".join(paths), MESSAGE)
    try:
        yield
    except MissingExtraError:
        raise
    except CpplanError as error:
        text = str(error)
        for path in paths:
            text = text.removeprefix(f"{printable(path, MESSAGE)}: ")
        raise type(error)(f"{where}: {text}") from error


def _print(text: str) -> None:
    reason = write_to(sys.stdout, text)
    if reason is not None:
        raise InputError(f"cannot write to standard output: {reason}")


def _complain(text: str) -> None:
    write_to(sys.stderr, f"cpplan: {printable(text, MESSAGE)}\n")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code. Errors are one line on stderr."""
    try:
        code = cli.main(arguments, prog_name="cpplan", standalone_mode=False)
    except CpplanError as error:
        _complain(str(error))
        return error.exit_code
    except click.exceptions.Abort:
        _complain("interrupted")
        return 130
    except click.ClickException as error:
        _complain(error.format_message())
        return 2
    except OSError as error:  # of click's own: a help text that finds no room
        _complain(f"cannot write to standard output: {error.strerror}")
        return 2
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    sys.exit(main())
