"""``cpplan show``."""

from __future__ import annotations

import click

from cpplan.errors import InputError
from cpplan.terminal.options import check_outputs, parse_dims
from cpplan.terminal.plan_files import read_plan
from cpplan.terminal.printing import describe, naming, print_out


@click.command()
@click.argument("plan_file", metavar="PLAN", type=click.Path())
@click.option("--all", "everything", is_flag=True, help="All buffers, not only the largest.")
@click.option("--dim", "dims", multiple=True, metavar="N=8", help="Show the plan at this value.")
@click.option(
    "--report", "report_path", metavar="FILE", help="The plan to look at, as one HTML file."
)
def show(
    plan_file: str, everything: bool, dims: tuple[str, ...], report_path: str | None
) -> None:
    """Print a saved PLAN: its summary, its buffers, and a map of the arena if it is small."""
    from cpplan.report.symbols_text import MOST, format_sized
    from cpplan.report.tables import format_buffers

    if report_path is not None:
        check_outputs(plan_file, None, {"--report": report_path})
        read_plan(plan_file).report(report_path)
    values = parse_dims(dims)
    result = read_plan(plan_file)
    most = None if everything else MOST
    with naming(plan_file):
        if values is None:
            text = describe(result) + format_buffers(result, most=most)
        else:
            bounds = next((name for name, value in values.items() if type(value) is not int), None)
            if bounds is not None:
                raise InputError(f"--dim {bounds}: expected a value, e.g. {bounds}=8")
            text = format_sized(result.at(values), most)  # type: ignore[arg-type]
    print_out(text)
