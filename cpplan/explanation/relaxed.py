"""A plan's rules with one of them dropped at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, get_args

import numpy as np

from cpplan.anf import Program
from cpplan.errors import InputError
from cpplan.explanation.rules import MOST_COST, Rules, make_rules
from cpplan.graph import Graph
from cpplan.plan import Plan, RelationKind
from cpplan.pool import Pool
from cpplan.residency import Residency

if TYPE_CHECKING:
    from cpplan.remat.problem import RematProblem

# What each relation between tensors lets an op do.
_SHARING: dict[RelationKind, str] = {
    "in place": "ops write over what they read last",
    "placement": "tensors lie within what they are copied to or from",
}


class Relaxed(NamedTuple):
    """Rules of which one is dropped.

    Attributes
    ----------
    name
        Of the rule dropped.
    instead
        What holds in its place, in words.
    rules
        The others.
    keeps_plan
        Whether the plan keeps the rules that are left: true but where pools are joined, since
        buffers in one pool may need padding that those in several do not.
    """

    name: str
    instead: str
    rules: Rules
    keeps_plan: bool = True


def relax(rules: Rules, plan: Plan) -> Iterator[Relaxed]:
    """Every rule that the model has and that can be dropped; the others stay.

    First none at all, where the plan is not proved smallest: what that may save, dropping a rule
    does not have to.

    Examples
    --------
    >>> import cpplan
    >>> from cpplan.explanation.rules import rules_of
    >>> problem = cpplan.Problem(("a",), [0], [1], [4], alignment=[8], fixed={0: 8})
    >>> rules, plan = rules_of(cpplan.solve(problem), problem)
    >>> [relaxed.name for relaxed in relax(rules, plan)]
    ['alignment', 'fixed offsets']
    """
    problem = rules.problem
    if plan.status == "feasible":
        yield Relaxed("nothing", "a better layout under all rules", rules)
    if problem.alignment.max(initial=1) > 1 or any(p.alignment > 1 for p in problem.pools):
        yield Relaxed("alignment", "offsets of any byte", _unaligned(rules))
    if problem.fixed:
        free = replace(problem, fixed={})
        loose = make_rules(free, rules.residency, rules.pools, rules.sharing)
        yield Relaxed("fixed offsets", "offsets of choice", loose)
    if len(problem.pools) > 1:
        if plan.objective != "total":
            yield Relaxed("objective", "the fewest bytes in all pools together", rules)
        yield Relaxed("pools", "one arena", _one_pool(rules), keeps_plan=False)
    if isinstance(rules.source, Program):
        yield from _relax_program(rules, rules.source, plan)


def _relax_program(rules: Rules, program: Program, plan: Plan) -> Iterator[Relaxed]:
    from cpplan.sharing.links import find_links

    graph = program.graph
    for kind in get_args(RelationKind):
        if kind not in rules.sharing and find_links(graph, rules.residency, (kind,)):
            more = replace(rules, sharing=rules.sharing | {kind})
            yield Relaxed(f"no {kind}", _SHARING[kind], more)
    once = len(program.order) == len(graph.ops)
    if once and plan.scope == "given order" and not _is_only_order(graph):
        yield Relaxed("order", "ops in any order", replace(rules, any_order=True))
    yield from _relax_residency(rules, graph)
    if once and plan.cost_bound is None and rules.pools is None:
        again = _runs_again(graph, rules.residency)
        if again is not None:
            instead = f"ops run again, at a cost of up to {MOST_COST:g} times"
            yield Relaxed("run once", instead, replace(rules, again=again))


def _relax_residency(rules: Rules, graph: Graph) -> Iterator[Relaxed]:
    """What the caller could hold instead, or hand over for good."""
    kinds = {tensor.kind for tensor in graph.tensors if tensor.nbytes}
    residency = rules.residency
    choices = []
    if "input" in kinds and residency.inputs == "keep":
        choices.append(("inputs kept", "free after their last use", {"inputs": "reuse"}))
    for field, kind in (("inputs", "input"), ("outputs", "output"), ("constants", "constant")):
        if kind in kinds and getattr(residency, field) != "outside":
            choices.append((f"{field} inside", "in memory of their own", {field: "outside"}))
    for name, instead, change in choices:
        less = replace(residency, **change)
        yield Relaxed(name, instead, make_rules(rules.source, less, rules.pools, rules.sharing))


def _is_only_order(graph: Graph) -> bool:
    """Whether each op waits for the one before it, in the one order that there is."""
    from cpplan.anf import to_anf

    waits = graph.predecessors
    return all(before in waits[op] for before, op in pairwise(to_anf(graph).order))


def _runs_again(graph: Graph, residency: Residency) -> RematProblem | None:
    from cpplan.remat.problem import remat_problem

    try:
        problem = remat_problem(graph, residency)
    except InputError:  # views of results that wait for each other: none may run again
        return None
    return problem if problem.repeatable.any() else None


def _unaligned(rules: Rules) -> Rules:
    source, pools = rules.source, rules.pools
    if pools is not None:
        pools = tuple(replace(pool, alignment=1) for pool in pools)
    if isinstance(source, Program):
        source = Program(_unaligned_graph(source.graph), source.order)
    else:
        free = tuple(replace(pool, alignment=1) for pool in source.pools)
        source = replace(source, alignment=np.ones(len(source), np.int64), pools=free)
    return make_rules(source, rules.residency, pools, rules.sharing)


def _unaligned_graph(graph: Graph) -> Graph:
    return replace(
        graph,
        tensors=tuple(replace(tensor, alignment=1) for tensor in graph.tensors),
        ops=tuple(
            replace(op, bodies=tuple(map(_unaligned_graph, op.bodies))) if op.bodies else op
            for op in graph.ops
        ),
    )


def _one_pool(rules: Rules) -> Rules:
    source = rules.source
    if not isinstance(source, Program):
        source = replace(source, pools=(Pool(),), candidates={})
    return make_rules(source, rules.residency, None, rules.sharing)
