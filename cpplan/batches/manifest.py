"""A batch as a file: tables of models and of settings, in TOML.

::

    baselines = ["greedy_by_size"]
    task_seconds = 120
    task_memory = "4 GiB"

    [[model]]
    source = "models"               # a folder: every model file in it, in order of their names

    [[model]]
    source = "nets/**/*.onnx"       # every model file that matches, in order of their names

    [[model]]
    source = "resnet50.onnx"        # as cpplan.load takes it; paths start at the manifest's folder
    name = "ResNet-50, 8 images"    # if it is not to be called what its source is
    dims = { N = 8, T = [1, 128] }
    in_place = { Softmax = true }   # kinds of op
    workspaces = { Conv = "64KiB" } # scratch memory, by kind or name of op

    [[setting]]
    name = "given order"

    [[setting]]
    name = "searched"               # "searched, seed 0", "searched, seed 1", …
    order = "search"
    in_place = true
    seeds = [0, 1, 2]

    [[setting]]
    name = "three fifths"
    remat = true
    memory_limit = "60%"
    pools = [{ name = "sram" }]

A setting has every keyword of ``cpplan.solve`` except ``progress``; if a manifest has no settings,
there is one, with the defaults. A folder given instead of a manifest means all its models under one
setting, whose options are given beside it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from cpplan.batches.dispatch import check_processes
from cpplan.batches.inputs import check_distinct
from cpplan.batches.model_entry import Model, is_pattern, models_in, models_like
from cpplan.batches.setting import Setting, setting_name
from cpplan.batches.task import make_limits
from cpplan.model.errors import InputError, MissingExtraError, located
from cpplan.model.names import check_key
from cpplan.packing import heuristics
from cpplan.runtime import limits
from cpplan.runtime.json_file import read_text
from cpplan.solving.request import KEYWORDS, OPTIONS

_RUN_KEYS = ("baselines", "processes", "task_seconds", "task_memory")
_MODEL_KEYS = ("name", "source", "dims", "in_place", "workspaces")
_SETTING_KEYS = ("name", "seeds", *KEYWORDS)


@dataclass(frozen=True)
class Manifest:
    """Models and settings of a batch, with the keywords of its run.

    Attributes
    ----------
    run
        Keywords of :func:`cpplan.batch` that the file gives.
    """

    models: tuple[Model, ...]
    settings: tuple[Setting, ...]
    run: Mapping[str, Any]


def read_manifest(path: str | PathLike[str], options: Mapping[str, Any] | None = None) -> Manifest:
    """A manifest in TOML, or a folder of models under one setting.

    Parameters
    ----------
    path
        Path of the file or the folder.
    options
        Keywords of ``cpplan.solve`` for a folder; a manifest has settings of its own.

    Raises
    ------
    InputError
        If the manifest cannot be read, a key is unknown, a value is not understood, or options are
        given with a manifest; names the file, the entry and what was expected. Models are read
        later, one by one.
    """
    path = Path(path)
    if os.path.isdir(path):
        setting = Setting(setting_name(options), options) if options else Setting("default")
        return Manifest(tuple(models_in(path)), (setting,), {})
    values = _read_toml(path)
    if options:
        names = ", ".join(OPTIONS[key].names.split("/")[0] for key in options)
        raise InputError(f"{path}: a manifest has its own settings: expected a folder with {names}")
    with located(path):
        for key in values:
            check_key(key, (*_RUN_KEYS, "model", "setting"))
        models: list[Model] = []
        for table in _tables(values, "model"):
            models += _models(table, path.parent)
        if not models:
            raise InputError("no [[model]]: expected at least one")
        settings = [s for table in _tables(values, "setting") for s in _settings(table)]
        settings = settings or [Setting("default")]
        check_distinct("model", (model.name for model in models))
        check_distinct("setting", (setting.name for setting in settings))
        run = {key: values[key] for key in _RUN_KEYS if key in values}
        _check_run(run)
    return Manifest(tuple(models), tuple(settings), run)


def _read_toml(path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        try:
            import tomli as tomllib
        except ImportError as error:
            raise MissingExtraError("tomli", "batch", "a manifest") from error
    text = read_text(path)
    if len(text) > limits.MOST_MANIFEST:
        reason = f"expected at most {limits.MOST_MANIFEST >> 20} Mi characters"
        raise InputError(f"{path}: not a manifest: {reason}, not {len(text)}")
    for number, line in enumerate(text.split("\n"), 1):
        if (dots := line.count(".")) > limits.MOST_DOTS:
            reason = f"line {number} has {dots} dots: expected at most {limits.MOST_DOTS}"
            raise InputError(f"{path}: not a manifest: {reason}")
    if (dots := text.count(".")) > limits.MOST_DOTS_IN_ALL:
        reason = f"expected at most {limits.MOST_DOTS_IN_ALL} dots, not {dots}"
        raise InputError(f"{path}: not a manifest: {reason}")
    try:
        values: dict[str, Any] = tomllib.loads(text)
        return values
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: not TOML: {error}") from error
    except ValueError as error:  # of an integer of too many digits
        raise InputError(f"{path}: not a manifest: a number is out of range") from error
    except RecursionError as error:
        raise InputError(f"{path}: not a manifest: nested too deeply") from error


def _check_run(run: Mapping[str, Any]) -> None:
    """Raise for values that ``cpplan.batch`` would refuse, naming the file that has them."""
    make_limits(run.get("task_seconds"), run.get("task_memory"))
    check_processes(run.get("processes"))
    names = run.get("baselines", [])
    if not isinstance(names, list):
        raise InputError(f"baselines must be a list of names, not {names!r}")
    for name in names:
        heuristics.get(name)


def _tables(values: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    tables = values.get(key, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise InputError(f"{key} must be a list of tables: expected [[{key}]]")
    return tables


def _models(table: Mapping[str, Any], folder: Path) -> list[Model]:
    source = table.get("source")
    name = table.get("name", source)
    here = f"model {name or source!r}"
    with located(here):
        for key in table:
            check_key(key, _MODEL_KEYS)
        if not isinstance(source, str) or not source:
            raise InputError("source must be a file, a folder or zoo://…, not " + repr(source))
        in_place = table.get("in_place")
        if in_place is not None and not (
            isinstance(in_place, dict) and all(isinstance(use, bool) for use in in_place.values())
        ):
            raise InputError("in_place must say true or false of kinds of op ({ Add = false })")
        workspaces = table.get("workspaces")
        if workspaces is not None and not isinstance(workspaces, dict):
            raise InputError('workspaces must give bytes of kinds of op ({ Conv = "64KiB" })')
        dims = _dims(table.get("dims"))
        if source.startswith("zoo://"):
            return [Model(name, source, dims, in_place, workspaces)]
        where = folder / source
        many = os.path.isdir(where) or is_pattern(source, folder)
        if not many:
            return [Model(name, str(where), dims, in_place, workspaces)]
        other = next((key for key in table if key != "source"), None)
        if other is not None:
            raise InputError(f"a folder or a pattern of models has no {other}")
    if is_pattern(source, folder):
        return models_like(source, folder)
    return models_in(where, f"{source.rstrip('/')}/")


def _dims(given: object) -> dict[str, Any] | None:
    """Extents, or bounds ``[lower, upper]``; ``[lower]`` has no upper bound."""
    if given is None:
        return None
    if not isinstance(given, dict):
        raise InputError(f"dims must be a table of extents, not {given!r}")
    dims: dict[str, Any] = {}
    for name, extent in given.items():
        numbers = extent if isinstance(extent, list) else [extent]
        if not 1 <= len(numbers) <= 2 or any(type(number) is not int for number in numbers):
            raise InputError(f"dims: {name} = {extent!r}: expected 8, [1, 128] or [1]")
        dims[name] = (numbers[0], *numbers[1:], None)[:2] if isinstance(extent, list) else extent
    return dims


def _settings(table: Mapping[str, Any]) -> list[Setting]:
    options = dict(table)
    name = options.pop("name", None)
    if not isinstance(name, str) or not name:
        raise InputError(f"a setting's name must be a non-empty string, not {name!r}")
    with located(f"setting {name!r}"):
        for key in table:
            check_key(key, _SETTING_KEYS)
    seeds = options.pop("seeds", None)
    if seeds is None:
        return [Setting(name, options)]
    if not isinstance(seeds, list) or not seeds or "seed" in options:
        raise InputError(f"setting {name!r}: seeds must be a list, and stand instead of seed")
    return [Setting(f"{name}, seed {seed}", options | {"seed": seed}) for seed in seeds]
