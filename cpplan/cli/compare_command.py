"""``cpplan compare``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import click

from cpplan.cli.options import (
    KINDS,
    MODEL,
    PLANNING,
    READING,
    THROUGH,
    WORKSPACES,
    check_outputs,
    parse_dims,
    parse_kinds,
    parse_workspaces,
    request_options,
    with_options,
)
from cpplan.cli.printing import naming, print_out
from cpplan.model.errors import InputError
from cpplan.model.registry import chosen_names


@click.command(short_help="Every baseline beside the bound.")
@MODEL
@with_options(READING)
@with_options(THROUGH)
@with_options(KINDS)
@with_options(WORKSPACES)
@with_options(PLANNING)
@click.option(
    "--algorithm",
    "algorithms",
    multiple=True,
    metavar="NAME",
    help="Compare with this baseline only.",
)
@click.option(
    "--answers",
    "answer_paths",
    multiple=True,
    metavar="FILE",
    help="Another planner's answer for MODEL: a profile of ONNX Runtime (.json), or a listing of "
    "XLA, vela or TVM (.txt).",
)
@with_options(
    request_options(
        "remat",
        "spill",
        "split",
        "memory_limit",
        "cost_limit",
        "time_limit",
        remat={
            "help": "Let ops run again: baselines of rematerialization within --memory-limit.",
        },
        spill={"help": "Let tensors move between two pools: rules of eviction."},
        split={"help": "Let ops run in pieces: published rules, at --cost-limit."},
        cost_limit={"help": "With --split: most work, as a multiple of every op once (1.1)."},
        memory_limit={
            "help": "With --remat: what the arena may need, in bytes (256KiB) or as a share of the "
            "bytes live at once in the given order (60%).",
        },
        time_limit={
            "help": "Seconds for each row; reading MODEL and checking layouts come on top.",
            "default": 10.0,
        },
    )
)
@click.option("--json", "json_path", metavar="FILE|-", help="Write the rows as a JSON list.")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
def compare(
    model: str, dims: tuple[str, ...], kinds: tuple[str, ...], workspaces: tuple[str, ...],
    kernels: str | None, through: Literal["tvm"] | None,
    algorithms: tuple[str, ...], answer_paths: tuple[str, ...], remat: bool, spill: bool,
    split: bool, memory_limit: int | str | None, cost_limit: float | None, json_path: str | None,
    quiet: bool, **options: Any,
) -> None:  # fmt: skip
    """List the peak of every baseline for MODEL beside cpplan's plan and the bound."""
    check_outputs(model, json_path, {})
    if remat != (memory_limit is not None):
        raise InputError("--remat and --memory-limit belong together: give both or neither")
    if cost_limit is not None and not split:
        raise InputError("--cost-limit is for --split")
    import json
    from dataclasses import asdict

    from cpplan.comparison.rivals.listings import read_answers
    from cpplan.io import load
    from cpplan.runtime.atomic import write_text
    from cpplan.runtime.progress import watching

    if remat + spill + split > 1:
        raise InputError("--remat, --spill and --split are compared with other baselines: give one")
    _check_names(algorithms, remat=remat, spill=spill, split=split)
    if (remat or spill or split) and answer_paths:
        raise InputError(
            "--answers are of planners that run no op twice, move nothing and split nothing: not "
            "with --remat, --spill or --split"
        )
    options["algorithms"] = algorithms or None
    answers = [answer for path in answer_paths for answer in read_answers(path)]
    source = load(
        model,
        dims=parse_dims(dims),
        in_place=parse_kinds(kinds),
        workspaces=parse_workspaces(workspaces),
        kernels=kernels,
        through=through,
    )
    with naming(model), watching(enabled=not quiet) as progress:
        options["progress"] = progress
        if remat:
            table, rows = _compare_remat(source, memory_limit=memory_limit, **options)
        elif spill:
            table, rows = _compare_spill(source, **options)
        elif split:
            if cost_limit is not None:
                options["cost_limit"] = cost_limit
            table, rows = _compare_split(source, **options)
        else:
            table, rows = _compare_packing(source, answers=answers, **options)
    if json_path is not None:
        text = json.dumps([asdict(row) for row in rows], indent=1) + "\n"
        if json_path == "-":
            print_out(text)
            return
        write_text(json_path, text)
    print_out(table)


def _compare_packing(source: Any, **options: Any) -> tuple[str, Sequence[Any]]:
    from cpplan.comparison.baselines import compare_rows
    from cpplan.report.tables import format_comparison

    rows = compare_rows(source, **options)
    return format_comparison(rows), rows


def _compare_remat(source: Any, **options: Any) -> tuple[str, Sequence[Any]]:
    from cpplan.comparison.remat_comparison import compare_remat_rows
    from cpplan.report.tables import format_remat_comparison

    rows = compare_remat_rows(source, **options)
    return format_remat_comparison(rows), rows


def _compare_spill(source: Any, **options: Any) -> tuple[str, Sequence[Any]]:
    from cpplan.comparison.spill_comparison import compare_spill_rows
    from cpplan.report.tables import format_spill_comparison

    rows = compare_spill_rows(source, placers=_placers(), **options)
    return format_spill_comparison(rows), rows


def _compare_split(source: Any, **options: Any) -> tuple[str, Sequence[Any]]:
    from cpplan.comparison.split_comparison import compare_split_rows
    from cpplan.report.tables import format_split_comparison

    rows = compare_split_rows(source, **options)
    return format_split_comparison(rows), rows


def _placers() -> dict[str, Any]:
    """Name -> installed planner that keeps each tensor in one pool."""
    from importlib.util import find_spec

    if find_spec("executorch") is None:
        return {}
    from cpplan.io.executorch.banks import banked_greedy

    return {"executorch banked_greedy": banked_greedy}


def _check_names(algorithms: tuple[str, ...], *, remat: bool, spill: bool, split: bool) -> None:
    from cpplan.packing import heuristics
    from cpplan.remat import heuristics as baselines
    from cpplan.spilling import heuristics as evictions
    from cpplan.splitting import heuristics as rules

    kind = evictions if spill else rules if split else baselines if remat else heuristics
    chosen_names(kind, algorithms)
