"""From what the stages found and proved to the Plan that is handed out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cpplan.anf import Program
from cpplan.bounds import Bound
from cpplan.plan import Plan, Progress, Relation, Scope, Status
from cpplan.problem import Ints, Problem
from cpplan.residency import Residency
from cpplan.search.outcome import OrderOutcome
from cpplan.stages.incumbent import Incumbent
from cpplan.stages.sharing import SharingSearch
from cpplan.stages.shortfall import explain_shortfall


@dataclass(frozen=True, slots=True)
class Packed:
    """A program, or a bare problem, with the packing found for it."""

    source: Program | Problem
    problem: Problem
    incumbent: Incumbent | None = None
    sharing: SharingSearch | None = None

    @property
    def peak(self) -> int:
        """Bytes."""
        return self._packing.peak

    @property
    def bound(self) -> Bound:
        """On every packing of this program, whichever links it uses."""
        return self.sharing.bound if self.sharing is not None else self._packing.bound

    @property
    def good_enough(self) -> bool:
        """Whether the peak is at most the goal."""
        search = self.sharing
        return search.good_enough if search is not None else self._packing.good_enough

    @property
    def found_by(self) -> str | None:
        """What packed the highest part."""
        return self._packing.found_by

    @property
    def offsets(self) -> Ints:
        """Of all buffers, bytes."""
        if self.sharing is not None:
            return self.sharing.best.offsets
        return self._packing.reduction.restore(self._packing.offsets, self.problem)

    @property
    def relations(self) -> tuple[Relation, ...]:
        """Which tensors share bytes by choice."""
        links = self.sharing.best.clusters.links if self.sharing is not None else ()
        return tuple(link.relation for link in links)

    @property
    def _packing(self) -> Incumbent:
        if self.sharing is not None:
            return self.sharing.best.incumbent
        assert self.incumbent is not None
        return self.incumbent


def make_plan(
    packed: Packed,
    residency: Residency,
    *,
    searched: OrderOutcome | None = None,
    ceiling: int | None = None,
    runtime: float,
    history: Sequence[Progress],
) -> Plan:
    """The plan; without offsets if the best packing exceeds the limit, and then with a reason.

    Parameters
    ----------
    packed
        The best packing.
    residency
        What the arena holds of the boundary.
    ceiling
        The limit, if there is one, bytes.
    searched
        What the order search found and proved; its bound then replaces the packing's, which holds
        for one order only.
    runtime
        Seconds so far.
    history
        Every improvement.
    """
    problem, source, peak = packed.problem, packed.source, packed.peak
    bound, scope, found_by = packed.bound, _scope(searched), packed.found_by
    if searched is not None:
        bound = Bound(searched.bound, searched.bound_by, bound.step)
        found_by = f"{searched.found_by}, {found_by}"
    fits = ceiling is None or peak <= ceiling
    status: Status = "optimal" if peak == bound.value else "feasible"
    if not fits:
        status = "infeasible" if bound.value > (ceiling or 0) else "unknown"
    program = source if isinstance(source, Program) else None
    return Plan(
        name=program.graph.name if program else problem.name,
        status=status,
        buffers=tuple(problem.names),
        size=problem.size,
        lower=problem.lower,
        upper=problem.upper,
        gaps=problem.gaps,
        offset=packed.offsets if fits else None,
        pools=tuple(problem.pools),
        peak=peak if fits else None,
        lower_bound=bound.value,
        scope=scope,
        capacity=ceiling,
        found_by=found_by if fits else None,
        bound_by=bound.name,
        order=program.names if program else (),
        cost=program.cost if program else None,
        base_cost=sum(op.cost for op in program.graph.ops) if program else None,
        residency=residency,
        views=_views(program, problem) if program else {},
        sharing=tuple(sorted(packed.sharing.kinds)) if packed.sharing is not None else (),
        relations=packed.relations if fits else (),
        runtime=runtime,
        history=tuple(history),
        message=None if fits else explain_shortfall(problem, bound, peak, ceiling or 0),
    )


def _scope(searched: OrderOutcome | None) -> Scope:
    return "given order" if searched is None else "every order"


def _views(program: Program, problem: Problem) -> dict[str, tuple[str, int]]:
    placed = set(problem.names)
    roots = program.graph.root.items()
    return {name: root for name, root in roots if name != root[0] and root[0] in placed}
