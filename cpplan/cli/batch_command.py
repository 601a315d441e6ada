"""``cpplan batch``."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import click

from cpplan.cli.options import (
    check_outputs,
    given_options,
    parse_limit,
    request_options,
    with_options,
)
from cpplan.cli.printing import print_out
from cpplan.model.errors import InputError
from cpplan.model.printable import MESSAGE, printable
from cpplan.runtime.streams import write_to
from cpplan.solving.request import BATCHED

# Exit code of a command that Ctrl-C ended.
_INTERRUPTED = 130


@click.command(short_help="Many models, many settings.")
@click.argument("manifest", metavar="MANIFEST.toml|DIR", type=click.Path())
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="FILE.parquet",
    help="Table to write; a later run keeps its unchanged rows.",
)
@click.option(
    "--baseline", "baselines", multiple=True, metavar="NAME", help="Compare with this heuristic."
)
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of tasks at once. Their threads must not exceed the cores.",
)
@click.option(
    "--task-seconds",
    type=click.FloatRange(min=0, min_open=True),
    metavar="S",
    help="Most seconds of a task, reading and checking included; then it is ended.",
)
@click.option(
    "--task-memory",
    metavar="BYTES",
    callback=parse_limit,
    help="Most memory of a task, e.g. 4GiB; then it is ended.",
)
@click.option(
    "--backend",
    type=click.Choice(["processes", "dask"]),
    default="processes",
    show_default=True,
    help="Where tasks run.",
)
@click.option("--scheduler", metavar="ADDRESS", help="Address of the Dask scheduler.")
@click.option("--retry", is_flag=True, help="Run tasks that failed before again.")
@with_options(
    request_options(
        *BATCHED,
        time_limit={"help": "Seconds for each model; the best plan so far is then kept."},
        workers={"help": "Threads of each task; one by default."},
    )
)
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
def batch(
    manifest: str, output: str, baselines: tuple[str, ...], backend: Any, scheduler: str | None,
    retry: bool, quiet: bool, processes: int | None, task_seconds: float | None,
    task_memory: int | None, **planning: Any,
) -> None:  # fmt: skip
    """Plan every model of MANIFEST.toml under every setting, or of a folder under these options."""
    check_outputs(manifest, None, {"-o": output})
    from cpplan.batches.manifest import read_manifest
    from cpplan.batches.running import batch as run
    from cpplan.report.batch_progress import watching_batch

    if backend == "dask" and scheduler is None:
        raise InputError("--backend dask needs the address of a scheduler: give --scheduler")
    wanted = read_manifest(manifest, given_options(planning))
    limits = {"processes": processes, "task_seconds": task_seconds, "task_memory": task_memory}
    given: dict[str, Any] = {key: value for key, value in limits.items() if value is not None}
    if baselines:
        given["baselines"] = baselines
    options = {**wanted.run, **given}
    if backend == "dask":
        options.pop("processes", None)
    done = 0
    try:
        with watching_batch(enabled=not quiet) as show:

            def progress(event: Any) -> None:
                nonlocal done
                done = event.done
                if show is not None:
                    show(event)

            table = run(
                wanted.models, wanted.settings, output=output, backend=backend,
                scheduler=scheduler, retry=retry, progress=progress, **options,
            )  # fmt: skip
    except KeyboardInterrupt:
        text = f"cpplan: interrupted: {done} rows are kept, and the same command goes on from them"
        write_to(sys.stderr, f"{text}\n")
        raise click.exceptions.Exit(_INTERRUPTED) from None
    counts = Counter(table["status"]) if len(table) else Counter()
    what = ", ".join(f"{count} {status}" for status, count in counts.most_common())
    print_out(f"{len(table)} rows in {printable(output, MESSAGE)}: {what}\n")
