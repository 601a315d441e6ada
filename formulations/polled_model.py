"""CP-SAT models that can be interrupted while they are built.

Python adds about a million literals a second to a model, and during the build no solver runs that
could stop at the deadline. So a model calls a function from time to time, which may raise to end
the build.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ortools.sat.python import cp_model

# Variables, constraints and hints added between two calls.
_EVERY = 64


def _go_on(rows: int) -> None:
    """Do nothing: outside :func:`polling` a build is never interrupted."""


_POLL: ContextVar[Callable[[int], None]] = ContextVar("poll", default=_go_on)


@contextmanager
def polling(poll: Callable[[int], None]) -> Iterator[None]:
    """Let models built in this context call ``poll`` regularly; it may raise to end the build.

    It is told the number of variables, constraints and hints added since the last call.

    Examples
    --------
    >>> def refuse(rows):
    ...     raise TimeoutError
    >>> with polling(refuse):
    ...     model = PolledModel()
    ...     variables = [model.new_bool_var("") for _ in range(1000)]
    Traceback (most recent call last):
    ...
    TimeoutError
    """
    token = _POLL.set(poll)
    try:
        yield
    finally:
        _POLL.reset(token)


def poll(rows: int = 0) -> None:
    """Call the function given to :func:`polling`, from code that computes between constraints."""
    _POLL.get()(rows)


class PolledModel(cp_model.CpModel):
    """A CP-SAT model that calls :func:`poll` at every 64th variable, constraint or hint.

    Examples
    --------
    >>> model = PolledModel()
    >>> x = model.new_bool_var("x")
    >>> len(model.proto.variables)
    1
    """

    def __init__(self) -> None:
        super().__init__()
        self._added = 0

    def _count(self) -> None:
        self._added += 1
        if self._added % _EVERY == 0:
            poll(_EVERY)

    def new_int_var(self, *args: Any, **options: Any) -> cp_model.IntVar:
        """Add an integer variable, as ``CpModel`` does."""
        self._count()
        return super().new_int_var(*args, **options)

    def new_bool_var(self, *args: Any, **options: Any) -> cp_model.IntVar:
        """Add a Boolean variable, as ``CpModel`` does."""
        self._count()
        return super().new_bool_var(*args, **options)

    def add(self, *args: Any, **options: Any) -> Any:
        """Add a linear constraint, as ``CpModel`` does."""
        self._count()
        return super().add(*args, **options)

    def add_at_most_one(self, *args: Any, **options: Any) -> Any:
        """Add a constraint that at most one literal is true, as ``CpModel`` does."""
        self._count()
        return super().add_at_most_one(*args, **options)

    def add_implication(self, *args: Any, **options: Any) -> Any:
        """Add an implication between two literals, as ``CpModel`` does."""
        self._count()
        return super().add_implication(*args, **options)

    def add_no_overlap_2d(self, *args: Any, **options: Any) -> Any:
        """Add a constraint that rectangles are disjoint, as ``CpModel`` does."""
        self._count()
        return super().add_no_overlap_2d(*args, **options)
