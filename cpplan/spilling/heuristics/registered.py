"""Registry of eviction rules by name: each returns the gaps that it keeps.

A rule takes a :class:`~cpplan.spilling.problem.SpillProblem` and a
:class:`~cpplan.runtime.deadline.Deadline`, and returns the gaps kept, shape ``(gaps,)``, or
``None`` if it finds no choice within the capacity. It raises ``TimeUpError`` once the deadline has
passed. ``register`` adds one::

    from cpplan.spilling.heuristics import register

    @register("mine")
    def mine(problem, deadline): ...
"""

from __future__ import annotations

from collections.abc import Callable

from cpplan.model.registry import Registry
from cpplan.model.spill_problem import Flags, SpillProblem
from cpplan.runtime.deadline import Deadline

Eviction = Callable[[SpillProblem, Deadline], "Flags | None"]

_REGISTRY: Registry[Eviction] = Registry("an eviction rule", "eviction rule")

register, unregister = _REGISTRY.register, _REGISTRY.remove
get, names = _REGISTRY.get, _REGISTRY.names
