"""Explanation of a plan's peak, from the plan and the model planned: :func:`explain`.

The rules that a plan keeps, derived from the plan and the model planned.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cpplan.aliasing.lives import kept_storages
from cpplan.explanation.fullest_step import find_fullest_step, live_tensors
from cpplan.explanation.relaxed import Relaxed, relax
from cpplan.explanation.rules import Rules, make_rules
from cpplan.explanation.steps import ops_by_step
from cpplan.model.certificates import LiveBetween
from cpplan.model.errors import InputError, located
from cpplan.model.explained import Explanation, FullestStep, Relaxation, Role
from cpplan.model.graph import Graph, Op
from cpplan.model.plan import Plan
from cpplan.model.pool import Pool
from cpplan.model.printable import printable
from cpplan.model.problem import Problem
from cpplan.model.residency import Residency
from cpplan.packing.bounds import Bound
from cpplan.packing.problem import as_program
from cpplan.program.anf import Program, to_anf
from cpplan.program.unrolled import unroll
from cpplan.solving.request import Request
from cpplan.splitting.bounds import NAME as LEAST_PIECE
from cpplan.splitting.bounds import describe, least_piece
from cpplan.splitting.piece_graph import as_pieces
from cpplan.splitting.problem import SplitProblem

# Names of the bounds that a single buffer gives.
_FIXED, _LARGEST = "fixed offset", "largest buffer"


def explain(
    plan: Plan,
    source: Graph | Program | Problem | None = None,
    *,
    time_limit: float | None = None,
    workers: int | None = None,
    seed: int = 0,
    deterministic: bool = False,
) -> Explanation:
    """The tensors that fill a plan's fullest step, and the bytes that each of its rules costs.

    Rules are dropped one at a time, with all other rules kept, including the plan's order of ops:
    alignment, fixed offsets, pools, the ban on sharing, the order, the boundary tensors in the
    arena, and that every op runs once. ``at_most`` is the most bytes that dropping a rule can save,
    by a bound; ``saved`` are the bytes that a plan without the rule saves; ``at_least`` of these
    cannot be saved with the rule. If the plan is not proved smallest, or a limit was asked for,
    further rows give the savings of a better layout, a better order, or a smaller limit. Beyond
    2000 ops, the bounds without the rules on order and repeated runs are the most bytes that one op
    accesses.

    Parameters
    ----------
    source
        The model that was planned. Without it, only the plan's fullest step is explained.
    time_limit
        Seconds for all plans without the rules together. If left out, only bounds are given, which
        need no search. If a bound equals the plan's own peak, the rule costs no bytes, and no plan
        is searched for.
    workers, seed, deterministic
        As in :func:`cpplan.solve`.

    Returns
    -------
    Explanation
        The explanation: ``str()`` gives its text, ``to_frame()`` one row a rule.

    Raises
    ------
    InputError
        If the plan is for another model, or an option is not understood.
    """
    if plan.spills:
        raise InputError("the bytes that a plan moves are explained by explain_moves")
    bound: Bound | None = None
    rules: Rules | None = None
    relaxations: list[Relaxation] = []
    piece: str | None = None
    if source is not None:
        if plan.bound_by == LEAST_PIECE and not isinstance(source, Problem):
            piece = _least_piece(plan, as_program(source))
        if isinstance(plan.certificate, LiveBetween):
            piece = _moment(plan.certificate)
        rules, plan = rules_of(plan, source)
        bound = rules.bound()
        proved = _proved(plan, bound)
        relaxed = list(relax(rules, plan, proved))
        relaxations = [_bound_of(each, plan, proved) for each in relaxed]
        if time_limit is not None:
            search = Request(
                time_limit=time_limit, workers=workers, seed=seed, deterministic=deterministic
            )
            relaxations = _plan_all(relaxations, relaxed, search)
        relaxations.sort(key=lambda relaxation: relaxation.bound)
    forced = None if bound is None or rules is None else _forcing_row(rules.problem, bound)
    step = find_fullest_step(plan) if bound is None or bound.step is None else bound.step
    if bound is not None and forced is not None and step is not None:
        # Choose a step at which the buffer that gives the bound is live.
        lower, upper = int(plan.lower[forced]), int(plan.upper[forced])
        step = step if lower <= step < upper else lower
    return Explanation(
        name=plan.name,
        status=plan.status,
        capacity=plan.capacity,
        peak=plan.peak,
        lower_bound=plan.lower_bound,
        bound_by=plan.bound_by,
        scope=plan.scope,
        steps=int(np.max(plan.upper, initial=0)),
        fullest=_fullest(plan, step, rules),
        order_bound=None if bound is None else bound.value,
        order_bound_by=None if bound is None else bound.name,
        forced_by=None if forced is None else plan.buffers[forced],
        relaxations=tuple(relaxations),
        least_piece=piece,
    )


def _least_piece(plan: Plan, source: Program | Problem) -> str:
    """The part of a model that needs the bound on all splittings, as text."""
    assert isinstance(source, Program)
    problem = SplitProblem(source, plan.residency, frozenset(plan.sharing))
    return describe(least_piece(problem)).removesuffix(",")


def _moment(found: LiveBetween) -> str:
    """The moment at which the bytes of the bound are live, as text."""
    done = min(1.0, max(0.0, (found.interval - 0.5) / found.parts))
    return f"all that is live when op {printable(found.op)} has done {done:.0%} of its steps"


def _fullest(plan: Plan, step: int | None, rules: Rules | None) -> FullestStep:
    if step is None:
        return FullestStep(None, None, None, 0, ())
    filled, tensors = live_tensors(plan, step)
    if rules is None:
        ops = ops_by_step(plan)
        return FullestStep(step, None if ops is None else ops[step], None, filled, tensors)
    if not isinstance(rules.source, Program) or not rules.source.order:
        return FullestStep(step, None, None, filled, tensors)
    ends = {tensor.name: tensor.upper for tensor in tensors}
    at = step_of(rules.source, step, ends, rules.residency)
    used = tuple(t._replace(role=at.roles[t.name], until=at.until[t.name]) for t in tensors)
    return FullestStep(step, at.op, at.kind, filled, used)


def _proved(plan: Plan, bound: Bound) -> Bound:
    """The best proved bound on plans at this order that keep the rules."""
    if plan.lower_bound is None or plan.lower_bound <= bound.value:
        return bound
    return Bound(plan.lower_bound, str(plan.bound_by), None)


def _forcing_row(problem: Problem, bound: Bound) -> int | None:
    """The buffer that alone gives a bound, or ``None``."""
    if bound.name == _LARGEST and len(problem):
        return int(np.argmax(problem.size))
    if bound.name == _FIXED:
        return max(problem.fixed, key=lambda row: problem.fixed[row] + int(problem.size[row]))
    return None


def _bound_of(relaxed: Relaxed, plan: Plan, proved: Bound) -> Relaxation:
    bound = relaxed.bound()
    # The plan keeps the remaining rules: if it meets their bound, no plan is better.
    met = relaxed.keeps_plan and plan.peak is not None and plan.peak <= bound.value
    return Relaxation(
        rule=relaxed.name,
        instead=relaxed.instead,
        before=plan.peak,
        bound=bound.value,
        bound_by=bound.name,
        peak=plan.peak if met else None,
        proved=proved.value,
    )


def _plan_all(
    relaxations: list[Relaxation],
    sources: list[Relaxed],
    search: Request,
) -> list[Relaxation]:
    """Add plans to the relaxations that the bounds do not settle, in equal shares of the time."""
    deadline = search.budget().deadline
    open_ones = [k for k, relaxation in enumerate(relaxations) if relaxation.peak is None]
    planned = list(relaxations)
    for left, k in zip(range(len(open_ones), 0, -1), open_ones, strict=True):
        if deadline.expired():
            break
        part = search.within(deadline.remaining() / left)
        found = sources[k].rules.solve(part)
        if deadline.deterministic:
            deadline.spend(part.time_limit)
        before = relaxations[k].before if sources[k].keeps_plan else None
        peaks = [peak for peak in (before, found.peak) if peak is not None]
        planned[k] = replace(relaxations[k], peak=min(peaks, default=None))
        if found.lower_bound is not None and found.lower_bound > planned[k].bound:
            by = str(found.bound_by)
            planned[k] = replace(planned[k], bound=found.lower_bound, bound_by=by)
    return planned


class Step(NamedTuple):
    """A step: the op that runs, and its use of the live buffers.

    Attributes
    ----------
    op, kind
        Name and kind of the op.
    roles
        Buffer -> its use: read, written, workspace, or in a body of the op; else it waits for a
        later op or for the caller. A buffer that is both read and written is ``written``.
    until
        Buffer -> the last op to access it, or ``None`` if it is kept to the end for the caller.
    """

    op: str
    kind: str
    roles: dict[str, Role]
    until: dict[str, str | None]


def step_of(program: Program, step: int, buffers: Mapping[str, int], residency: Residency) -> Step:
    """The op that runs at a step, and its use of some buffers. O(tensors + accesses).

    Parameters
    ----------
    buffers
        Names of live buffers, with the ends of their lifespans.
    """
    unrolled = unroll(program, residency)
    op = unrolled.graph.ops[unrolled.order[_place(program, step)]]
    root = unrolled.graph.root
    known: dict[str, Role] = {}
    for names, role in ((op.inputs, "read"), (op.outputs, "written"), (op.workspaces, "workspace")):
        known |= dict.fromkeys((root[name][0] for name in names), role)  # type: ignore[arg-type]
    for name in buffers:
        if name not in known:
            known[name] = "waits" if name in root else "body"
    kept = kept_storages(unrolled.graph, residency)
    named = _op_at(program, step)
    return Step(
        named.name,
        named.kind,
        {name: known[name] for name in buffers},
        {
            name: None if name in kept else _op_at(program, upper - 1).name
            for name, upper in buffers.items()
        },
    )


def _place(program: Program, step: int) -> int:
    """Position of the op that runs at a step."""
    return bisect_right(program.starts, step, hi=len(program.order)) - 1


def _op_at(program: Program, step: int) -> Op:
    return program.graph.ops[program.order[_place(program, step)]]


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
