"""Constructive orders that a user can name, and a place to add one's own.

A constructive order takes an :class:`~cpplan.ordering.OrderProblem` and a
:class:`~cpplan.deadline.Deadline` and returns every op once, after its predecessors: an array of
op numbers, shape ``(ops,)``. It says nothing about how good the order is; the caller checks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from cpplan.deadline import Deadline
from cpplan.errors import InputError
from cpplan.ordering import OrderProblem
from cpplan.problem import Ints


class Order(Protocol):
    """Anything callable like this is a constructive order."""

    def __call__(self, problem: OrderProblem, deadline: Deadline, /) -> Ints: ...


_REGISTRY: dict[str, Order] = {}
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
        if name in _REGISTRY:
            raise InputError(f"an order named {name!r} is already registered")
        _REGISTRY[name] = order
        return order

    return add


def unregister(name: str) -> None:
    """Forget an order."""
    del _REGISTRY[get_name(name)]


def get(name: str) -> Order:
    """The order of that name.

    Raises
    ------
    InputError
        If there is none; lists the known ones.
    """
    return _REGISTRY[get_name(name)]


def get_name(name: str) -> str:
    """``name`` itself if an order bears it."""
    if name not in _REGISTRY:
        raise InputError(
            f"order {name!r} is not understood: expected one of {', '.join(_REGISTRY)}"
        )
    return name


def names() -> tuple[str, ...]:
    """All registered names, the built-in ones first, the cheapest of them first."""
    return tuple(_REGISTRY)


from cpplan.orders import (  # noqa: E402  (they register themselves above)
    by_depth,
    by_net_change,
    by_width,
)

__all__ = [
    "Order",
    "by_depth",
    "by_net_change",
    "by_width",
    "get",
    "names",
    "register",
    "unregister",
]
