"""Cache of plans by graph, in a folder, so that a restart need not plan again."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from cpplan.model.errors import InputError
from cpplan.model.graph import Graph
from cpplan.model.version import __version__
from cpplan.runtime.atomic import write_text

_FORMAT = "cpplan.training_plan"
_known: dict[str, dict[str, Any]] = {}


def plan_key(graph: Graph, *settings: object) -> str:
    """Text that is equal for equal ops, tensors and settings, whatever their names."""
    tensor = {t.name: k for k, t in enumerate(graph.tensors)}
    op = {each.name: k for k, each in enumerate(graph.ops)}
    described = [
        (
            each.kind,
            [tensor[name] for name in each.inputs],
            [tensor[name] for name in each.outputs + each.workspaces],
            [op[name] for name in each.after],
            each.cost,
            each.recomputable,
        )
        for each in graph.ops
    ]
    sizes = [(t.nbytes, t.kind) for t in graph.tensors]
    return sha256(repr((__version__, settings, sizes, described)).encode()).hexdigest()


def find_plan(key: str, folder: Path | None) -> dict[str, Any] | None:
    """The valid plan kept under a key, in this process or in the folder; or ``None``."""
    if key in _known:
        return _known[key]
    if folder is None:
        return None
    try:
        found = json.loads((folder / f"{key}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        return None
    return found


def keep_plan(key: str, folder: Path | None, plan: dict[str, Any]) -> None:
    """Keep a plan in this process and, if one is given, in the folder."""
    plan = {"format": _FORMAT, **plan}
    _known[key] = plan
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: the cache folder cannot be made: {error.strerror}") from error
    write_text(folder / f"{key}.json", json.dumps(plan))


def forget_plans() -> None:
    """Forget the plans of this process; those in folders stay."""
    _known.clear()
