"""CP-SAT on the gaps of one order."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from cpplan.model.spill_problem import Flags, SpillProblem
from cpplan.runtime.budget import Budget
from cpplan.runtime.build_in_time import build_in_time

if TYPE_CHECKING:
    from formulations.spilling import SpillModel

# Seconds more for each pair of a gap and a step that is too full if all gaps are kept.
_SOLVER_SECONDS_A_PAIR = 3e-7
# Least seconds left for which these are begun: loading their solvers takes almost as long.
_SOLVER_SECONDS = 0.4


def make_model(problem: SpillProblem, budget: Budget) -> SpillModel | None:
    """The constraint model of a problem, or ``None`` if it is not built in time."""
    from formulations.spilling import build

    return build_in_time(lambda: build(problem), budget.deadline)


def seconds_to_begin(problem: SpillProblem) -> float:
    """Seconds that solvers take, about, until they have begun with the model of a problem.

    They look at every pair of a gap and a step that is too full if all gaps are kept.
    """
    load = problem.load(problem.all_kept())
    before = np.concatenate([[0], np.cumsum(load > problem.capacity)])
    pairs = int((before[problem.gap_upper] - before[problem.gap_lower]).sum())
    return _SOLVER_SECONDS + _SOLVER_SECONDS_A_PAIR * pairs


def search_gaps(
    problem: SpillProblem,
    start: Flags | None,
    budget: Budget,
    *,
    proved: Callable[[int], None] = lambda bound: None,
) -> Flags | None:
    """Gaps kept by the cheapest solution found within the budget, or ``None`` if none was found.

    Parameters
    ----------
    problem
        The problem.
    start
        A solution to start from.
    budget
        Budget for building and solving the model.
    proved
        Function that is called with each bound on the cost of moves.
    """
    from cpplan.runtime.cp_sat_run import run_model

    model = make_model(problem, budget)
    if model is None:
        return None
    if start is not None:
        model.hint(start)
    best: Flags | None = None

    def found(kept: Flags) -> None:
        nonlocal best
        if best is None or problem.paid(kept).sum() < problem.paid(best).sum():
            best = kept

    run_model(model, budget, found=found, proved=proved, linearization=2)
    return best
