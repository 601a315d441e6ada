"""Settings of planned training: what ``options=`` of ``torch.compile`` takes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any

from cpplan.io.torch.training.work import WORKS, Work
from cpplan.model.byte_sizes import parse_bytes
from cpplan.model.errors import InputError
from cpplan.solving.shares import is_share, parse_share

_CHOICES = {
    "resident": ("count", "outside"),
    "on_infeasible": ("error", "best"),
    "fallback": ("error", "eager"),
}


@dataclass(frozen=True)
class Settings:
    """Settings of planned training.

    Attributes
    ----------
    memory_limit
        Limit on the peak of a step, in bytes or as text (``"2 GiB"``), or a share of the peak that
        each training graph has unplanned (``"60%"``; graphs without gradients are then planned as
        without a limit): least extra work within it.
    cost_limit
        Limit on the work of a step, as a multiple of running every op once (``1.1``): least peak
        within it. Without any limit it is 1: nothing runs again, and the order alone is chosen.
    time_limit
        Seconds for the search, for each graph.
    deterministic
        Count these seconds in work done: the plan does not depend on how busy the machine is.
    resident
        ``"count"``: parameters, buffers and inputs, which are there before and after the step,
        count towards the limit; ``"outside"``: only what the step allocates does, gradients
        included.
    cost
        Work of an op: ``"time"``, the larger of its operations and those done while its bytes move
        (:func:`cpplan.io.torch.training.work.work_of`); ``"operations"`` alone; ``"flops"``:
        those of matrix products, convolutions and attention, all other ops run again for nothing;
        or a function ``cost(node, operations, nbytes)``.
    workspaces
        Run every op once for each shape to count what its kernel allocates beside its results
        (CPU, fixed sizes); ``None``: where the plan's order is the order of execution, and of the
        kernels that inductor does not write itself.
    measure
        Measure the peak of the first step (CPU) with the allocator's own events.
    on_infeasible
        ``"error"`` if no schedule within the limit is found, or ``"best"``: the one of least peak.
    fallback
        ``"error"`` if a graph cannot be planned, or ``"eager"``: run it unplanned.
    cache
        Folder of plans; ``None`` for ``CPPLAN_CACHE`` or the user's cache folder, ``False`` for
        none.
    seed, workers
        For the search.

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
            raise InputError(
                f"{name}={given[name]!r} is not understood: expected one of {', '.join(choices)}"
            )
    cost = given.get("cost", "time")
    if not (callable(cost) or cost in WORKS):
        raise InputError(
            f"cost={cost!r} is not understood: expected {', '.join(WORKS)}, or a function of node, "
            "operations and bytes"
        )
    if isinstance(given.get("cache"), (str, PathLike)):
        given["cache"] = Path(given["cache"])
    return Settings(**given)


def limit_in(settings: Settings, unplanned: int, *, trains: bool = True) -> int | None:
    """The limit of the settings in bytes, if the step needs ``unplanned`` bytes without a plan.

    Parameters
    ----------
    trains
        False for a graph that has no backward pass: shares do not limit it.

    Examples
    --------
    >>> limit_in(Settings(memory_limit="62.5%"), 1000)
    625
    >>> limit_in(Settings(memory_limit="62.5%"), 1000, trains=False) is None
    True
    """
    limit = settings.memory_limit
    if isinstance(limit, str) and not trains:
        return None
    if isinstance(limit, str):
        return math.floor(parse_share(limit) * unplanned)
    return limit


def work_in(settings: Settings) -> Work:
    """The function of the settings that gives the work of an op."""
    return WORKS[settings.cost] if isinstance(settings.cost, str) else settings.cost


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
