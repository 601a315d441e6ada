"""Registry of eviction rules by name: each returns the gaps that it keeps.

A rule takes a :class:`~cpplan.spilling.problem.SpillProblem` and a
:class:`~cpplan.runtime.deadline.Deadline`, and returns the gaps kept, shape ``(gaps,)``, or
``None`` if it finds no way to stay within the capacity. It raises ``TimeUpError`` once the deadline
has passed. ``register`` adds one::

    from cpplan.spilling.heuristics import register

    @register("mine")
    def mine(problem, deadline): ...
"""

from __future__ import annotations

from collections.abc import Callable

from cpplan.model.registry import Registry
from cpplan.runtime.deadline import Deadline
from cpplan.spilling.problem import Flags, SpillProblem

Eviction = Callable[[SpillProblem, Deadline], "Flags | None"]

_REGISTRY: Registry[Eviction] = Registry("an eviction rule", "eviction rule")


def register(name: str) -> Callable[[Eviction], Eviction]:
    """Register the decorated rule under ``name``.

    Raises
    ------
    InputError
        If the name is taken.
    """

    def add(rule: Eviction) -> Eviction:
        _REGISTRY.add(name, rule)
        return rule

    return add


def unregister(name: str) -> None:
    """Remove the rule of that name."""
    _REGISTRY.remove(name)


def get(name: str) -> Eviction:
    """The rule of that name.

    Raises
    ------
    InputError
        If there is none; lists the known ones.
    """
    return _REGISTRY.get(name)


def names() -> tuple[str, ...]:
    """All names, the built-in ones first."""
    return _REGISTRY.names()
