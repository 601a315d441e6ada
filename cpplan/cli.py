"""``cpplan plan | verify | compare | show | storages | pareto | sizes | batch |
summary | warm-up``.

Results go to stdout, progress and errors to stderr. Exit codes: 0 done, 2 usage or unreadable
input, 3 it does not fit, 4 verification failed, 130 interrupted.
"""

from __future__ import annotations

import sys

import click

from cpplan import __version__
from cpplan.errors import CpplanError
from cpplan.printable import MESSAGE, printable
from cpplan.streams import write_to
from cpplan.terminal.batch_command import batch
from cpplan.terminal.compare_command import compare
from cpplan.terminal.pareto_command import pareto
from cpplan.terminal.plan_command import plan
from cpplan.terminal.show_command import show
from cpplan.terminal.sizes_command import sizes
from cpplan.terminal.storages_command import storages
from cpplan.terminal.summary_command import summary
from cpplan.terminal.verify_command import verify
from cpplan.terminal.warm_up_command import warm_up


@click.group()
@click.version_option(__version__, prog_name="cpplan")
def cli() -> None:
    """Memory plans for neural networks, with proof."""


for command in (plan, verify, compare, show, storages, pareto, sizes, batch, summary, warm_up):
    cli.add_command(command)


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
    except MemoryError:
        _complain("out of memory: the model, or the search, needs more than there is")
        return 2
    except OSError as error:  # of click's own: a help text that finds no room
        _complain(f"cannot write to standard output: {error.strerror}")
        return 2
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    sys.exit(main())
