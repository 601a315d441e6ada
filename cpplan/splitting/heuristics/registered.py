"""Registry of splitting rules by name: each returns how the regions of a program run.

A rule takes a :class:`~cpplan.splitting.problem.SplitProblem`, a limit on the cost of all runs and
a :class:`~cpplan.runtime.deadline.Deadline`. It returns
:class:`~cpplan.splitting.schedule.RegionRuns` that cover all steps in turn, or ``None`` if it
splits nothing. ``register`` adds one::

    from cpplan.splitting.heuristics import register

    @register("mine")
    def mine(problem, most_cost, deadline): ...
"""

from __future__ import annotations

from collections.abc import Callable

from cpplan.model.registry import Registry
from cpplan.runtime.deadline import Deadline
from cpplan.splitting.frontier import Estimates, Frontier
from cpplan.splitting.problem import SplitProblem
from cpplan.splitting.schedule import RegionRuns, run_choice

Rule = Callable[[SplitProblem, float, Deadline], "list[RegionRuns] | None"]

_REGISTRY: Registry[Rule] = Registry("a splitting rule", "splitting rule")

register, unregister = _REGISTRY.register, _REGISTRY.remove
get, names = _REGISTRY.get, _REGISTRY.names


def least_peak(
    problem: SplitProblem, estimates: Estimates, most_cost: float, deadline: Deadline
) -> list[RegionRuns] | None:
    """The division of least peak within a cost, by dynamic programming over the given styles.

    Among divisions of the same peak, the one with the fewest pieces is returned.
    """
    frontier = Frontier(problem, deadline, estimates=(estimates,))
    fits = [found for found in frontier.divisions() if found.cost <= most_cost]
    if not fits:
        return None
    few = [found for found in frontier.lightest(fits[-1].peak) if found.cost <= most_cost]
    best = min(few, key=lambda found: found.weight, default=fits[-1])
    return [run_choice(problem, choice) for choice in best.choices]
