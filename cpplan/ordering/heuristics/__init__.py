"""Constructive orders that a user can name; importing this registers the built-in ones.

To add one, see :func:`register` and :mod:`cpplan.ordering.heuristics.registered`.
"""

from __future__ import annotations

from cpplan.ordering.heuristics import (
    by_depth,
    by_net_change,
    by_width,
)
from cpplan.ordering.heuristics.registered import Order, get, names, register, unregister

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
