"""Readers of other planners' listings, recognised by their content, and of their answers alone.

Arena sizes from a profile of ONNX Runtime, as answers for the model that was run.

With ``SessionOptions.enable_profiling`` the runtime (from 1.31) records at every kernel the bytes
of its arena that are in use. From the second run on it lays out all intermediates in one block (its
memory pattern), so the profile's last run counts. Outputs are in the arena, inputs are not: compare
with ``inputs="outside"``. The runtime may have fused nodes, unless its optimisations were off.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from cpplan.model.answers import Answer
from cpplan.model.errors import InputError
from cpplan.model.problem import Problem
from cpplan.runtime.json_file import read_json, read_text

_IN_USE, _ADDED, _HELD = (
    "mem_bytes_requested_in_use",
    "mem_requested_in_use_delta",
    "mem_arena_held",
)


def read_listing(path: str | PathLike[str]) -> Problem:
    """The packing problem that a listing describes, with the other planner's answer.

    Listings understood: XLA's buffer assignment and live ranges, vela's ``--verbose-allocation``,
    and a Relax module in which TVM planned its storages.
    """
    from cpplan.comparison.rivals.relax_script import STORAGE, read_relax
    from cpplan.comparison.rivals.vela_listing import TITLE, read_vela
    from cpplan.comparison.rivals.xla_dump import ASSIGNMENT, RANGES, read_xla

    text = read_text(path)
    if text.startswith((ASSIGNMENT, RANGES)):
        return read_xla(path)
    if TITLE in text:
        return read_vela(path)
    if STORAGE in text:
        return read_relax(path)
    raise InputError(
        f"{path}: not a listing that is understood: expected XLA's buffer assignment or live "
        "ranges, vela's --verbose-allocation, or a Relax script with alloc_storage"
    )


def read_answers(path: str | PathLike[str]) -> tuple[Answer, ...]:
    """Peaks that other planners state, in bytes, from a file that they wrote.

    The file is a profile of ONNX Runtime (``.json``) or a listing that :func:`cpplan.load` reads
    (``.txt``). Only the bytes of a listing are kept, since its buffers have the other planner's
    names.
    """
    suffix = Path(path).suffix.lower()
    if suffix == ".json":
        return read_profile(path)
    if suffix == ".txt":
        found = read_listing(path).answers
        return tuple(replace(answer, offset=None, pool={}) for answer in found)
    raise InputError(
        f"{path}: expected a profile of ONNX Runtime (.json) or a listing of another planner's "
        "(.txt)"
    )


def read_profile(path: str | PathLike[str]) -> tuple[Answer, Answer]:
    """Most bytes requested at once (``onnxruntime``) and held (``onnxruntime_arena``).

    The first answer leaves out the bytes in use before the first kernel ran (initializers). The
    second is the runtime's own count: it includes these bytes, and the arena grows in steps.

    Raises
    ------
    InputError
        If the file cannot be read, or is not a profile with figures of the arena; names the file.
    """
    runs: list[list[tuple[int, int, int]]] = [[]]
    for event in _events(path, read_json(path)):
        figures = event.get("args", {})
        if event.get("name") == "model_run":
            runs.append([])
        elif isinstance(figures, dict) and _IN_USE in figures:
            runs[-1].append(_figures(path, figures))
    runs = [run for run in runs if run]
    if not runs:
        raise InputError(
            f"{path}: no figures of an arena: expected {_IN_USE} in a profile of ONNX Runtime 1.31 "
            "or later"
        )
    in_use, added, _ = runs[0][0]
    before = in_use - added
    peak = max(in_use for in_use, _, _ in runs[-1]) - before
    held = max(held for run in runs for _, _, held in run)
    return Answer("onnxruntime", max(peak, 0)), Answer("onnxruntime_arena", held)


def _events(path: str | PathLike[str], values: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(values, list) or not all(isinstance(event, dict) for event in values):
        raise InputError(f"{path}: not a profile of ONNX Runtime: expected a list of events")
    yield from values


def _figures(path: str | PathLike[str], figures: dict[str, Any]) -> tuple[int, int, int]:
    try:
        in_use, added, held = (int(figures[key]) for key in (_IN_USE, _ADDED, _HELD))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: {_IN_USE}, {_ADDED}, {_HELD}: expected integers") from error
    return in_use, added, held
