"""Relaxations of a plan's rules, one rule dropped at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, get_args

import numpy as np

from cpplan.explanation.rules import MOST_COST, MOST_OPS, Rules, make_rules
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph
from cpplan.model.plan import Plan
from cpplan.model.plan_data import RelationKind
from cpplan.model.pool import Pool
from cpplan.model.problem import Problem
from cpplan.model.residency import Residency
from cpplan.packing.bounds import Bound
from cpplan.program.anf import Program, to_anf
from cpplan.program.liveness import outside_storages
from cpplan.verification.bound_table import PEAK_BOUNDS, find_bound, may_run_again

if TYPE_CHECKING:
    from cpplan.model.remat_problem import RematProblem

# The freedom that each kind of relation between tensors adds, in words.
_SHARING: dict[RelationKind, str] = {
    "in place": "ops write over what they read last: in_place",
    "placement": "tensors lie within what they are copied to or from: placement",
}


class Relaxed(NamedTuple):
    """Rules with one dropped.

    Attributes
    ----------
    name
        Name of the rule dropped.
    instead
        The rule that takes its place, in words.
    rules
        The remaining rules.
    keeps_plan
        True if the plan keeps the remaining rules. False only if pools are joined: buffers in one
        pool may need padding that buffers in several pools do not.
    known
        Bound that was proved before, if any.
    """

    name: str
    instead: str
    rules: Rules
    keeps_plan: bool = True
    known: Bound | None = None

    def bound(self) -> Bound:
        """A lower bound on the peak of every plan without the rule."""
        found = self.rules.bound()
        return found if self.known is None else max(self.known, found, key=lambda b: b.value)


def relax(rules: Rules, plan: Plan, proved: Bound) -> Iterator[Relaxed]:
    """Relaxations for every rule that the model has and that can be dropped, one at a time.

    If the plan is not proved smallest, the first relaxation drops no rule: it gives the bytes that
    a better plan may save under all rules.

    Parameters
    ----------
    proved
        Lower bound on the peak of every plan at this order with all rules.
    """
    problem = rules.problem
    yield from _relax_nothing(rules, plan, proved)
    if problem.alignment.max(initial=1) > 1 or any(p.alignment > 1 for p in problem.pools):
        yield Relaxed("alignment", "offsets of any byte", _unaligned(rules))
    if problem.fixed:
        free = replace(problem, fixed={})
        loose = make_rules(free, rules.residency, rules.pools, rules.sharing)
        yield Relaxed("fixed offsets", "offsets of choice", loose)
    if len(problem.pools) > 1:
        if plan.objective != "total":
            yield Relaxed(
                "objective", "the fewest bytes in all pools together: objective=total", rules
            )
        joined = _one_pool(rules)
        if joined is not None:
            yield Relaxed("pools", "one arena", joined, keeps_plan=False)
    if isinstance(rules.source, Program):
        yield from _relax_program(rules, rules.source, plan)


def _relax_nothing(rules: Rules, plan: Plan, proved: Bound) -> Iterator[Relaxed]:
    """Relaxations that only look for a better plan under the same rules."""
    if plan.peak is None or (len(rules.problem.pools) > 1 and plan.objective != "total"):
        return
    if plan.peak > proved.value:
        yield Relaxed("nothing", "a better layout under all rules", rules, known=proved)
    if plan.lower_bound is None or plan.peak <= plan.lower_bound:
        return
    known, again = Bound(plan.lower_bound, str(plan.bound_by), None), may_run_again(plan)
    if not again:
        if plan.scope == "every order":
            free = replace(rules, any_order=True)
            yield Relaxed("order found", "a better one, if there is one", free, known=known)
        return
    # A remat plan was made for a cost limit or a memory limit; only a memory limit is in the plan.
    name = "cost limit" if plan.capacity is None else "memory limit"
    instead = f"a smaller one, at up to {MOST_COST:g} times the cost"
    once = replace(rules, source=to_anf(_graph(rules)), any_order=True, runs_again=True)
    cheap = plan.cost is not None and plan.cost <= MOST_COST * (plan.base_cost or 0)
    # A bound at the plan's own order proves nothing about other schedules.
    proof = find_bound(PEAK_BOUNDS, plan.bound_by)
    holds = proof is not None and proof.reach == "every schedule"
    yield Relaxed(name, instead, once, keeps_plan=cheap, known=known if holds else None)


def _graph(rules: Rules) -> Graph:
    assert isinstance(rules.source, Program)
    return rules.source.graph


def _relax_program(rules: Rules, program: Program, plan: Plan) -> Iterator[Relaxed]:
    graph = program.graph
    for kind in get_args(RelationKind):
        if kind not in rules.sharing and any(x.relation.kind == kind for x in rules.candidates):
            more = replace(rules, sharing=rules.sharing | {kind})
            yield Relaxed(f"no {kind}", _SHARING[kind], more)
    once = len(program.order) == len(graph.ops)
    if once and plan.scope == "given order" and not _is_only_order(graph):
        yield Relaxed("order", "ops in any order: order=search", replace(rules, any_order=True))
    yield from _relax_residency(rules, program)
    if once and rules.pools is None and not may_run_again(plan):
        may, again = _runs_again(graph, rules.residency)
        if may:
            instead = f"ops run again, at up to {MOST_COST:g} times the cost: remat"
            yield Relaxed("run once", instead, replace(rules, runs_again=True, again=again))


def _relax_residency(rules: Rules, program: Program) -> Iterator[Relaxed]:
    """Relaxations in which the caller holds boundary tensors, or lets its inputs be overwritten."""
    kinds = {tensor.kind for tensor in program.graph.tensors if tensor.nbytes}
    residency = rules.residency
    if "input" in kinds and residency.inputs == "keep":
        less = replace(residency, inputs="reuse")
        loose = make_rules(program, less, rules.pools, rules.sharing)
        yield Relaxed("inputs kept", "free after their last use: inputs=reuse", loose)
    for field, kind in (("inputs", "input"), ("outputs", "output"), ("constants", "constant")):
        if kind in kinds and getattr(residency, field) != "outside":
            less = replace(residency, **{field: "outside"})
            yield Relaxed(
                f"{field} inside", f"in memory of their own: {field}=outside", _outside(rules, less)
            )


def _outside(rules: Rules, residency: Residency) -> Rules:
    """The rules with more of the boundary tensors outside the arena."""
    program = rules.source
    assert isinstance(program, Program)
    graph = program.graph
    if len(program.order) != len(graph.ops) or any(op.bodies for op in graph.ops):
        return make_rules(program, residency, rules.pools, rules.sharing)
    # Every buffer is a storage here, so the remaining buffers do not change.
    outside = outside_storages(graph, residency)
    stays = [row for row, name in enumerate(rules.problem.names) if name not in outside]
    candidates = tuple(
        x for x in rules.candidates if x.inner not in outside and x.outer not in outside
    )
    problem = rules.problem.subset(np.array(stays, np.int64))
    return replace(rules, residency=residency, problem=problem, candidates=candidates)


def _is_only_order(graph: Graph) -> bool:
    """True if the graph allows only one order."""
    waits = graph.predecessors
    return all(before in waits[op] for before, op in pairwise(to_anf(graph).order))


def _runs_again(graph: Graph, residency: Residency) -> tuple[bool, RematProblem | None]:
    """True if any op may run again, and the rematerialization problem unless ops are too many."""
    from cpplan.remat.problem import remat_problem

    if len(graph.ops) > MOST_OPS:
        return any(op.recomputable and op.sequence is None for op in graph.ops), None
    try:
        problem = remat_problem(graph, residency)
    except InputError:  # views of one result wait for each other: no op may run again
        return False, None
    return bool(problem.repeatable.any()), problem


def _unaligned(rules: Rules) -> Rules:
    source, pools = rules.source, rules.pools
    if pools is not None:
        pools = tuple(replace(pool, alignment=1) for pool in pools)
    free = tuple(replace(pool, alignment=1) for pool in rules.problem.pools)
    problem = replace(
        rules.problem, alignment=np.ones(len(rules.problem), np.int64), pools=free, answers=()
    )
    if isinstance(source, Problem):
        source = problem
    return replace(rules, source=source, pools=pools, problem=problem, aligned=False)


def _one_pool(rules: Rules) -> Rules | None:
    """The rules with one arena, or ``None`` if fixed offsets of several pools overlap in it."""
    source = rules.source
    if not isinstance(source, Program):
        source = replace(source, pools=(Pool(),), candidates={})
    try:
        return make_rules(source, rules.residency, None, rules.sharing)
    except InputError:
        if rules.problem.fixed:
            return None
        raise
