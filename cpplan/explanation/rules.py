"""The rules that a plan keeps, with a bound on every plan under them and planning under them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cpplan.aliasing.alias_candidates import AliasCandidate
from cpplan.model.graph import Graph
from cpplan.model.plan import Plan
from cpplan.model.plan_data import RelationKind
from cpplan.model.pool import Pool
from cpplan.model.problem import Problem
from cpplan.model.residency import Residency
from cpplan.packing.bounds import Bound, lower_bound
from cpplan.program.anf import Program
from cpplan.program.liveness import outside_storages
from cpplan.remat.footprint import FOOTPRINT

if TYPE_CHECKING:
    from cpplan.aliasing.alias_candidates import AliasCandidate
    from cpplan.model.remat_problem import RematProblem
    from cpplan.solving.request import Request

# Most ops for which bounds on every order and on repeated runs look at pairs of ops.
MOST_OPS = 2000
# If ops may run again: largest cost of a schedule, as a multiple of running each op once.
MOST_COST = 2.0
ACCESSED = "bytes that one op accesses"


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that a plan must keep.

    Attributes
    ----------
    source
        The program at the plan's own order, or the problem.
    residency
        The boundary tensors that the arena holds.
    pools
        The memory regions of a program, or ``None`` for one arena.
    sharing
        The kinds of relations that may be chosen.
    problem
        The buffers at the plan's order.
    candidates
        Alias candidates of the program, of both kinds, allowed or not.
    aligned
        True if the program's tensors lie at multiples of their alignments.
    any_order
        True if the order may change.
    runs_again
        True if ops may run again.
    again
        The rematerialization problem, if it was computed.
    """

    source: Program | Problem
    residency: Residency
    pools: tuple[Pool, ...] | None
    sharing: frozenset[RelationKind]
    problem: Problem
    candidates: tuple[AliasCandidate, ...] = ()
    aligned: bool = True
    any_order: bool = False
    runs_again: bool = False
    again: RematProblem | None = None

    def bound(self) -> Bound:
        """A lower bound, without search, on the peak of every plan that keeps the rules.

        With several pools, it bounds the sum of their peaks.
        """
        problem, candidates = self.problem, self.allowed()
        if isinstance(self.source, Program):
            if self.runs_again or self.any_order:
                return self._bound_in_any_order(self.source.graph, candidates)
            if candidates:
                from cpplan.aliasing.bounds import shared_bound
                from cpplan.aliasing.lives import ProgramLives
                from cpplan.program.unrolled import unroll

                lives = ProgramLives(unroll(self.source, self.residency), problem, self.residency)
                return shared_bound(problem, candidates, lives)
        if len(problem.pools) == 1:
            return lower_bound(problem)
        from cpplan.packing.pools.bounds import objective_bound

        (total,), (name,) = objective_bound(problem, "total", (0,))
        return Bound(int(total), name, None)

    def allowed(self) -> tuple[AliasCandidate, ...]:
        """The candidates that may be used."""
        return tuple(
            candidate for candidate in self.candidates if candidate.relation.kind in self.sharing
        )

    def solve(self, search: Request) -> Plan:
        """Plan under the rules, at the plan's order unless the order may change.

        With several pools, the sum of their peaks is minimised.

        Parameters
        ----------
        search
            Request with time, threads and seed; all other fields follow from the rules.
        """
        from cpplan.solving.pipeline import solve_request

        if isinstance(self.source, Problem):
            return solve_request(self.source, replace(search, objective="total"))
        program = self.source if self.aligned else _unaligned(self.source)
        return solve_request(
            program,
            replace(
                search,
                order="search" if self.any_order else "given",
                in_place="in place" in self.sharing,
                placement="placement" in self.sharing,
                remat=self.runs_again,
                cost_limit=MOST_COST if self.runs_again else None,
                pools=self.pools,
                objective="total",
                inputs=self.residency.inputs,
                outputs=self.residency.outputs,
                constants=self.residency.constants,
            ),
        )

    def _bound_in_any_order(self, graph: Graph, candidates: tuple[AliasCandidate, ...]) -> Bound:
        accessed = accessed_bound(graph, self.residency, candidates)
        most = int(self.problem.live_profile()[1].max(initial=0))
        if len(graph.ops) > MOST_OPS or accessed.value >= most:
            return accessed
        if not self.runs_again:
            return max(accessed, self._any_order(graph, candidates), key=lambda bound: bound.value)
        if self.again is None:
            return accessed
        return max(accessed, _footprint(self.again, candidates), key=lambda bound: bound.value)

    def _any_order(self, graph: Graph, candidates: tuple[AliasCandidate, ...]) -> Bound:
        from cpplan.aliasing.segments import relax_sharing
        from cpplan.ordering.bounds import FORCED, order_bounds
        from cpplan.ordering.problem import order_problem

        ordering, more = order_problem(graph, self.residency), 0
        if candidates:
            ordering, more = relax_sharing(ordering, candidates)
        return Bound(max(0, order_bounds(ordering).bound - more), FORCED, None)


def _footprint(problem: RematProblem, candidates: tuple[AliasCandidate, ...]) -> Bound:
    from cpplan.remat.footprint import least_footprint, shared_footprint

    least = shared_footprint(problem, candidates) if candidates else least_footprint(problem)
    return Bound(least.bytes, FOOTPRINT, None)


def _unaligned(program: Program) -> Program:
    return Program(_unaligned_graph(program.graph), program.order)


def _unaligned_graph(graph: Graph) -> Graph:
    return replace(
        graph,
        tensors=tuple(replace(tensor, alignment=1) for tensor in graph.tensors),
        ops=tuple(
            replace(op, bodies=tuple(map(_unaligned_graph, op.bodies))) if op.bodies else op
            for op in graph.ops
        ),
    )


def make_rules(
    source: Program | Problem,
    residency: Residency,
    pools: tuple[Pool, ...] | None,
    sharing: frozenset[RelationKind],
) -> Rules:
    """Make rules, with the problem and the candidates that follow from them."""
    from cpplan.packing.problem import as_problem

    candidates: tuple[AliasCandidate, ...] = ()
    if isinstance(source, Program):
        from cpplan.aliasing.alias_candidates import find_candidates
        from cpplan.program.unrolled import unroll

        candidates = find_candidates(unroll(source, residency).graph, residency)
    problem = as_problem(source, residency, pools)
    return Rules(source, residency, pools, sharing, problem, candidates)


def accessed_bound(
    graph: Graph, residency: Residency, candidates: Iterable[AliasCandidate] = ()
) -> Bound:
    """The most bytes that one op reads, writes and uses as workspace. O(accesses + candidates).

    With candidates, a result that the op may write in place does not count. Among the storages that
    some op copies to or from another one, only the largest that the op accesses counts.
    """
    size = {t.name: t.nbytes for t in graph.tensors if graph.is_storage(t.name)}
    for name in outside_storages(graph, residency):
        size[name] = 0
    copied: set[str] = set()
    written: dict[int, set[str]] = {}
    for candidate in candidates:
        if candidate.in_place:
            written.setdefault(candidate.op, set()).add(candidate.inner)
        else:
            copied |= {candidate.inner, candidate.outer}
    best, root = 0, graph.root
    for number, op in enumerate(graph.ops):
        accessed = {root[name][0] for name in op.inputs + op.outputs + op.workspaces}
        accessed -= written.get(number, set())
        need = sum(size[name] for name in accessed - copied)
        best = max(best, need + max((size[name] for name in accessed & copied), default=0))
    return Bound(best, ACCESSED, None)
