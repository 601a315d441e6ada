"""``cpplan storages``."""

from __future__ import annotations

import json
import time
from typing import Literal

import click

from cpplan.cli.options import (
    BOUNDARY,
    MODEL,
    READING,
    SEARCHING,
    THROUGH,
    begin_of_command,
    check_outputs,
    parse_dims,
    request_options,
    with_options,
)
from cpplan.cli.printing import naming, print_out

# Time to write an assignment: a multiple of the seconds to read the model, plus a constant.
_WRITING, _SHORTEST = 0.5, 1e-3


@click.command(short_help="Whole storages, for runtimes without offsets.")
@MODEL
@with_options(READING)
@with_options(THROUGH)
@with_options(BOUNDARY)
@with_options(SEARCHING)
@click.option(
    "--group-by",
    type=click.Choice(["dtype"]),
    help="Keep tensors that differ in this in separate storages.",
)
@click.option(
    "--algorithm",
    metavar="NAME",
    help="Use this baseline only (storage_tokens, shared_objects, …).",
)
@with_options(request_options("time_limit", time_limit={"help": "Seconds for everything."}))
@click.option("--json", "json_path", metavar="FILE|-", help="Write the assignment as JSON.")
def storages(
    model: str, dims: tuple[str, ...], through: Literal["tvm"] | None, json_path: str | None,
    time_limit: float, group_by: Literal["dtype"] | None, algorithm: str | None, inputs: str,
    outputs: str, constants: str | None, workers: int | None, seed: int,
) -> None:  # fmt: skip
    """Assign whole storages in MODEL, for runtimes that place nothing at an offset."""
    started = begin_of_command()
    check_outputs(model, json_path, {})
    from cpplan.io import load
    from cpplan.packing.storage_ids import share_storages
    from cpplan.runtime.atomic import write_text
    from cpplan.runtime.collection import keeping_objects

    with keeping_objects():
        source = load(model, dims=parse_dims(dims), through=through)
    # Writing an assignment takes about half as long as reading the model.
    read = time.monotonic() - started
    left = max(time_limit - (1 + _WRITING) * read, _SHORTEST)
    with naming(model):
        found = share_storages(
            source,
            time_limit=left,
            group_by=group_by,
            algorithm=algorithm,
            inputs=inputs,
            outputs=outputs,
            constants=constants or "outside",
            workers=workers,
            seed=seed,
        )
    text = json.dumps(found.to_dict(), indent=1) + "\n"
    if json_path == "-":
        print_out(text)
        return
    if json_path is not None:
        write_text(json_path, text)
    print_out(f"{found}\n")
