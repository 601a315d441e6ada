"""``cpplan plan``."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import click
from click.core import ParameterSource

from cpplan.cli.options import (
    KINDS,
    MODEL,
    READING,
    THROUGH,
    WORKSPACES,
    begin_of_command,
    parse_dims,
    parse_kinds,
    parse_workspaces,
    request_options,
    with_options,
)
from cpplan.cli.plan_files import Outputs, export_options
from cpplan.cli.printing import arena_notes, describe, describe_suggestions, naming, print_out
from cpplan.io.formats import read_suffixes
from cpplan.model.errors import InputError, error_without_plan
from cpplan.solving.request import OPTIONS, Request

if TYPE_CHECKING:
    from cpplan.model.plan import Plan
    from cpplan.model.plan_data import Progress


@click.command(
    short_help="Plan a model, and write the plan in any format.",
    help=f"Plan the memory of MODEL ({', '.join(read_suffixes())}).",
)
@MODEL
@with_options(READING)
@with_options(THROUGH)
@with_options(KINDS)
@with_options(WORKSPACES)
@with_options(
    request_options(
        piece_bytes={
            "default": None,
            "help": f"{OPTIONS['piece_bytes'].help} Of .tflite models, by default those that "
            "TFLite Micro keeps; of others 0.",
        },
        suggest={
            "default": 1.0,
            "show_default": True,
            "help": f"{OPTIONS['suggest'].help} 0: none.",
        },
    )
)
@click.option(
    "--best",
    is_flag=True,
    help="Take all decisions that cost no work and that runtimes of MODEL's format can carry out: "
    "--order search, --in-place, --split, unless decided otherwise.",
)
@click.option(
    "--json", "json_path", metavar="FILE|-", help="Write the plan with its timings as JSON."
)
@with_options(export_options())
@click.option(
    "--explain", is_flag=True, help="Say why the plan is not smaller, and what each rule may cost."
)
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
def plan(
    model: str, dims: tuple[str, ...], kinds: tuple[str, ...], workspaces: tuple[str, ...],
    kernels: str | None, through: Literal["tvm"] | None,
    best: bool, json_path: str | None, explain: bool, quiet: bool, **options: Any,
) -> None:  # fmt: skip
    started = begin_of_command()
    wanted = Outputs.of(model, json_path, options)
    wanted.check_paths(through)
    if explain and json_path == "-":
        raise InputError("--explain and --json - both write to standard output: give one")
    weight = options.pop("piece_bytes")
    with naming(model):
        request = Request(**options, piece_bytes=weight or 0)
        if best:
            request = _with_best(model, through, request)
    in_place = parse_kinds(kinds, used=request.in_place)
    from cpplan.io import load
    from cpplan.io.formats import decisions_of
    from cpplan.io.plan_json import plan_text
    from cpplan.runtime.collection import keeping_objects
    from cpplan.runtime.interrupts import holding_interrupts
    from cpplan.solving.suggestions import suggest_decisions, suggesting_time

    bound = parse_dims(dims)
    extents = {name: given for name, given in (bound or {}).items() if isinstance(given, int)}
    stated = parse_workspaces(workspaces)
    with keeping_objects():
        source = load(
            model, dims=bound, in_place=in_place, workspaces=stated, kernels=kernels,
            through=through,
        )  # fmt: skip
    if best and not options["split"] and getattr(source, "symbols", None) is not None:
        request = replace(request, split=False)  # pieces need fixed sizes
    with naming(model):
        wanted.check_source(source, request)

    def weighed(asked: Request) -> Request:
        """The request with the bytes that the model's runtime keeps for each piece."""
        kept = _kept_by_runtime(model, asked, extents) if weight is None else {}
        return replace(asked, piece_bytes=kept) if kept else asked

    def planned(_: Any, asked: Request) -> Plan:
        return _plan(model, source, weighed(asked), extents, stated or {}, kernels)

    request = weighed(request)
    kept = request.piece_bytes if weight is None else {}
    if not request.deterministic:
        request = request.within(request.time_limit - (time.monotonic() - started))
    seconds = suggesting_time(source, request)
    with holding_interrupts() as hold:
        with naming(model), _watching(request, quiet) as progress:
            asked = replace(request, suggest=0.0, progress=progress)
            result = planned(source, asked.within(request.time_limit - seconds))
            hold()
        limit = request.memory_limit
        notes = arena_notes(model, result, extents, stated or {}, kernels, limit=limit)
        if isinstance(kept, Mapping) and kept:
            notes["piece bytes"] = (
                f"up to {max(kept.values())} B weighed for each run beyond one per op, as TFLite "
                "Micro keeps (--piece-bytes 0: none)"
            )
        if json_path is None:  # the answer first: suggestions take a moment
            wanted.write(source, result, extents, notes)
            print_out(describe(result, notes))
        if seconds:
            allowed = decisions_of(model, through)
            arena = _arena(model, extents, stated or {}, kernels)
            more = suggest_decisions(source, result, request, seconds, planned, allowed, arena)
            result = replace(result, suggestions=more)
        if json_path is not None:
            wanted.write(source, result, extents, notes)
            text = plan_text(result, clock=True) if json_path == "-" else [describe(result, notes)]
            print_out("".join(text))
        if json_path != "-":
            print_out(describe_suggestions(result))
        if explain:
            with naming(model):
                print_out(f"\n{result.explain(source)}")
        if result.offset is None:
            raise error_without_plan(result.status, f"{model}: {result.message}")


def _plan(
    model: str,
    source: Any,
    request: Request,
    dims: Mapping[str, int],
    stated: Mapping[str, int | str],
    kernels: str | None,
) -> Plan:
    """The plan of a request; of a TFLite model, within limits on TFLite Micro's arena."""
    if _is_tflite(model):
        from cpplan.io.tflite import plan_micro

        return plan_micro(model, source, request, dims, stated=stated, kernels=kernels)
    from cpplan.solving.pipeline import solve_arena

    return solve_arena(source, request)


def _arena(
    model: str, dims: Mapping[str, int], stated: Mapping[str, int | str], kernels: str | None
) -> Callable[[Plan], int] | None:
    """Function that gives the arena of a plan of a TFLite model; ``None`` for other models."""
    if not _is_tflite(model):
        return None
    from cpplan.io.tflite import micro_arena

    return lambda plan: micro_arena(model, plan, dims, stated=stated, kernels=kernels).total


def _watching(
    request: Request, quiet: bool
) -> AbstractContextManager[Callable[[Progress], None] | None]:
    from cpplan.runtime.progress import watching

    seconds = None if request.deterministic else request.time_limit
    return watching(enabled=not quiet, seconds=seconds)


def _with_best(model: str, through: str | None, request: Request) -> Request:
    """The request with all decisions that cost no work, where no option of the user's is against.

    A decision that does not go with the other options is left out.
    """
    from cpplan.io.formats import decisions_of
    from cpplan.solving.suggestions import FREE

    context = click.get_current_context()
    for decision in decisions_of(model, through):
        name, value = FREE[decision]
        if context.get_parameter_source(name) is ParameterSource.DEFAULT:
            with suppress(InputError):
                request = replace(request, **{name: value})  # type: ignore[arg-type]
    return request


def _is_tflite(model: str) -> bool:
    return model.lower().endswith(".tflite")


def _kept_by_runtime(model: str, request: Request, dims: Mapping[str, int]) -> dict[str, int]:
    """Op of a TFLite model -> bytes that TFLite Micro keeps for a piece; none for moves."""
    if not (request.split and not request.spill and _is_tflite(model)):
        return {}
    from cpplan.io.tflite import piece_bytes

    return piece_bytes(model, dims)
