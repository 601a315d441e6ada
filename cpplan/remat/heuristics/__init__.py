"""Registry of the rematerialization baselines, to which users can add their own.

A baseline takes a :class:`~cpplan.model.remat_problem.RematProblem`, a limit in bytes and a
:class:`~cpplan.runtime.deadline.Deadline`, and returns a schedule of units within the limit, or
``None`` if it finds none. All keep the given order of first runs. ``given_order`` and
``chen_sqrt_n`` ignore the limit: their schedules may exceed it. ``register`` adds one.

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

from __future__ import annotations

from typing import Protocol

from cpplan.model.registry import Registry
from cpplan.model.remat_problem import RematProblem
from cpplan.remat.heuristics import checkpoints
from cpplan.remat.heuristics.checkmate import cheapest_staged, round_relaxation
from cpplan.remat.heuristics.eviction import evict
from cpplan.runtime.deadline import Deadline


class Baseline(Protocol):
    """A rematerialization baseline: a callable with this signature."""

    def __call__(
        self, problem: RematProblem, limit: int, deadline: Deadline, /
    ) -> tuple[int, ...] | None: ...


_REGISTRY: Registry[Baseline] = Registry(
    "a rematerialization baseline", "rematerialization baseline"
)

register, unregister = _REGISTRY.register, _REGISTRY.remove
get, names = _REGISTRY.get, _REGISTRY.names


@register("given_order")
def given_order(problem: RematProblem, limit: int, deadline: Deadline) -> tuple[int, ...] | None:
    """Schedule of every unit once, whatever the limit."""
    return checkpoints.given_order(problem)


@register("chen_sqrt_n")
def chen_sqrt_n(problem: RematProblem, limit: int, deadline: Deadline) -> tuple[int, ...] | None:
    """Schedule of √units segments between checkpoints, ignoring the limit: Chen et al. (2016)."""
    return checkpoints.square_root_segments(problem)


@register("chen")
def chen(problem: RematProblem, limit: int, deadline: Deadline) -> tuple[int, ...] | None:
    """Schedule by segments like ``chen_sqrt_n``, with the cheapest number within the limit."""
    return checkpoints.checkpoint(problem, limit, deadline)


@register("dtr")
def dtr(problem: RematProblem, limit: int, deadline: Deadline) -> tuple[int, ...] | None:
    """Schedule by Dynamic Tensor Rematerialization's eviction rule: Kirisame et al. (2021)."""
    return evict(problem, checkpoints.given_order(problem), limit, deadline, ahead=False)


@register("farthest_use")
def farthest_use(problem: RematProblem, limit: int, deadline: Deadline) -> tuple[int, ...] | None:
    """Schedule by eviction of values used farthest ahead, large and cheap ones first (Belady)."""
    return evict(problem, checkpoints.given_order(problem), limit, deadline)


@register("checkmate_lp")
def checkmate_lp(problem: RematProblem, limit: int, deadline: Deadline) -> tuple[int, ...] | None:
    """Schedule by rounding Checkmate's relaxation, up to about 250 units: Jain et al. (2020)."""
    return round_relaxation(problem, limit, checkpoints.given_order(problem), deadline)


@register("checkmate_milp")
def checkmate_milp(problem: RematProblem, limit: int, deadline: Deadline) -> tuple[int, ...] | None:
    """Schedule by Checkmate's integer program, up to about 130 units: Jain et al. (2020)."""
    return cheapest_staged(problem, limit, checkpoints.given_order(problem), deadline)
