"""CP-SAT on the gaps of one order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cpplan.runtime.budget import Budget
from cpplan.runtime.build_in_time import build_in_time
from cpplan.spilling.problem import Flags, SpillProblem

if TYPE_CHECKING:
    from formulations.spilling import SpillModel


def make_model(
    problem: SpillProblem,
    budget: Budget,
    *,
    upper: int | None = None,
    capacity: Sequence[int] | None = None,
) -> SpillModel | None:
    """The constraint model of a problem, or ``None`` if it is not built in time."""
    from formulations.spilling import build

    return build_in_time(
        lambda: build(problem, upper=upper, capacity=capacity), budget.deadline
    )  # fmt: skip


def search_gaps(
    problem: SpillProblem,
    start: Flags | None,
    budget: Budget,
    *,
    upper: int | None = None,
    capacity: Sequence[int] | None = None,
    proved: Callable[[int], None] = lambda bound: None,
) -> Flags | None:
    """Gaps kept that move the fewest bytes found within the budget, or ``None`` if none was.

    Parameters
    ----------
    problem
        The problem.
    start
        A solution to start from.
    budget
        For building and solving.
    upper
        Only solutions that move fewer bytes are wanted.
    capacity
        Room of the fast pool at each step, if less than the pool has.
    proved
        Called with every bound on the bytes moved, for this capacity and below ``upper``.
    """
    from cpplan.runtime.cp_sat_run import run_model

    model = make_model(problem, budget, upper=upper, capacity=capacity)
    if model is None:
        return None
    if start is not None:
        model.hint(start)
    best: Flags | None = None

    def found(kept: Flags) -> None:
        nonlocal best
        if best is None or problem.paid(kept).sum() < problem.paid(best).sum():
            best = kept

    run_model(
        model,
        budget,
        found=found,
        proved=proved,
        linearization=2,
    )
    return best
