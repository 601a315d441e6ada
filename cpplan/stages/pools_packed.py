"""Several pools for a program or a problem: with or without what tensors may share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from cpplan.anf import Program
from cpplan.checks.pool_bounds import objective_bound, shared_objective_bound
from cpplan.checks.pool_objective import objective_value
from cpplan.deadline import Deadline, TimeUpError
from cpplan.heuristics.in_pools import run_in_pools
from cpplan.plan import Objective, Relation, RelationKind, Status
from cpplan.pool_candidates import check_candidates
from cpplan.problem import Problem
from cpplan.residency import Residency
from cpplan.sharing.bound import NAME as SHARED
from cpplan.stages.packed import Packed
from cpplan.stages.pools import PooledPacking, pack_pools
from cpplan.stages.sharing import SharingSearch

# With sharing, a packing without it is the rival: share of the time for the first.
FIRST_SHARE = 0.7


@dataclass(frozen=True, slots=True)
class PooledResult:
    """A layout of the original buffers over several pools, and the relations it uses."""

    packing: PooledPacking
    objective: Objective
    sharing: frozenset[RelationKind] = frozenset()
    relations: tuple[Relation, ...] = ()


def pack_in_pools(
    source: Program | Problem,
    problem: Problem,
    residency: Residency,
    objective: Objective,
    deadline: Deadline,
    *,
    sharing: frozenset[RelationKind] = frozenset(),
    algorithm: str | None = None,
    workers: int = 1,
    seed: int = 0,
    report: Callable[[object, object, str], None] = lambda value, bound, source: None,
) -> Packed:
    """The best layout found in time.

    With sharing, the links that go together are taken as for one pool, and the clusters packed;
    the bounds of that packing hold for these links only and are replaced by weaker ones.
    """

    def packing(problem: Problem, deadline: Deadline) -> PooledPacking:
        if algorithm is not None:
            return _by_algorithm(algorithm, problem, objective, deadline)
        return pack_pools(problem, objective, deadline, workers=workers, seed=seed, report=report)

    if not sharing or not isinstance(source, Program):
        return Packed(source, problem, pooled=PooledResult(packing(problem, deadline), objective))
    search = SharingSearch(source, problem, residency, kinds=sharing)
    first = deadline if algorithm is not None else deadline.share(FIRST_SHARE)
    merged, links = search.best.merged, search.best.clusters.links
    shared = packing(merged.problem, first)
    relations = tuple(link.relation for link in links)
    alone = None
    if algorithm is None and not deadline.expired():
        alone = packing(problem, deadline)
    if (
        alone is not None
        and alone.offset is not None
        and (shared.offset is None or alone.objective_value < shared.objective_value)
    ):
        shared, relations = alone, ()
    if relations and shared.offset is not None and shared.pool is not None:
        pool, offset = shared.pool[merged.row], merged.spread(shared.offset)
        shared = replace(shared, pool=pool, offset=offset)
    return Packed(
        source,
        problem,
        pooled=PooledResult(
            _bounded(shared, problem, objective, search.bound.value),
            objective,
            sharing,
            relations,
        ),
    )


def _bounded(
    packing: PooledPacking, problem: Problem, objective: Objective, floor: int
) -> PooledPacking:
    """The packing with a bound that holds whatever is shared."""
    value = packing.objective_value
    if packing.offset is None:
        # What does not fit with these links may fit with others.
        limits = [pool.capacity for pool in problem.pools]
        never = None not in limits and floor > sum(filter(None, limits))
        status: Status = "infeasible" if never else "unknown"
        return replace(packing, status=status, objective_bound=(), bound_by=(SHARED,))
    bound = shared_objective_bound(problem, objective, value, floor)
    status = "optimal" if value == bound else "feasible"
    return replace(packing, status=status, objective_bound=bound, bound_by=(SHARED,))


def _by_algorithm(
    name: str, problem: Problem, objective: Objective, deadline: Deadline
) -> PooledPacking:
    """One heuristic alone, pool after pool."""
    check_candidates(problem)
    try:
        layout = run_in_pools(name, problem, deadline)
    except TimeUpError:
        layout = None
    if layout is None:
        message = f"algorithm {name!r} found no place for all buffers in time or within the pools"
        return PooledPacking("unknown", None, None, (), (), None, (), message)
    value = objective_value(problem, objective, layout.pool, layout.offset)
    bound, names = objective_bound(problem, objective, value)
    status: Status = "optimal" if value == bound else "feasible"
    return PooledPacking(status, layout.pool, layout.offset, value, bound, name, names)
