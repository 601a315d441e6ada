"""``verify``: checks that a plan keeps all rules, by geometry only, without a planner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from cpplan.model.errors import VerificationError
from cpplan.model.graph import Graph
from cpplan.model.plan import Plan
from cpplan.model.problem import Ints, Problem
from cpplan.program.anf import Program
from cpplan.runtime.collection import without_collection
from cpplan.verification.claims import (
    Proofs,
    check_claims,
    check_peak,
    check_pooled_claims,
)
from cpplan.verification.layout import check_addresses, check_all_apart, check_pools
from cpplan.verification.lowering import Lowered, lower, with_fixed_sizes
from cpplan.verification.matched_buffers import match_buffers
from cpplan.verification.moved_plans import check_moved_bounds, check_moving, copied_with_moves
from cpplan.verification.moves import BareProgram
from cpplan.verification.needed_buffers import (
    check_types,
    integers,
    planned_offsets,
)
from cpplan.verification.pool_objective import is_peak
from cpplan.verification.program_plans import Needs, check_program_plan
from cpplan.verification.rectangles import check_apart, cut_gaps
from cpplan.verification.symbolic_claims import check_symbols


def verify(
    source: Graph | Program | Problem, plan: Plan, *, dims: Mapping[str, int] | None = None
) -> None:
    """Check every claim of a plan against the model, from the definitions alone.

    The checks cover: the pieces of ops that are cut, which must write every element of an output
    exactly once (all other checks then use the graph of pieces); the order and its cost; that
    exactly the buffers the model needs are there, with the sizes and lifespans it needs; that every
    offset is a non-negative multiple of the buffer's alignment, and equals the fixed offset if
    there is one; that no two buffers share a byte at a step; peak, capacity, status; that every
    bound is at most the value that it bounds, has the name of a known bound that applies to such a
    plan (:mod:`cpplan.verification.bound_table`), and is proved again unless it rests on a search
    (:func:`check_plan` returns the kind of proof); if tensors move between pools, that every op and
    every move finds their bytes in the pool where it looks; if sizes depend on variables, that the
    plan's expressions are the model's. O(n log n + n × buffers live at once / a machine word).

    Parameters
    ----------
    source
        The model that was planned. If it is a program, only its graph counts; the order is the
        plan's.
    plan
        The plan to check.
    dims
        Values at which to check a plan of symbolic sizes; if left out, it is checked at its bounds,
        or at all sizes that it was made for.

    Raises
    ------
    InputError
        If the arguments are of other types.
    VerificationError
        At the first broken rule; names the buffers and the step, or what was expected.

    Examples
    --------
    >>> problem = Problem(("a", "b"), lower=[0, 1], upper=[2, 3], size=[4, 8])
    >>> columns = dict(size=problem.size, lower=problem.lower, upper=problem.upper)
    >>> plan = Plan("p", "feasible", ("a", "b"), offset=np.array([0, 2]), peak=10, **columns)
    >>> verify(problem, plan)
    Traceback (most recent call last):
    ...
    cpplan.model.errors.VerificationError: buffers 'a' and 'b' overlap at step 1: bytes 0..4 and 2..10
    """  # noqa: E501
    check_plan(source, plan, dims=dims)


@without_collection()
def check_plan(
    source: Graph | Program | Problem, plan: Plan, *, dims: Mapping[str, int] | None = None
) -> Proofs:
    """Check a plan as :func:`verify` does, and say how its bounds were checked."""
    check_types(source, plan)
    _check_said_once(plan)
    if not isinstance(source, Problem) and plan.offset is not None:
        check_symbols(source.graph if isinstance(source, Program) else source, plan)
    if plan.spills:
        lowered, bare, copied = _check_moved(source, plan, dims)
        if plan.copied_bytes != copied:
            raise VerificationError(
                f"the plan claims {plan.copied_bytes!r} copied bytes, but it copies {copied}"
            )
        return check_moved_bounds(lowered, bare)
    if not dims and plan.symbols is not None and plan.offset is not None:
        for values in plan.symbols.sizes:
            verify(source, plan, dims=values)
    source, plan = with_fixed_sizes(source, plan, dims)
    return _check_placed(source if isinstance(source, Problem) else lower(source, plan), plan)


def _check_said_once(plan: Plan) -> None:
    """Raise if a list whose order says nothing has an entry twice."""
    for what in ("inputs", "outputs", "sharing", "relations"):
        listed = getattr(plan, what)
        if len(set(listed)) < len(listed):
            twice = next(entry for k, entry in enumerate(listed) if entry in listed[:k])
            raise VerificationError(f"the plan's {what} have {twice!r} twice")


def verify_counting(source: Graph | Program, plan: Plan) -> Plan:
    """The plan with the bytes that its pieces copy, after all checks of :func:`verify`.

    For plans in which tensors move: their accesses, which the checks need, are listed only once.
    """
    check_types(source, plan)
    lowered, bare, copied = _check_moved(source, plan, None)
    check_moved_bounds(lowered, bare)
    return replace(plan, copied_bytes=copied)


def _check_moved(
    source: Graph | Program | Problem, plan: Plan, dims: Mapping[str, int] | None
) -> tuple[Lowered, BareProgram, int | None]:
    """The plan lowered, its ops without moves, and the bytes copied, after checks of all three."""
    if isinstance(source, Problem) or dims or plan.symbols is not None:
        raise VerificationError("only plans for a graph of fixed sizes have moves")
    lowered = lower(source, plan)
    bare = check_moving(lowered)
    _check_placed(lowered, lowered.plan)
    return lowered, bare, copied_with_moves(lowered)


def _check_placed(source: Lowered | Problem, plan: Plan) -> Proofs:
    """Check a plan of fixed sizes in which nothing moves."""
    offset = planned_offsets(plan)
    for column in ("size", "lower", "upper", "pool"):
        integers(column, getattr(plan, column), len(plan.buffers))
    if isinstance(source, Problem):
        _check_problem_plan(source, plan)
        needs = Needs(source)
    else:
        needs = check_program_plan(source)
    needed = needs.buffers
    offset, pool = match_buffers(needed, plan, offset)
    rectangles = cut_gaps(needed)
    check_pools(needed, pool)
    check_addresses(needed, pool, offset)
    if not needs.disjoint:
        check_all_apart(needed, rectangles, pool, offset, needs.unions)
    check_peak(needed, plan, pool, offset)
    if not is_peak(needed, plan.objective):
        least = needs.proved, needs.apart, needs.least_cost
        proofs = check_pooled_claims(needed, plan, pool, offset, *least)
    else:
        padded = needed.aligned_to(needed.pools[0].alignment)
        proofs = check_claims(padded, plan, rectangles, needs.proved, needs.least_cost)
    return proofs


def _check_problem_plan(source: Problem, plan: Plan) -> None:
    claims = plan.order, plan.views, plan.relations, plan.sharing, plan.first, plan.last
    ends = plan.inputs, plan.outputs
    if any(claims) or any(ends) or plan.cost is not None or plan.base_cost is not None:
        raise VerificationError(
            "a bare problem has no order, cost, views, relations, inputs or outputs, but the plan "
            "has"
        )
    if plan.pools != source.pools:
        names = [", ".join(repr(p.name) for p in pools) for pools in (plan.pools, source.pools)]
        raise VerificationError(f"the plan is for pools {names[0]}, not {names[1]} as given")


def check_offsets(problem: Problem, offsets: Ints, algorithm: str) -> None:
    """Check an algorithm's offsets: one a row, aligned, equal to fixed offsets, without overlap."""
    try:
        offset = integers("offset", offsets, len(problem))
        pool = np.zeros(len(problem), np.int64)
        check_addresses(problem, pool, offset)
        check_apart(cut_gaps(problem), problem.names, offset)
    except VerificationError as error:
        raise VerificationError(f"algorithm {algorithm!r}: {error}") from error
