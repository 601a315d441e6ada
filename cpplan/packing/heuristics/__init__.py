"""Baselines that a user can name; importing this registers the built-in ones.

To add one, see :func:`register` and :mod:`cpplan.packing.heuristics.registered`.
"""

from __future__ import annotations

from cpplan.packing.heuristics import (
    by_climbing,
    by_lowest_offset,
    by_storage,
    by_usmp,
    fullest_first,
    greedy,
    online_fit,
    segregated_fit,
    size_classes,
)
from cpplan.packing.heuristics.registered import (
    Heuristic,
    get,
    names,
    portfolio,
    register,
    unregister,
)

__all__ = [
    "Heuristic",
    "by_climbing",
    "by_lowest_offset",
    "by_storage",
    "by_usmp",
    "fullest_first",
    "get",
    "greedy",
    "names",
    "online_fit",
    "portfolio",
    "register",
    "segregated_fit",
    "size_classes",
    "unregister",
]
