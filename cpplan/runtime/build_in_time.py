"""Building of models within a deadline."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from cpplan.runtime.deadline import Deadline, TimeUpError

# Approximate seconds to build and presolve a model, for each variable and constraint.
_SECONDS_PER_ROW = 1.5e-5

T = TypeVar("T")


def build_in_time(build: Callable[[], T], deadline: Deadline) -> T | None:
    """The model that ``build`` makes, or ``None`` if time is up before it is made."""
    from formulations.polled_model import polling

    try:
        with polling(lambda rows: deadline.check(rows * _SECONDS_PER_ROW)):
            return build()
    except TimeUpError:
        return None
