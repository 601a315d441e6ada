"""Options that every search takes, checked in one place."""

from __future__ import annotations

import math

from cpplan.model.errors import InputError
from cpplan.model.refusals import Refusal

# Called with a request.
ONE_WORKER = Refusal(
    ("deterministic", "workers"),
    "deterministic=True needs workers=1: several finish in no fixed order",
    lambda request: request.deterministic and request.workers not in (None, 1),
)


def check_search_options(
    time_limit: object, workers: object, seed: object, *, deterministic: object
) -> None:
    """Raise for values that are not a time limit, a number of threads or a seed."""
    number = time_limit if isinstance(time_limit, (int, float)) else math.nan
    if isinstance(time_limit, bool) or not number > 0:
        raise InputError(f"time_limit must be a positive number of seconds, not {time_limit!r}")
    if workers is not None and (not _is_integer(workers) or workers < 1):  # type: ignore[operator]
        raise InputError(f"workers must be an integer from 1 on, not {workers!r}")
    if not _is_integer(seed) or not 0 <= seed < 2**31:  # type: ignore[operator]
        raise InputError(f"seed must be an integer from 0 to 2**31 - 1, not {seed!r}")
    if deterministic and workers not in (None, 1):
        raise InputError(ONE_WORKER.message)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
