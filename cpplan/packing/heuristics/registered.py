"""Registry of heuristics that users can name and extend.

A heuristic takes a :class:`~cpplan.model.problem.Problem` and a
:class:`~cpplan.runtime.deadline.Deadline` and returns the offset of every row, bytes, shape
``(n,)``. It keeps alignments and fixed offsets, and no two live buffers overlap; the caller checks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from cpplan.model.problem import Ints, Problem
from cpplan.model.registry import Registry
from cpplan.packing.tuning import active
from cpplan.runtime.deadline import Deadline


class Heuristic(Protocol):
    """Type of a heuristic: any callable with this signature."""

    def __call__(self, problem: Problem, deadline: Deadline, /) -> Ints: ...


_REGISTRY: Registry[Heuristic] = Registry("a heuristic", "algorithm")
_PUBLISHED: set[str] = set()
# Heuristics that ``solve`` tries one after another until the bound is met: first those that are
# quick for many buffers too, then those that most often meet the bound.
_PORTFOLIO = [
    "first_fit",
    "greedy_by_size",
    "lowest_offset_first",
    "greedy_by_breadth",
    "first_fit_by_area",
    "greedy_by_conflicts",
    "first_fit_by_size",
    "first_fit_by_lifetime",
    "best_fit",
]
_PORTFOLIO_OF_MANY = ["segregated_fit", "fullest_first"]


def register(
    name: str, *, portfolio: bool = False, as_published: bool = False
) -> Callable[[Heuristic], Heuristic]:
    """Register a heuristic under a name that ``compare`` and users can give.

    Parameters
    ----------
    name
        Name of the heuristic.
    portfolio
        True if ``solve`` tries it too.
    as_published
        True if its offsets may be invalid, like those of the published planner that it repeats.

    Raises
    ------
    InputError
        If the name is taken.

    Examples
    --------
    >>> import numpy as np
    >>> @register("stack_of_mine")
    ... def stack(problem, deadline):
    ...     return np.cumsum(problem.size) - problem.size
    >>> "stack_of_mine" in names()
    True
    >>> unregister("stack_of_mine")
    """

    def add(heuristic: Heuristic) -> Heuristic:
        _REGISTRY.add(name, heuristic)
        if as_published:
            _PUBLISHED.add(name)
        if portfolio:
            _PORTFOLIO.append(name)
            _PORTFOLIO_OF_MANY.append(name)
        return heuristic

    return add


def unregister(name: str) -> None:
    """Remove a heuristic from the registry.

    Raises
    ------
    InputError
        If no heuristic has that name; the message lists the known ones.
    """
    _REGISTRY.remove(name)
    _PUBLISHED.discard(name)
    for names in (_PORTFOLIO, _PORTFOLIO_OF_MANY):
        if name in names:
            names.remove(name)


get = _REGISTRY.get


def names(*, as_published: bool = True) -> tuple[str, ...]:
    """All registered names, built-in ones first; on request without ``as_published`` ones.

    Examples
    --------
    >>> import cpplan.packing.heuristics
    >>> sorted(set(names()) - set(names(as_published=False)))
    ['usmp_greedy_by_conflicts', 'usmp_greedy_by_size', 'usmp_hill_climb']
    """
    return tuple(name for name in _REGISTRY.names() if as_published or name not in _PUBLISHED)


def portfolio(buffers: int = 0) -> tuple[str, ...]:
    """Names of the heuristics that ``solve`` tries on a number of buffers, in order.

    The heuristics for many buffers need the loops ``cpplan.packing.loops.MANY_BUFFERS``.
    """
    return tuple(_PORTFOLIO if buffers < active().many_buffers else _PORTFOLIO_OF_MANY)
