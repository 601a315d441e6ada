"""Constructive orders that a user can name, and a place to add one's own.

A constructive order takes an :class:`~cpplan.ordering.problem.OrderProblem` and a
:class:`~cpplan.runtime.deadline.Deadline` and returns every op once, after its predecessors: an
array of
op numbers, shape ``(ops,)``. It says nothing about how good the order is; the caller checks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from cpplan.model.problem import Ints
from cpplan.model.registry import Registry
from cpplan.ordering.problem import OrderProblem
from cpplan.runtime.deadline import Deadline


class Order(Protocol):
    """Anything callable like this is a constructive order."""

    def __call__(self, problem: OrderProblem, deadline: Deadline, /) -> Ints: ...


_REGISTRY: Registry[Order] = Registry("an order", "order")
_Registered = TypeVar("_Registered", bound=Order)


def register(name: str) -> Callable[[_Registered], _Registered]:
    """Make an order known under ``name``.

    Raises
    ------
    InputError
        If the name is taken.

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

    def add(order: _Registered) -> _Registered:
        _REGISTRY.add(name, order)
        return order

    return add


# Of the built-in ones, the cheapest are first.
unregister, get, names = _REGISTRY.remove, _REGISTRY.get, _REGISTRY.names
