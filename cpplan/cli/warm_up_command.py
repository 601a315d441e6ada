"""``cpplan warm-up``."""

from __future__ import annotations

import sys

import click

from cpplan.cli.printing import print_out
from cpplan.runtime.streams import write_to
from cpplan.solving import all_loops


@click.command("warm-up", short_help="Compile the loops of the searches ahead of time.")
@click.argument("groups", nargs=-1, type=click.Choice(list(all_loops.GROUPS)))
def warm_up(groups: tuple[str, ...]) -> None:
    """Compile the loops of the searches ahead of time, all or some GROUPS of them.

    Otherwise the first search that needs a loop compiles it, within its time limit.
    """

    def tell(group: str) -> None:
        write_to(sys.stderr, f"compiling the loops for {group}\n")

    seconds = all_loops.warm_up(*groups, tell=tell)
    width = max(map(len, seconds))
    print_out("".join(f"{group:{width}}  {took:6.1f} s\n" for group, took in seconds.items()))
