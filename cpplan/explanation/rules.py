"""The rules that a plan keeps: what they prove at its order, and planning under them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cpplan.anf import Program, to_anf
from cpplan.bounds import Bound, lower_bound
from cpplan.errors import InputError
from cpplan.graph import Graph
from cpplan.plan import Plan, RelationKind
from cpplan.pool import Pool
from cpplan.problem import Problem
from cpplan.residency import Residency
from cpplan.stages.bound_names import FOOTPRINT

if TYPE_CHECKING:
    from cpplan.remat.problem import RematProblem

# Where ops may run again, planning spends at most this multiple of the cost of running each once.
MOST_COST = 2.0


@dataclass(frozen=True, slots=True)
class Rules:
    """What a plan must keep.

    Attributes
    ----------
    source
        The program at the plan's own order, or the problem.
    residency
        What the arena holds of the boundary.
    pools
        The memory regions of a program, or ``None`` for one arena.
    sharing
        The kinds of relations that may be chosen.
    problem
        The buffers at the plan's order.
    any_order
        Whether the order may change.
    again
        If ops may run again: which, and at what cost.
    """

    source: Program | Problem
    residency: Residency
    pools: tuple[Pool, ...] | None
    sharing: frozenset[RelationKind]
    problem: Problem
    any_order: bool = False
    again: RematProblem | None = None

    def bound(self) -> Bound:
        """No plan that keeps the rules has a smaller peak, in all pools together; needs no search.

        Examples
        --------
        >>> problem = Problem(("a", "b"), lower=[0, 1], upper=[2, 3], size=[4, 8])
        >>> make_rules(problem, Residency(), None, frozenset()).bound()
        Bound(value=12, name='live bytes', step=1)
        """
        if isinstance(self.source, Program):
            if self.again is not None:
                return self._footprint(self.source.graph, self.again)
            if self.any_order:
                return self._any_order(self.source.graph)
        problem = self.problem
        if isinstance(self.source, Program) and self.sharing:
            from cpplan.sharing.bound import shared_bound
            from cpplan.sharing.links import find_links
            from cpplan.sharing.lives import ProgramLives
            from cpplan.unrolled import unroll

            unrolled = unroll(self.source)
            links = find_links(unrolled.graph, self.residency, self.sharing)
            if links:
                lives = ProgramLives(unrolled, problem, self.residency)
                return shared_bound(problem, links, lives)
        if len(problem.pools) == 1:
            return lower_bound(problem)
        from cpplan.checks.pool_bounds import objective_bound

        (total,), (name,) = objective_bound(problem, "total", (0,))
        return Bound(int(total), name, None)

    def solve(self, seconds: float, **options: Any) -> Plan:
        """A plan that keeps the rules; from a program at the plan's order unless that may change.

        With several pools, the total of their peaks is made small.
        """
        from cpplan.pipeline import solve

        if isinstance(self.source, Problem):
            return solve(self.source, time_limit=seconds, objective="total", **options)
        if self.again is not None:
            options |= {"remat": True, "cost_limit": MOST_COST}
        return solve(
            self.source,
            time_limit=seconds,
            order="search" if self.any_order else "given",
            in_place="in place" in self.sharing,
            placement="placement" in self.sharing,
            pools=self.pools,
            objective="total",
            inputs=self.residency.inputs,
            outputs=self.residency.outputs,
            constants=self.residency.constants,
            **options,
        )

    def _footprint(self, graph: Graph, problem: RematProblem) -> Bound:
        from cpplan.remat.footprint import least_footprint, shared_footprint
        from cpplan.sharing.links import find_links

        links = find_links(graph, self.residency, self.sharing)
        least = shared_footprint(problem, links) if links else least_footprint(problem)
        return Bound(least.bytes, FOOTPRINT, None)

    def _any_order(self, graph: Graph) -> Bound:
        from cpplan.ordering import order_problem
        from cpplan.search.order_bounds import FORCED, order_bounds
        from cpplan.sharing.links import find_links
        from cpplan.sharing.segments import relax_sharing

        ordering, more = order_problem(graph, self.residency), 0
        links = find_links(graph, self.residency, self.sharing)
        if links:
            ordering, more = relax_sharing(ordering, links)
        return Bound(max(0, order_bounds(ordering).bound - more), FORCED, None)


def make_rules(
    source: Program | Problem,
    residency: Residency,
    pools: tuple[Pool, ...] | None,
    sharing: frozenset[RelationKind],
) -> Rules:
    """Rules, with the buffers that follow from them.

    Examples
    --------
    >>> problem = Problem(("a",), lower=[0], upper=[1], size=[4])
    >>> make_rules(problem, Residency(), None, frozenset()).problem.names
    ('a',)
    """
    from cpplan.stages.sources import as_problem

    return Rules(source, residency, pools, sharing, as_problem(source, residency, pools))


def rules_of(plan: Plan, source: Graph | Program | Problem) -> tuple[Rules, Plan]:
    """The rules that a plan keeps, and the plan; both at its bounds if it depends on variables.

    Raises
    ------
    InputError
        If the plan is for another model.

    Examples
    --------
    >>> from cpplan.pipeline import solve
    >>> problem = Problem(("a",), lower=[0], upper=[1], size=[4])
    >>> rules, _ = rules_of(solve(problem), problem)
    >>> rules.bound().value
    4
    """
    if not isinstance(source, (Graph, Program, Problem)):
        raise InputError(
            f"expected a Graph, a Program or a Problem, not {type(source).__name__}: "
            "cpplan.load reads a model"
        )
    plan, bound_source = _at_bounds(plan, source)
    pools = None if plan.pools == (Pool(),) else tuple(plan.pools)
    if not isinstance(bound_source, Problem):
        graph = bound_source.graph if isinstance(bound_source, Program) else bound_source
        bound_source = to_anf(graph, plan.order)
    rules = make_rules(bound_source, plan.residency, pools, frozenset(plan.sharing))
    problem = rules.problem
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
    return rules, plan


def _at_bounds(
    plan: Plan, source: Graph | Program | Problem
) -> tuple[Plan, Graph | Program | Problem]:
    if plan.symbols is None or isinstance(source, Problem):
        return plan, source
    if plan.symbols.sizes:
        from cpplan.symbolic.binding import bind_largest

        source, plan = bind_largest(source, plan)
        return plan, source
    from cpplan.symbolic.planning import at_bounds

    graph = source.graph if isinstance(source, Program) else source
    return replace(plan, symbols=None), at_bounds(graph)
