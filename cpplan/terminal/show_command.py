"""``cpplan show``."""

from __future__ import annotations

import click

from cpplan.terminal.plan_files import read_plan
from cpplan.terminal.printing import describe, naming, print_out


@click.command()
@click.argument("plan_file", metavar="PLAN", type=click.Path())
@click.option("--all", "everything", is_flag=True, help="All buffers, not only the largest.")
def show(plan_file: str, everything: bool) -> None:
    """Print a saved PLAN: its summary, its buffers, and a map of the arena if it is small."""
    from cpplan.report.tables import format_buffers

    result = read_plan(plan_file)
    with naming(plan_file):
        text = describe(result) + format_buffers(result, most=None if everything else 20)
    print_out(text)
