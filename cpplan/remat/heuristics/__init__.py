"""Rematerialization baselines that a user can name, and a place to add one's own.

A baseline takes a :class:`~cpplan.remat.problem.RematProblem`, a limit in bytes and a
:class:`~cpplan.runtime.deadline.Deadline`, and returns a sequence of units within the limit, or
``None`` if
it finds none. All keep the given order of first runs. ``given_order`` and ``chen_sqrt_n`` look at
no limit: what they return may exceed it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from cpplan.model.registry import Registry
from cpplan.remat.heuristics import checkpoints
from cpplan.remat.heuristics.eviction import DTR, FARTHEST_USE, evict
from cpplan.remat.heuristics.lp_rounding import round_relaxation
from cpplan.remat.heuristics.staged_optimum import cheapest_staged
from cpplan.remat.problem import RematProblem
from cpplan.runtime.deadline import Deadline


class Baseline(Protocol):
    """Anything callable like this is a baseline."""

    def __call__(
        self, problem: RematProblem, limit: int, deadline: Deadline, /
    ) -> tuple[int, ...] | None: ...


_REGISTRY: Registry[Baseline] = Registry(
    "a rematerialization baseline", "rematerialization baseline"
)
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
    >>> "never_again" in names()
    True
    >>> unregister("never_again")
    """

    def add(baseline: _Registered) -> _Registered:
        _REGISTRY.add(name, baseline)
        return baseline

    return add


unregister, get, names = _REGISTRY.remove, _REGISTRY.get, _REGISTRY.names


@register("given_order")
def given_order(problem: RematProblem, limit: int, deadline: Deadline) -> tuple[int, ...] | None:
    """Every unit once, whatever the limit."""
    return checkpoints.given_order(problem)


@register("chen_sqrt_n")
def chen_sqrt_n(problem: RematProblem, limit: int, deadline: Deadline) -> tuple[int, ...] | None:
    """√units segments with checkpoints between them, whatever the limit: Chen et al. (2016)."""
    return checkpoints.square_root_segments(problem)


@register("chen")
def chen(problem: RematProblem, limit: int, deadline: Deadline) -> tuple[int, ...] | None:
    """Segments as ``chen_sqrt_n``, but as many as cost least within the limit."""
    return checkpoints.checkpoint(problem, limit, deadline)


@register("dtr")
def dtr(problem: RematProblem, limit: int, deadline: Deadline) -> tuple[int, ...] | None:
    """Dynamic Tensor Rematerialization's eviction rule: Kirisame et al. (2021)."""
    return evict(problem, checkpoints.given_order(problem), limit, deadline, rule=DTR)


@register("farthest_use")
def farthest_use(problem: RematProblem, limit: int, deadline: Deadline) -> tuple[int, ...] | None:
    """What is used last goes first, large and cheap values before others: after Belady (1966)."""
    return evict(problem, checkpoints.given_order(problem), limit, deadline, rule=FARTHEST_USE)


@register("checkmate_lp")
def checkmate_lp(problem: RematProblem, limit: int, deadline: Deadline) -> tuple[int, ...] | None:
    """Checkmate's linear relaxation, rounded: Jain et al. (2020). For up to 250 units or so."""
    return round_relaxation(problem, limit, checkpoints.given_order(problem), deadline)


@register("checkmate_milp")
def checkmate_milp(problem: RematProblem, limit: int, deadline: Deadline) -> tuple[int, ...] | None:
    """Checkmate's mixed-integer program: Jain et al. (2020). For up to 130 units or so."""
    return cheapest_staged(problem, limit, checkpoints.given_order(problem), deadline)
