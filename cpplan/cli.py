"""The command line: ``cpplan plan | verify | compare | show``.

Results go to stdout, progress and errors to stderr. Exit codes: 0 done, 2 usage or unreadable
input, 3 it does not fit, 4 verification failed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import click

from cpplan import __version__
from cpplan.errors import CpplanError, InfeasibleError, InputError

_MODEL = click.argument("model", type=click.Path())


_Command = TypeVar("_Command", bound=Callable[..., Any])


def _with(options: Sequence[Callable[[Any], Any]]) -> Callable[[_Command], _Command]:
    """Several options as one decorator, for what commands share."""

    def add(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


_READING = (
    click.option("--dim", "dims", multiple=True, metavar="N=8", help="Bind a symbolic dimension."),
)
_PLANNING = (
    click.option("--inputs", default="reuse", show_default=True, metavar="reuse|keep|outside",
                 help="Graph inputs: bytes free after their last use, kept, or not in the arena."),
    click.option("--outputs", default="keep", show_default=True, metavar="keep|outside",
                 help="Graph outputs: in the arena to the end, or not at all."),
    click.option("--constants", default="outside", show_default=True, metavar="outside|keep",
                 help="Constants: in memory of their own, or in the arena throughout."),
    click.option("--workers", type=int, help="Threads; as many as there are cores by default."),
    click.option("--seed", type=int, default=0, show_default=True, help="For random choices."),
)  # fmt: skip


@click.group()
@click.version_option(__version__, prog_name="cpplan")
def cli() -> None:
    """Memory plans for neural networks, with proof."""


@cli.command()
@_MODEL
@_with(_READING)
@_with(_PLANNING)
@click.option(
    "--time-limit",
    type=float,
    default=60.0,
    show_default=True,
    metavar="S",
    help="Seconds for everything; the best plan so far is then returned.",
)
@click.option("--capacity", metavar="BYTES", help="Stop at the first plan that fits (256KiB).")
@click.option(
    "--memory-limit", metavar="BYTES", help="The plan must fit, and be as small as can be."
)
@click.option(
    "--order",
    default="given",
    show_default=True,
    metavar="given|search",
    help="Run ops as the model lists them, or look for the order that needs least.",
)
@click.option("--first", multiple=True, metavar="OP", help="Searched orders start with these ops.")
@click.option("--last", multiple=True, metavar="OP", help="Searched orders end with these ops.")
@click.option("--deterministic", is_flag=True, help="Count work instead of time.")
@click.option("--json", "json_path", metavar="FILE|-", help="The plan with its timings as JSON.")
@click.option("-o", "--output", metavar="FILE", help="The plan as JSON, the same at every run.")
@click.option("--csv", "csv_path", metavar="FILE", help="The offsets as MiniMalloc CSV.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def plan(
    model: str, dims: tuple[str, ...], time_limit: float, json_path: str | None, output: str | None,
    csv_path: str | None, quiet: bool, **options: Any,
) -> None:  # fmt: skip
    """Plan the memory of MODEL (.onnx, .json or .csv)."""
    from cpplan.io import load
    from cpplan.pipeline import solve
    from cpplan.report.progress import watching

    _check_writable([path for path in (json_path, output, csv_path) if path and path != "-"])
    source = load(model, dims=_parse_dims(dims))
    with watching(enabled=not quiet) as progress:
        result = solve(source, time_limit=time_limit, progress=progress, **options)
    text = result.to_json(clock=True)
    if output is not None:
        result.save(output)
    if csv_path is not None and result.offset is not None:
        from cpplan.io.minimalloc_csv import write_problem
        from cpplan.sources import as_problem

        write_problem(as_problem(source, result.residency), csv_path, result.offset)
    if json_path == "-":
        click.echo(text, nl=False)
    else:
        if json_path is not None:
            result.save(json_path, clock=True)
        _print_plan(result)
    if result.offset is None:
        raise InfeasibleError(f"{model}: {result.message}")


@cli.command()
@_MODEL
@click.argument("plan_file", metavar="PLAN", type=click.Path())
@_with(_READING)
@click.option("--simulate/--no-simulate", default=True, help="Also run patterns through an arena.")
@click.option("--execute", "run", is_flag=True, help="Also run the ONNX model in the arena.")
def verify(model: str, plan_file: str, dims: tuple[str, ...], simulate: bool, run: bool) -> None:
    """Check that PLAN is a correct plan of MODEL, without trusting whoever made it."""
    import cpplan
    from cpplan.verifier import RECOMPUTED

    bound_dims = _parse_dims(dims)
    source, result = cpplan.load(model, dims=bound_dims), cpplan.Plan.load(plan_file)
    cpplan.verify(source, result)
    click.echo(f"geometry   ok: {len(result.buffers)} buffers within {result.peak} B")
    proof = "recomputed" if result.bound_by in RECOMPUTED else "not recomputed"
    click.echo(f"bound      ok: {result.lower_bound} B by {result.bound_by}, {proof}")
    if simulate:
        ran = cpplan.simulate(source, result)
        click.echo(f"simulation ok: {ran.ops} ops, {ran.bytes_checked} B checked")
    if run:
        if not model.lower().endswith(".onnx"):
            raise InputError(f"{model}: --execute needs an ONNX model")
        done = cpplan.execute(model, result, dims=bound_dims)
        click.echo(f"execution  ok: {done.steps} steps, {done.bytes_checked} B equal bit for bit")


@cli.command()
@_MODEL
@_with(_READING)
@_with(_PLANNING)
@click.option(
    "--algorithm", "algorithms", multiple=True, metavar="NAME", help="Only this baseline."
)
@click.option(
    "--time-limit",
    type=float,
    default=10.0,
    show_default=True,
    metavar="S",
    help="Seconds for each row.",
)
@click.option("--json", "json_path", metavar="FILE|-", help="The rows as a JSON list.")
def compare(
    model: str, dims: tuple[str, ...], algorithms: tuple[str, ...], json_path: str | None,
    **options: Any,
) -> None:  # fmt: skip
    """Every baseline on MODEL beside cpplan's plan and the bound."""
    import json
    from dataclasses import asdict

    from cpplan.baselines import compare_rows
    from cpplan.io import load
    from cpplan.io.atomic import write_text
    from cpplan.report.tables import format_comparison

    rows = compare_rows(
        load(model, dims=_parse_dims(dims)), algorithms=algorithms or None, **options
    )
    text = json.dumps([asdict(row) for row in rows], indent=1) + "\n"
    if json_path == "-":
        click.echo(text, nl=False)
        return
    if json_path is not None:
        write_text(json_path, text)
    click.echo(format_comparison(rows), nl=False)


