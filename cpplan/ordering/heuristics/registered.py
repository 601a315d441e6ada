"""Constructive orders that a user can name, and a place to add one's own.

A constructive order takes an :class:`~cpplan.model.order_problem.OrderProblem` and a
:class:`~cpplan.runtime.deadline.Deadline` and returns every op once, after its predecessors: an
array of op numbers, shape ``(ops,)``. The order may have any peak; the caller measures it.
``register`` adds a constructive order.

Examples
--------
>>> import numpy as np
>>> @register("as_numbered")
... def as_numbered(problem, deadline):
...     return np.arange(len(problem))
>>> "as_numbered" in names()
True
>>> unregister("as_numbered")
"""

from __future__ import annotations

from typing import Protocol

from cpplan.model.order_problem import OrderProblem
from cpplan.model.problem import Ints
from cpplan.model.registry import Registry
from cpplan.runtime.deadline import Deadline


class Order(Protocol):
    """Anything callable like this is a constructive order."""

    def __call__(self, problem: OrderProblem, deadline: Deadline, /) -> Ints: ...


_REGISTRY: Registry[Order] = Registry("an order", "order")

# The built-in orders are registered from the cheapest to the most expensive.
register, unregister = _REGISTRY.register, _REGISTRY.remove
get, names = _REGISTRY.get, _REGISTRY.names
