"""The rules that a plan keeps, derived from the plan and the model planned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cpplan.explanation.rules import Rules, make_rules
from cpplan.model.errors import InputError, located
from cpplan.model.graph import Graph
from cpplan.model.plan import Plan
from cpplan.model.pool import Pool
from cpplan.model.problem import Problem
from cpplan.program.anf import Program, to_anf
from cpplan.splitting.piece_graph import as_pieces


def rules_of(plan: Plan, source: Graph | Program | Problem) -> tuple[Rules, Plan]:
    """The rules that a plan keeps, and the plan; both at its bounds if it depends on variables.

    Raises
    ------
    InputError
        If the plan is for another model.
    """
    if not isinstance(source, (Graph, Program, Problem)):
        raise InputError(
            f"expected a Graph, a Program or a Problem, not {type(source).__name__}: "
            "cpplan.load reads a model"
        )
    if plan.pieces and not isinstance(source, Problem):
        plan, pieces = as_pieces(plan, source)
        source = pieces.graph
    plan, bound_source = _at_bounds(plan, source)
    pools = None if plan.pools == (Pool(),) else tuple(plan.pools)
    if not isinstance(bound_source, Problem):
        graph = bound_source.graph if isinstance(bound_source, Program) else bound_source
        with located("the plan is for another model"):
            bound_source = to_anf(graph, plan.order)
    rules = make_rules(bound_source, plan.residency, pools, frozenset(plan.sharing))
    _check_plan(plan, rules.problem)
    return rules, plan


def _check_plan(plan: Plan, problem: Problem) -> None:
    """Raise unless buffers, alignments and fixed offsets of the plan equal the problem's."""
    planned, needed = (
        set(zip(x, s.tolist(), lo.tolist(), up.tolist(), strict=True))
        for x, s, lo, up in (
            (plan.buffers, plan.size, plan.lower, plan.upper),
            (problem.names, problem.size, problem.lower, problem.upper),
        )
    )
    if planned != needed:
        name = min(planned ^ needed)[0]
        raise InputError(f"the plan is for another model: they differ in buffer {name!r}")
    for row, name in enumerate(problem.names):
        if sorted(problem.gaps.get(row, ())) != sorted(plan.gaps.get(plan.row[name], ())):
            raise InputError(f"the plan is for another model: they differ in gaps of {name!r}")
    if plan.offset is None:
        return
    offset = plan.offset[np.array([plan.row[name] for name in problem.names], np.int64)]
    wrong = np.flatnonzero(offset % problem.alignment)
    for row in wrong[:1].tolist():
        raise InputError(
            f"the plan is for another model: buffer {problem.names[row]!r} lies at {offset[row]}, "
            f"which is no multiple of its alignment {problem.alignment[row]}"
        )
    for row, fixed in problem.fixed.items():
        if offset[row] != fixed:
            raise InputError(
                f"the plan is for another model: buffer {problem.names[row]!r} lies at "
                f"{offset[row]}, and is fixed at {fixed}"
            )


def _at_bounds(
    plan: Plan, source: Graph | Program | Problem
) -> tuple[Plan, Graph | Program | Problem]:
    if plan.symbols is None or isinstance(source, Problem):
        return plan, source
    if plan.symbols.sizes:
        from cpplan.program.binding import bind_largest

        source, plan = bind_largest(source, plan)
        return plan, source
    from cpplan.symbolic.planning import at_bounds

    graph = source.graph if isinstance(source, Program) else source
    return replace(plan, symbols=None), at_bounds(graph)
