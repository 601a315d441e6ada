"""Building of models within a deadline."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from cpplan.runtime.deadline import Deadline, TimeUpError

T = TypeVar("T")


def build_in_time(build: Callable[[], T], deadline: Deadline) -> T | None:
    """The model that ``build`` makes, or ``None`` if time is up before it is made."""
    from formulations.polled_model import polling

    try:
        with polling(deadline.check):
            return build()
    except TimeUpError:
        return None
