"""Baselines that a user can name, and a place to add one's own.

A heuristic takes a :class:`~cpplan.model.problem.Problem` and a
:class:`~cpplan.runtime.deadline.Deadline` and
returns one offset a row, in bytes, shape ``(n,)``. It keeps alignments and fixed offsets and lets
no two buffers overlap; the caller checks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from cpplan.model.problem import Ints, Problem
from cpplan.model.registry import Registry
from cpplan.packing.tuning import active
from cpplan.runtime.deadline import Deadline


class Heuristic(Protocol):
    """Anything callable like this is a heuristic."""

    def __call__(self, problem: Problem, deadline: Deadline, /) -> Ints: ...


_REGISTRY: Registry[Heuristic] = Registry("a heuristic", "algorithm")
_PUBLISHED: set[str] = set()
# What ``solve`` tries, one after another until the bound is met: first what is quick also where
# there are very many buffers, then what most often ends it.
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
    """Make a heuristic known to ``compare`` by a name.

    Parameters
    ----------
    name
        By which users ask for it.
    portfolio
        Whether ``solve`` tries it too.
    as_published
        Whether it may break the rules, as what it repeats does.

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
    """Forget a heuristic.

    Raises
    ------
    InputError
        If there is none of that name; lists the known ones.
    """
    _REGISTRY.remove(name)
    _PUBLISHED.discard(name)
    for names in (_PORTFOLIO, _PORTFOLIO_OF_MANY):
        if name in names:
            names.remove(name)


get = _REGISTRY.get


def names(*, as_published: bool = True) -> tuple[str, ...]:
    """All registered names, built-in ones first; on request without those that break rules.

    Examples
    --------
    >>> import cpplan.packing.heuristics
    >>> sorted(set(names()) - set(names(as_published=False)))
    ['usmp_greedy_by_conflicts', 'usmp_greedy_by_size', 'usmp_hill_climb']
    """
    return tuple(name for name in _REGISTRY.names() if as_published or name not in _PUBLISHED)


def portfolio(buffers: int = 0) -> tuple[str, ...]:
    """Names that ``solve`` tries on a number of buffers, in this order.

    Those for many buffers need the loops of ``cpplan.packing.loops.MANY_BUFFERS``.

    Examples
    --------
    >>> portfolio(10)[0], portfolio(10_000)
    ('first_fit', ('segregated_fit', 'fullest_first'))
    """
    return tuple(_PORTFOLIO if buffers < active().many_buffers else _PORTFOLIO_OF_MANY)
