"""CP-SAT models that look at the clock while they are built.

Python builds a model at about a million literals a second, and without a solver there is nobody to
end it. So a model asks, now and then, whether it may go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ortools.sat.python import cp_model

# Between two questions: variables, constraints and hints added.
_EVERY = 64


def _go_on() -> None:
    """Nobody asks."""


_POLL: ContextVar[Callable[[], None]] = ContextVar("poll", default=_go_on)


@contextmanager
def polling(poll: Callable[[], None]) -> Iterator[None]:
    """Let models that are built within call ``poll`` now and then; it may raise to end the build.

    Examples
    --------
    >>> def refuse():
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


def poll() -> None:
    """Ask whether to go on, where much is computed between two constraints."""
    _POLL.get()()


class PolledModel(cp_model.CpModel):
    """A model that asks at every 64th variable, constraint or hint whether to go on.

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
            poll()

    def new_int_var(self, *args: Any, **options: Any) -> cp_model.IntVar:
        """A variable of an interval of integers, as ``CpModel`` makes it."""
        self._count()
        return super().new_int_var(*args, **options)

    def new_bool_var(self, *args: Any, **options: Any) -> cp_model.IntVar:
        """A variable of the values 0 and 1, as ``CpModel`` makes it."""
        self._count()
        return super().new_bool_var(*args, **options)

    def add(self, *args: Any, **options: Any) -> Any:
        """A linear constraint, as ``CpModel`` makes it."""
        self._count()
        return super().add(*args, **options)

    def add_at_most_one(self, *args: Any, **options: Any) -> Any:
        """At most one literal is true, as ``CpModel`` makes it."""
        self._count()
        return super().add_at_most_one(*args, **options)

    def add_implication(self, *args: Any, **options: Any) -> Any:
        """One literal implies another, as ``CpModel`` makes it."""
        self._count()
        return super().add_implication(*args, **options)

    def add_no_overlap_2d(self, *args: Any, **options: Any) -> Any:
        """Rectangles lie apart, as ``CpModel`` makes it."""
        self._count()
        return super().add_no_overlap_2d(*args, **options)