@cli.command()
@click.argument("plan_file", metavar="PLAN", type=click.Path())
@click.option("--all", "everything", is_flag=True, help="All buffers, not only the largest.")
def show(plan_file: str, everything: bool) -> None:
    """Print a saved PLAN: its summary, its buffers, and a map of the arena if it is small."""
    from cpplan.plan import Plan
    from cpplan.report.tables import format_buffers

    result = Plan.load(plan_file)
    _print_plan(result)
    click.echo(format_buffers(result, most=None if everything else 20), nl=False)


def _print_plan(result: Any) -> None:
    from cpplan.report.arena_text import format_arena

    click.echo(str(result))
    arena = format_arena(result)
    if arena is not None:
        click.echo(f"\n{arena}")


def _parse_dims(dims: tuple[str, ...]) -> dict[str, int] | None:
    bound: dict[str, int] = {}
    for dim in dims:
        name, equals, value = dim.partition("=")
        if not (name and equals and value.isascii() and value.isdigit() and int(value) > 0):
            raise InputError(f"--dim {dim!r} is not understood: expected e.g. N=8")
        bound[name] = int(value)
    return bound or None


def _check_writable(paths: Iterable[str]) -> None:
    """Refuse before planning what could not be written after it."""
    for path in paths:
        folder = os.path.dirname(path) or "."
        if not os.path.isdir(folder) or not os.access(folder, os.W_OK) or os.path.isdir(path):
            raise InputError(f"{path}: cannot be written")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code. Errors are one line on stderr."""
    try:
        code = cli.main(arguments, prog_name="cpplan", standalone_mode=False)
    except CpplanError as error:
        click.echo(f"cpplan: {error}", err=True)
        return error.exit_code
    except click.exceptions.Abort:
        click.echo("cpplan: interrupted", err=True)
        return 130
    except click.ClickException as error:
        click.echo(f"cpplan: {error.format_message()}", err=True)
        return 2
    except BrokenPipeError:
        # Whoever read stdout has left; point it elsewhere so that the flush at exit is quiet.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    sys.exit(main())
