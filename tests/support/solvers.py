"""CP-SAT solvers for the small models of tests."""

from __future__ import annotations

from ortools.sat.python import cp_model


def new_solver(*, linear: bool = True) -> cp_model.CpSolver:
    """One worker, without the step of presolve that takes longest on small models.

    Without linear relaxations, it proves the optimum of orders and schedules sooner.
    """
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.presolve_inclusion_work_limit = 0
    if not linear:
        solver.parameters.linearization_level = 0
    return solver
