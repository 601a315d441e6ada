"""The ``cpplan`` command: its subcommands and exit codes.

Subcommands: plan, verify, compare, show, storages, pareto, sizes, batch, summary, warm-up.

Results go to stdout, progress and errors to stderr. Exit codes: 0 done, 2 usage or unreadable
input, 3 it does not fit, 4 verification failed, 130 interrupted.
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any

import click

from cpplan.cli.batch_command import batch
from cpplan.cli.compare_command import compare
from cpplan.cli.pareto_command import pareto
from cpplan.cli.plan_command import plan
from cpplan.cli.printing import in_flags
from cpplan.cli.show_command import show
from cpplan.cli.sizes_command import sizes
from cpplan.cli.storages_command import storages
from cpplan.cli.summary_command import summary
from cpplan.cli.verify_command import verify
from cpplan.cli.warm_up_command import warm_up
from cpplan.model.errors import CpplanError, DefectWarning, OptionError
from cpplan.model.printable import MESSAGE, printable
from cpplan.model.version import __version__
from cpplan.runtime.collection import collect_rarely
from cpplan.runtime.streams import write_to


@click.group()
@click.version_option(__version__, prog_name="cpplan")
def cli() -> None:
    """Memory plans for neural networks, with proof."""


for command in (plan, verify, compare, show, storages, pareto, sizes, batch, summary, warm_up):
    cli.add_command(command)


def _complain(text: str) -> None:
    write_to(sys.stderr, f"cpplan: {printable(text, MESSAGE)}\n")


def _tell_defects(show: Any) -> Any:
    """Function that shows warnings, those of a defect as one line on stderr."""

    def tell(message: Warning | str, category: type[Warning], *place: Any, **named: Any) -> None:
        if issubclass(category, DefectWarning):
            _complain(f"warning: {message}")
        else:
            show(message, category, *place, **named)

    return tell


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit code. Errors and warnings are a line on stderr."""
    with warnings.catch_warnings():
        warnings.showwarning = _tell_defects(warnings.showwarning)
        return _main(arguments)


def _main(arguments: list[str] | None) -> int:
    # A process that runs one command has done no other work: time limits count from its start.
    begun = time.monotonic() - (time.process_time() if arguments is None else 0.0)
    if arguments is None:
        collect_rarely()
    try:
        code = cli.main(arguments, prog_name="cpplan", standalone_mode=False, obj=begun)
    except CpplanError as error:
        _complain(in_flags(str(error)) if isinstance(error, OptionError) else str(error))
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
    except OSError as error:  # raised by click for a help text that cannot be written
        _complain(f"cannot write to standard output: {error.strerror}")
        return 2
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    sys.exit(main())
