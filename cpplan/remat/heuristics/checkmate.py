"""Checkmate's two planners: its mixed-integer program, and the relaxation of it, rounded.

Jain et al., "Checkmate: Breaking the Memory Wall with Optimal Tensor Rematerialization" (MLSys
2020). By section 5, variables for storages retained between stages are rounded at one half, and
decide which units must run again. The rounded schedule may exceed the limit, so that smaller limits
are tried too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cpplan.model.remat_problem import RematProblem
from cpplan.runtime.deadline import Deadline, TimeUpError

if TYPE_CHECKING:
    from formulations.checkmate import CheckmateModel

# Most variables of the linear program: above about 250 units.
_LP_VARIABLES = 200_000
# Value in the linear relaxation from which on a storage is retained.
_LP_THRESHOLD = 0.5
# Share by which the limit is lowered at a time for rounding; Checkmate lowers it once, by a
# tenth.
_LP_STEP = 0.1
# Iterations times rows in a second, about, for deadlines that count work.
_RATE = 3e8
# Most variables of the integer program: above about 130 units.
_MILP_VARIABLES = 60_000
# The solver may exceed a limit by this share of it; the limit is then lowered by the same share.
_TOLERANCE = 1e-5
# Nodes in a second, about, for deadlines that count work.
_MILP_RATE = 10


def round_relaxation(
    problem: RematProblem, limit: int, order: Sequence[int], deadline: Deadline
) -> tuple[int, ...] | None:
    """The cheapest schedule within ``limit`` bytes found by rounding, or ``None``.

    The relaxations within the limit, nine tenths of it, eight tenths, … are rounded, until there is
    no solution. ``None`` is also returned if the model has more variables than
    ``_LP_VARIABLES``: above about 250 units.

    Parameters
    ----------
    order
        All units, in the order of their first runs. It is returned if it is within the limit.

    Raises
    ------
    TimeUpError
        If the deadline passes, or the solver gives up, before the first relaxation is solved.
    """
    from formulations.checkmate import build, count_variables

    units = tuple(order)
    if problem.peak(units) <= limit:
        return units
    if not units or count_variables(problem, units) > _LP_VARIABLES:
        return None
    relaxation = build(problem, memory_limit=limit, order=units, relaxed=True)
    best: tuple[int, ...] | None = None
    for steps in range(round(1 / _LP_STEP)):
        relaxation.lower_limit(limit * (1 - _LP_STEP * steps))
        try:
            solved = solve_relaxation(relaxation, deadline)
        except TimeUpError:
            if not steps:
                raise
            break
        if not solved:
            break
        retained = [
            {t for t, stay in retained.items() if stay.solution_value() >= _LP_THRESHOLD}
            for retained in relaxation.retained
        ]
        schedule = complete(problem, units, retained)
        cheaper = best is None or problem.total_cost(schedule) < problem.total_cost(best)
        if cheaper and problem.peak(schedule) <= limit:
            best = schedule
    return best


def solve_relaxation(relaxation: CheckmateModel, deadline: Deadline) -> bool:
    """True if the relaxation has a solution; it is solved to optimality."""
    deadline.check()
    solver = relaxation.solver
    if not deadline.endless:
        solver.SetTimeLimit(max(1, int(1000 * min(deadline.remaining(), 1e9))))
    status = solver.Solve()
    deadline.spend(solver.iterations() * solver.NumConstraints() / _RATE)
    if status == solver.INFEASIBLE:
        return False
    if status != solver.OPTIMAL:
        raise TimeUpError
    return True


def complete(
    problem: RematProblem, order: Sequence[int], retained: Sequence[set[int]]
) -> tuple[int, ...]:
    """The schedule with the fewest runs for given retained storages. O(units × accesses).

    A storage that is missing when it is needed is computed again, or retained if it cannot be. A
    storage that is retained but not needed is not computed.

    Parameters
    ----------
    order
        All units, in the order of their first runs. Stage t ends with the first run of the t-th.
    retained
        For every storage, the stages before which it is kept from the stage before.
    """
    ordering = problem.ordering
    first = {unit: t for t, unit in enumerate(order)}
    writer: dict[int, int] = {}
    for storage, units in enumerate(ordering.accessed_by):
        if not ordering.present[storage]:
            writer[storage] = min(units, key=first.__getitem__)

    def made(storage: int, t: int) -> bool:
        """True if the storage is computed in stage t when it is needed there."""
        unit = writer.get(storage)
        again = unit is not None and (first[unit] == t or bool(problem.repeatable[unit]))
        return again and t not in retained[storage]

    after = set(ordering.kept.nonzero()[0].tolist())
    stages: list[list[int]] = []
    for t in range(len(order) - 1, -1, -1):
        wanted = {storage for storage in after if made(storage, t)}
        before = after - wanted
        runs: list[int] = []
        for unit in reversed(order[: t + 1]):
            begun = {s for s in ordering.accesses[unit] if writer.get(s) == unit}
            if first[unit] == t or wanted & begun:
                runs.append(unit)
                needed = set(ordering.accesses[unit]) - begun
                wanted |= {storage for storage in needed if made(storage, t)}
                before = (before | (needed - wanted)) - begun
        after = before
        stages.append(runs[::-1])
    return tuple(unit for runs in reversed(stages) for unit in runs)


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
            nodes = max(1, int(_MILP_RATE * min(deadline.remaining(), 1e6)))
            solver.SetSolverSpecificParametersAsString(f"limits/totalnodes = {nodes}")
        elif not deadline.endless:
            solver.SetTimeLimit(max(1, int(1000 * min(deadline.remaining(), 1e9))))
        status = solver.Solve()
        deadline.spend(solver.nodes() / _MILP_RATE)
        if status == solver.INFEASIBLE:
            return None
        if status not in (solver.OPTIMAL, solver.FEASIBLE):
            raise TimeUpError
        schedule = checkmate.extract()
        if problem.peak(schedule) <= limit:
            return schedule
    return None
