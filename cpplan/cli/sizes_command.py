"""``cpplan sizes``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from cpplan.cli.options import (
    BOUNDARY,
    MODEL,
    READING,
    check_outputs,
    parse_dims,
    request_options,
    with_options,
)
from cpplan.cli.printing import naming, print_out
from cpplan.model.errors import InputError, error_without_plan, located

if TYPE_CHECKING:
    Dims = dict[str, int | tuple[int, int | None]]


@click.command(short_help="One layout for several sizes.")
@MODEL
@with_options(READING)
@click.option(
    "--at",
    "points",
    multiple=True,
    required=True,
    metavar="N=8[,H=224]",
    help="A size to plan for: values of all dimensions. May be repeated.",
)
@with_options(BOUNDARY)
@with_options(
    request_options(
        "order",
        "in_place",
        order={
            "help": "Run ops as the model lists them, or in the order that needs least at the "
            "largest size.",
            "default": "given",
        },
    )
)
@click.option(
    "--prefix-stable",
    is_flag=True,
    help="Minimise the arena at every size, from the largest to the smallest.",
)
@click.option(
    "--objective",
    type=click.Choice(["largest", "ratio"]),
    default="largest",
    show_default=True,
    help="Minimise first the largest arena, or the worst ratio to the arena of one size alone.",
)
@click.option(
    "--capacity",
    "capacities",
    multiple=True,
    metavar="BYTES|any",
    help="Limit on the arena: given once for all sizes, or once for each --at, in their order.",
)
@with_options(
    request_options(
        "time_limit",
        "workers",
        "seed",
        "deterministic",
        time_limit={"help": "Seconds for everything; the best layout so far is then returned."},
    )
)
@click.option(
    "--json", "json_path", metavar="FILE|-", help="Write the plan with its runtime as JSON."
)
@click.option(
    "-o", "--output", metavar="FILE", help="Write the plan as JSON, equal for equal runs."
)
@click.option("--csv", "csv_path", metavar="FILE", help="Write the table of sizes as CSV.")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
def sizes(
    model: str, dims: tuple[str, ...], points: tuple[str, ...], capacities: tuple[str, ...],
    json_path: str | None, output: str | None, csv_path: str | None, quiet: bool, **options: Any,
) -> None:  # fmt: skip
    """Plan one layout of MODEL for several sizes, and print the arena that each needs."""
    check_outputs(model, json_path, {"-o": output, "--csv": csv_path})
    listed = [_parse_point(point) for point in points]
    limits = _parse_capacities(capacities, len(listed))
    from cpplan.io import load
    from cpplan.io.sizes_json import format_sizes_json
    from cpplan.runtime.atomic import write_text
    from cpplan.runtime.interrupts import holding_interrupts
    from cpplan.runtime.progress import watching
    from cpplan.solving.sizes.for_graph import plan_sizes

    source: Any = load(model, dims=_ranges(model, parse_dims(dims), listed))
    with holding_interrupts() as hold:
        with naming(model), watching(enabled=not quiet) as progress:
            found = plan_sizes(source, listed, capacities=limits, progress=progress, **options)
            hold()
        if output is not None:
            found.save(output)
        if csv_path is not None:
            write_text(csv_path, found.to_frame().to_csv(index=False, lineterminator="\n"))
        if json_path == "-":
            print_out(format_sizes_json(found, clock=True))
        else:
            if json_path is not None:
                found.save(json_path, clock=True)
            print_out(str(found))
        if found.plan.offset is None:
            raise error_without_plan(found.plan.status, f"{model}: {found.plan.message}")


def _parse_point(text: str) -> dict[str, int]:
    """Values of dimensions by name."""
    values: dict[str, int] = {}
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        if not (name and equals and value.isascii() and value.isdigit() and len(value) <= 18):
            raise InputError(f"--at {text!r} is not understood: expected e.g. N=8 or N=8,H=224")
        if name in values:
            raise InputError(f"--at {text!r}: {name!r} is {values[name]} already")
        values[name] = int(value)
    return values


def _parse_capacities(texts: Sequence[str], count: int) -> list[int | None]:
    """Capacities, one for each size, or an empty list if none is given."""
    from cpplan.model.byte_sizes import parse_bytes

    with located("--capacity"):
        found = [None if text == "any" else parse_bytes(text) for text in texts]
    if len(found) not in (0, 1, count):
        raise InputError(
            f"--capacity is given {len(found)} times: expected once, or as often as --at ({count})"
        )
    return found * count if len(found) == 1 else found


def _ranges(model: str, dims: Dims | None, listed: Sequence[dict[str, int]]) -> Dims | None:
    """Bounds of an ONNX model's dimensions: as given, else up to the largest planned value."""
    if not model.lower().endswith(".onnx"):
        return dims
    names = dict.fromkeys(name for values in listed for name in values)
    most = {name: max(values.get(name, 1) for values in listed) for name in names}
    return {**{name: (min(1, upper), upper) for name, upper in most.items()}, **(dims or {})}
