"""Tasks: each is a model under a setting, with the key that a stored row must have."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cpplan.batches.content_digest import digest_value
from cpplan.batches.model_entry import Model
from cpplan.batches.setting import Setting
from cpplan.model.byte_sizes import parse_bytes
from cpplan.model.errors import InputError
from cpplan.model.version import __version__

# Longest time limit, seconds: the system waits for at most 2**31 milliseconds.
_MOST_SECONDS = 1_000_000


@dataclass(frozen=True)
class Limits:
    """Limits of a task; ``None`` means no limit.

    Attributes
    ----------
    seconds
        Clock time from the start of the task's process to its end. It includes reading the model
        and checking the plan, which the setting's ``time_limit`` does not.
    memory
        Most bytes of data of the task's process.
    """

    seconds: float | None = None
    memory: int | None = None


@dataclass(frozen=True)
class Task:
    """A model under a setting.

    Attributes
    ----------
    key
        Digest of all that the row depends on: content, setting, baselines, limits, version.
    """

    model: Model
    setting: Setting
    baselines: tuple[str, ...]
    limits: Limits
    key: str
    version: str = __version__


def make_tasks(
    models: list[Model], settings: list[Setting], baselines: tuple[str, ...], limits: Limits
) -> list[Task]:
    """Tasks for every model under every setting, model by model."""
    tasks = []
    for model in models:
        content = model.digest()
        for setting in settings:
            names = model.name, setting.name
            rest = setting.plain, baselines, limits, __version__
            key = digest_value((names, content, rest))[:32]
            tasks.append(Task(model, setting, baselines, limits, key))
    return tasks


def make_limits(seconds: float | None, memory: int | str | None) -> Limits:
    """Limits from a number of seconds and a byte count as people write them."""
    if seconds is not None and (
        isinstance(seconds, bool)
        or not isinstance(seconds, (int, float))
        or not 0 < seconds < math.inf
    ):
        raise InputError(f"task_seconds must be positive, not {seconds!r}")
    if seconds is not None and seconds > _MOST_SECONDS:
        raise InputError(f"task_seconds must be at most {_MOST_SECONDS}, not {seconds!r}")
    return Limits(seconds, None if memory is None else parse_bytes(memory))
