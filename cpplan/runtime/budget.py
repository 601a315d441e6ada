"""Budgets of searches: time, threads, random seed and tuning."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache
from types import MappingProxyType
from typing import Any, TypeVar, cast

from cpplan.runtime.cores import available_cores
from cpplan.runtime.deadline import Deadline
from cpplan.runtime.search_options import check_search_options

_Room = TypeVar("_Room")


@dataclass(frozen=True, slots=True)
class Tuning:
    """Thresholds and shares of the budget, one frozen dataclass a room.

    A room defines its dataclass in ``cpplan/<room>/tuning.py`` (``PackingTuning``), with a default
    for every field. Code with a budget reads it as ``budget.tuned(PackingTuning).rounds``; other
    code calls :func:`tuned`, which reads the tuning in use.

    Attributes
    ----------
    rooms
        Type of a room's dataclass -> the dataclass; rooms left out have their defaults.
    """

    rooms: Mapping[type, Any] = field(default_factory=lambda: MappingProxyType({}))

    def of(self, room: type[_Room]) -> _Room:
        """The active dataclass of a room, given its type."""
        found: _Room | None = self.rooms.get(room)
        return cast("_Room", _default(cast("Any", room))) if found is None else found


@cache
def _default(room: Callable[[], Any]) -> Any:
    """The dataclass of a room with every field at its default; cached, since it is frozen."""
    return room()


_in_use: ContextVar[Tuning] = ContextVar("tuning")
_DEFAULTS = Tuning()


def tuning_in_use() -> Tuning:
    """The tuning of the innermost :func:`using` block, or all defaults outside of any."""
    return _in_use.get(_DEFAULTS)


def tuned(room: type[_Room]) -> _Room:
    """The dataclass of a room in the tuning in use."""
    return tuning_in_use().of(room)


@contextmanager
def using(tuning: Tuning) -> Iterator[None]:
    """Context in which :func:`tuned` reads this tuning; threads need a copy of the context."""
    token = _in_use.set(tuning)
    try:
        yield
    finally:
        _in_use.reset(token)


@dataclass(frozen=True, slots=True)
class Budget:
    """Time, threads, random seed and tuning of a search, which travel together.

    Attributes
    ----------
    deadline
        Deadline at which the search ends.
    workers
        Number of threads.
    seed
        Seed of the random choices.
    tuning
        Tuning of every room.
    """

    deadline: Deadline
    workers: int = 1
    seed: int = 0
    tuning: Tuning = field(default_factory=Tuning)

    def share(self, part: float) -> Budget:
        """The budget of one stage: this share of the time left, with all other fields the same."""
        return replace(self, deadline=self.deadline.share(part))

    def until(self, deadline: Deadline) -> Budget:
        """The budget with another deadline."""
        return replace(self, deadline=deadline)

    def reseeded(self, turn: int) -> Budget:
        """The budget with the seed of a later turn, so that it makes other random choices."""
        return replace(self, seed=self.seed + turn)

    def on_one_thread(self) -> Budget:
        """The budget with one worker."""
        return replace(self, workers=1)

    def tuned(self, room: type[_Room]) -> _Room:
        """The active thresholds and shares of a room: see :meth:`Tuning.of`."""
        return self.tuning.of(room)


def make_budget(
    time_limit: float,
    workers: int | None = None,
    seed: int = 0,
    *,
    deterministic: bool = False,
    tuning: Tuning | None = None,
) -> Budget:
    """The budget of a whole run, from a user's options; its time starts now.

    ``workers`` is 1 by default if ``deterministic``, else the number of cores.
    """
    check_search_options(time_limit, workers, seed, deterministic=deterministic)
    threads = 1 if deterministic else workers or available_cores()
    deadline = Deadline(time_limit, deterministic=deterministic)
    return Budget(deadline, threads, seed, Tuning() if tuning is None else tuning)
