"""Arena sizes from a profile of ONNX Runtime, as answers for the model that was run.

With ``SessionOptions.enable_profiling`` the runtime (from 1.31) records at every kernel the bytes
of its arena that are in use. From the second run on it lays out all intermediates in one block (its
memory pattern), so the profile's last run counts. Outputs are in the arena, inputs are not: compare
with ``inputs="outside"``. The runtime may have fused nodes, unless its optimisations were off.
"""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from typing import Any

from cpplan.model.answers import Answer
from cpplan.model.errors import InputError
from cpplan.runtime.json_file import read_json

_IN_USE, _ADDED, _HELD = (
    "mem_bytes_requested_in_use",
    "mem_requested_in_use_delta",
    "mem_arena_held",
)


def read_profile(path: str | PathLike[str]) -> tuple[Answer, Answer]:
    """Most bytes requested at once (``onnxruntime``) and held (``onnxruntime_arena``).

    The first answer leaves out the bytes in use before the first kernel ran (initializers). The
    second is the runtime's own count: it includes these bytes, and the arena grows in steps.

    Raises
    ------
    InputError
        If the file cannot be read, or is not a profile with figures of the arena; names the file.

    Examples
    --------
    >>> import json, tempfile
    >>> from pathlib import Path
    >>> keys = "mem_bytes_requested_in_use", "mem_requested_in_use_delta", "mem_arena_held"
    >>> runs = [(96, 64, 256), (64, -32, 256), None, (160, 0, 256)]
    >>> events = [
    ...     {"name": "relu_kernel_time", "args": dict(zip(keys, map(str, figures)))}
    ...     if figures else {"name": "model_run"}
    ...     for figures in runs
    ... ]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "profile.json")
    ...     _ = path.write_text(json.dumps(events))
    ...     [(answer.name, answer.peak) for answer in read_profile(path)]
    [('onnxruntime', 128), ('onnxruntime_arena', 256)]
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
