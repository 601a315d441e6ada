"""The cheapest of Checkmate's schedules, by its mixed-integer program."""

from __future__ import annotations

from collections.abc import Sequence

from cpplan.model.remat_problem import RematProblem
from cpplan.runtime.deadline import Deadline, TimeUpError

# Most variables of the integer program: above about 130 units.
_MILP_VARIABLES = 60_000
# The solver may exceed a limit by this share of it; the limit is then lowered by the same share.
_TOLERANCE = 1e-5
# Nodes in a second, about, for deadlines that count work.
_RATE = 10


def cheapest_staged(
    problem: RematProblem, limit: int, order: Sequence[int], deadline: Deadline
) -> tuple[int, ...] | None:
    """The best schedule found within ``limit`` bytes; ``None`` if there is none.

    ``formulations.checkmate`` describes the schedules of the model. ``None`` is also returned if
    the model has more variables than ``_MILP_VARIABLES``: above about 130 units.

    Parameters
    ----------
    order
        All units, in the order of their first runs. It is returned if it is within the limit.

    Raises
    ------
    TimeUpError
        If the deadline passes before a schedule is found or proved not to exist.
    """
    from formulations.checkmate import build, count_variables

    units = tuple(order)
    if problem.peak(units) <= limit:
        return units
    if not units or count_variables(problem, units) > _MILP_VARIABLES:
        return None
    for margin in (0.0, _TOLERANCE):
        deadline.check()
        checkmate = build(problem, memory_limit=limit, order=units)
        checkmate.lower_limit(limit * (1 - margin))
        solver = checkmate.solver
        if deadline.deterministic:
            nodes = max(1, int(_RATE * min(deadline.remaining(), 1e6)))
            solver.SetSolverSpecificParametersAsString(f"limits/totalnodes = {nodes}")
        elif not deadline.endless:
            solver.SetTimeLimit(max(1, int(1000 * min(deadline.remaining(), 1e9))))
        status = solver.Solve()
        deadline.spend(solver.nodes() / _RATE)
        if status == solver.INFEASIBLE:
            return None
        if status not in (solver.OPTIMAL, solver.FEASIBLE):
            raise TimeUpError
        schedule = checkmate.extract()
        if problem.peak(schedule) <= limit:
            return schedule
    return None
