"""Settings of planned training, given as ``options=`` of ``torch.compile``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any

from cpplan.io.torch.training.work import WORKS, Work
from cpplan.model.byte_sizes import parse_bytes
from cpplan.model.errors import InputError
from cpplan.model.names import not_understood
from cpplan.model.plan_data import Progress
from cpplan.solving.shares import is_share, parse_share

# Part of a limit by which a peak may exceed it before this is worth a warning.
TOLERANCE = 0.01
_CHOICES = {
    "resident": ("count", "outside"),
    "on_infeasible": ("error", "best"),
    "fallback": ("error", "eager"),
}
# Name of the search for schedules that were found for other sizes.
OTHER_SIZES = "planned for other sizes"


@dataclass(frozen=True)
class Settings:
    """Settings of planned training.

    Attributes
    ----------
    memory_limit
        Limit on the peak of a step, in bytes or as text (``"2 GiB"``), within which the least extra
        work is searched for. It may also be a share of the peak of each training graph without a
        plan (``"60%"``); graphs without gradients then have no limit. Graphs for several sizes have
        one at each (:mod:`cpplan.io.torch.training.backend`).
    cost_limit
        Limit on the work of a step, as a multiple of running every op once (``1.1``), within which
        the least peak is searched for. Without any limit it is 1: no op runs again, and only the
        order is chosen.
    time_limit
        Seconds of search for each graph. Compiling its loops, once for each installation, comes
        before.
    deterministic
        True to count these seconds by the work done, so that the plan does not depend on the load
        of the machine.
    resident
        ``"count"``: parameters, buffers and inputs, which are live before and after the step, count
        towards the limit. ``"outside"``: only bytes that the step allocates count, gradients
        included.
    cost
        Work of an op. ``"time"``: the larger of its operations and the operations done while its
        bytes move (:func:`cpplan.io.torch.training.work.work_of`). ``"operations"``: its
        operations. ``"flops"``: its operations if it is a matrix product, convolution or attention;
        other ops cost nothing. ``"fused"``: as ``"time"``, but element-wise ops that a compiler
        fuses into all their readers cost the bytes that they read
        (:func:`cpplan.io.torch.training.work.fused_of`). Or a function
        ``cost(node, operations, nbytes)``.
    workspaces
        True to count the bytes that kernels allocate beside their results, by running every op once
        for each shape (CPU). ``None``: true if ops will run in the plan's order, and under inductor
        for the kernels that it does not write itself.
    measure
        True to measure the peak of the first step (CPU) by the allocator's events.
    on_infeasible
        If no schedule within the limit is found: ``"error"`` raises, ``"best"`` takes the schedule
        of least peak, with a warning. If left out, it is ``"best"`` for a share, since a graph of a
        few ops, as after a graph break, may not get by with less; else ``"error"``.
    fallback
        If a graph cannot be planned: ``"error"`` raises, ``"eager"`` runs it without a plan.
    cache
        Folder of plans; ``None`` for ``CPPLAN_CACHE`` or the user's cache folder, ``False`` for no
        folder.
    seed, workers
        Seed and number of threads of the search.
    progress
        ``True`` writes the best peak so far to stderr while a graph is planned, ``False`` nothing;
        ``None`` writes it where stderr is a terminal. Or a function of each
        :class:`~cpplan.model.plan_data.Progress`.

    Examples
    --------
    >>> read_settings({"memory_limit": "1 MiB"}).memory_limit
    1048576
    """

    memory_limit: int | str | None = None
    cost_limit: float | None = None
    time_limit: float = 30
    deterministic: bool = False
    resident: str = "count"
    cost: Work | str = "time"
    workspaces: bool | None = None
    measure: bool = True
    on_infeasible: str = "error"
    fallback: str = "error"
    cache: Path | bool | None = None
    seed: int = 0
    workers: int = 1
    progress: Callable[[Progress], None] | bool | None = None


def read_settings(options: Mapping[str, Any] | None) -> Settings:
    """Settings from options.

    Raises
    ------
    InputError
        If an option is unknown, or its value is not understood; names it.
    """
    given = dict(options or {})
    known = [field.name for field in fields(Settings)]
    for name in given:
        if name not in known:
            raise InputError(f"option {name!r} is unknown: expected one of {', '.join(known)}")
    limit = given.get("memory_limit")
    if limit is not None and not is_share(limit):
        given["memory_limit"] = parse_bytes(limit)
    most = given.get("cost_limit")
    if most is not None and not (_is_number(most) and 1 <= most < math.inf):
        raise InputError(f"cost_limit must be at least 1, not {most!r}")
    seconds = given.get("time_limit", 1)
    if not (_is_number(seconds) and seconds > 0):
        raise InputError(f"time_limit must be a positive number of seconds, not {seconds!r}")
    for name, choices in _CHOICES.items():
        if name in given and given[name] not in choices:
            raise not_understood(f"{name}={given[name]!r}", given[name], choices)
    cost = given.get("cost", "time")
    if not (callable(cost) or cost in WORKS):
        raise InputError(
            f"cost={cost!r} is not understood: expected {', '.join(WORKS)}, or a function of node, "
            "operations and bytes"
        )
    _check_others(given)
    if isinstance(given.get("cache"), (str, PathLike)):
        given["cache"] = Path(given["cache"])
    given.setdefault(
        "on_infeasible", "best" if isinstance(given.get("memory_limit"), str) else "error"
    )
    return Settings(**given)


def _check_others(given: Mapping[str, Any]) -> None:
    """Raise if a switch is no boolean, a number no integer, or the cache no folder."""
    for name in ("deterministic", "measure", "workspaces"):
        value = given.get(name, False)
        if not (isinstance(value, bool) or (value is None and name == "workspaces")):
            raise InputError(f"{name} must be True or False, not {value!r}")
    progress = given.get("progress")
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise InputError(f"progress must be True, False or a function, not {progress!r}")
    for name, least in (("workers", 1), ("seed", 0)):
        value = given.get(name, least)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise InputError(f"{name} must be an integer, at least {least}, not {value!r}")
    cache = given.get("cache")
    if not (cache is None or isinstance(cache, (bool, str, PathLike))):
        raise InputError(f"cache must be a folder, or False for none, not {cache!r}")


def limit_in(settings: Settings, unplanned: int, *, trains: bool = True) -> int | None:
    """Memory limit in bytes, for a step that needs ``unplanned`` bytes without a plan."""
    limit = settings.memory_limit
    if isinstance(limit, str) and not trains:
        return None
    if isinstance(limit, str):
        return math.floor(parse_share(limit) * unplanned)
    return limit


def is_missed(limit: int | None, peak: int | None) -> bool:
    """True if a peak exceeds a limit by more than a hundredth of the limit."""
    return limit is not None and peak is not None and peak - limit > TOLERANCE * limit


def breaks_limit(settings: Settings, limit: int | None, peak: int) -> bool:
    """True if a plan's peak exceeds a limit: in bytes at all, as a share by more than 1 %."""
    if isinstance(settings.memory_limit, str):
        return is_missed(limit, peak)
    return limit is not None and peak > limit


def work_in(settings: Settings) -> Work:
    """Function that gives the work of an op, by the settings."""
    return WORKS[settings.cost] if isinstance(settings.cost, str) else settings.cost


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
