"""Rematerialization baselines that a user can name, and a place to add one's own.

A baseline takes a :class:`~cpplan.remat.problem.RematProblem`, a limit in bytes and a
:class:`~cpplan.deadline.Deadline`, and returns a sequence of units within the limit, or ``None`` if
it finds none. All start from the given order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from cpplan.deadline import Deadline
from cpplan.errors import InputError
from cpplan.remat.checkpoints import checkpoint, given_order
from cpplan.remat.eviction import DTR, FARTHEST_USE, evict
from cpplan.remat.problem import RematProblem


class Baseline(Protocol):
    """Anything callable like this is a baseline."""

    def __call__(
        self, problem: RematProblem, limit: int, deadline: Deadline, /
    ) -> tuple[int, ...] | None: ...


_REGISTRY: dict[str, Baseline] = {}
_Registered = TypeVar("_Registered", bound=Baseline)


def register(name: str) -> Callable[[_Registered], _Registered]:
    """Make a baseline known under ``name``.

    Raises
    ------
    InputError
        If the name is taken.

    Examples
    --------
    >>> @register("never_again")
    ... def never_again(problem, limit, deadline):
    ...     order = tuple(range(len(problem)))
    ...     return order if problem.peak(order) <= limit else None
    >>> names()
    ('chen', 'dtr', 'farthest_use', 'never_again')
    >>> unregister("never_again")
    """

    def add(baseline: _Registered) -> _Registered:
        if name in _REGISTRY:
            raise InputError(f"a rematerialization baseline named {name!r} is already registered")
        _REGISTRY[name] = baseline
        return baseline

    return add


def unregister(name: str) -> None:
    """Forget a baseline. Raises ``InputError`` if there is none of that name."""
    get(name)
    del _REGISTRY[name]


def get(name: str) -> Baseline:
    """The baseline of that name.

    Raises
    ------
    InputError
        If there is none; lists the known ones.
    """
    if name not in _REGISTRY:
        raise InputError(
            f"rematerialization baseline {name!r} is not understood: "
            f"expected one of {', '.join(_REGISTRY)}"
        )
    return _REGISTRY[name]


def names() -> tuple[str, ...]:
    """All registered names, the built-in ones first."""
    return tuple(_REGISTRY)


@register("chen")
def chen(problem: RematProblem, limit: int, deadline: Deadline) -> tuple[int, ...] | None:
    """Segments with checkpoints between them: Chen et al. (2016)."""
    return checkpoint(problem, limit, deadline)


@register("dtr")
def dtr(problem: RematProblem, limit: int, deadline: Deadline) -> tuple[int, ...] | None:
    """Dynamic Tensor Rematerialization's eviction rule: Kirisame et al. (2021)."""
    return evict(problem, given_order(problem), limit, deadline, rule=DTR)


@register("farthest_use")
def farthest_use(problem: RematProblem, limit: int, deadline: Deadline) -> tuple[int, ...] | None:
    """What is used last goes first, large and cheap values before others: after Belady (1966)."""
    return evict(problem, given_order(problem), limit, deadline, rule=FARTHEST_USE)
