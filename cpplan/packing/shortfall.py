"""Reasons why a problem does not fit: bytes missing, and buffers live at the fullest step."""

from __future__ import annotations

import numpy as np

from cpplan.model.printable import printable
from cpplan.model.problem import Problem
from cpplan.packing.bounds import Bound

_NAMED = 8


def explain_shortfall(problem: Problem, bound: Bound, best_peak: int, capacity: int) -> str:
    """One-line message about a problem that does not fit.

    Parameters
    ----------
    problem
        The problem as given, before any reduction.
    bound
        The best proved bound.
    best_peak
        The smallest peak found, bytes; above the capacity.
    capacity
        Limit that the plan exceeds, bytes.

    Examples
    --------
    >>> problem = Problem(("a", "b"), lower=[0, 0], upper=[1, 2], size=[4, 8])
    >>> explain_shortfall(problem, Bound(12, "live bytes", 0), 12, 10)
    'does not fit into 10 B: 2 B are missing (live bytes); live at step 0: b (8 B), a (4 B)'
    """
    where = _where(problem, bound)
    if bound.value <= capacity:
        return (
            f"no plan within {capacity} B was found in time: the best needs {best_peak} B, "
            f"{best_peak - capacity} B more; at least {bound.value} B are needed ({bound.name}); "
            f"{where}"
        )
    missing = bound.value - capacity
    return f"does not fit into {capacity} B: {missing} B are missing ({bound.name}); {where}"


def _where(problem: Problem, bound: Bound) -> str:
    """Text on the cause: a buffer that ends at the bound, else those live at the fullest step."""
    ends = problem.size.copy()
    for row, offset in problem.fixed.items():
        ends[row] += offset
    highest = int(np.argmax(ends))
    if bound.step is None and ends[highest] >= bound.value:
        return f"{printable(problem.names[highest])} ends at {ends[highest]} B or higher"
    times, live = problem.live_profile()
    step = bound.step if bound.step is not None else int(times[live.argmax()])
    return live_text(problem, step)


def live_text(problem: Problem, step: int) -> str:
    """Text that lists the buffers live at a step."""
    rows = problem.live_at(step).tolist()
    named = [f"{printable(problem.names[row])} ({problem.size[row]} B)" for row in rows[:_NAMED]]
    if len(rows) > _NAMED:
        named.append(f"and {len(rows) - _NAMED} more")
    return f"live at step {step}: {', '.join(named)}"
