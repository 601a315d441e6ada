"""``verify``: does a plan keep every rule it promises? Geometry only; no solver, no planner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cpplan.anf import Program
from cpplan.checks.demands import trace
from cpplan.checks.planned import (
    HIGHEST,
    check_costs,
    check_types,
    check_views,
    integers,
    needed_buffers,
    planned_offsets,
    planned_program,
)
from cpplan.checks.rectangles import Rectangles, check_apart, check_bound, cut_gaps
from cpplan.checks.shared_bound import check_shared_bound
from cpplan.checks.sharing import Union, check_relations, pairs_in_place, shared_unions
from cpplan.errors import VerificationError
from cpplan.graph import Graph
from cpplan.plan import Plan
from cpplan.problem import Ints, Problem

# Bounds that are proved again here, and searches whose word is taken for theirs.
RECOMPUTED = ("live bytes", "live bytes, shared", "fixed offset", "largest buffer")
SEARCHES = ("CP-SAT", "forced live bytes", "downset search", "Liu's algorithm")


def verify(source: Graph | Program | Problem, plan: Plan) -> None:
    """Check every claim of a plan against the model, from the definitions alone.

    Checked: the order and its cost; that exactly the buffers the model needs are there, with the
    sizes and lifespans it needs; that every offset is a non-negative multiple of the buffer's
    alignment, and the one that was fixed; that no two buffers share a byte at a step; peak,
    capacity, status; that the bound is at most the peak, and at most what "live bytes" or "fixed
    offset" can prove where it claims to be one of these. A bound proved by search is not proved
    again. O(n log n + n × buffers live at once / a machine word).

    Parameters
    ----------
    source
        What was planned. Of a program the graph counts; the order is the plan's.
    plan
        The plan to check.

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
    cpplan.errors.VerificationError: buffers 'a' and 'b' overlap at step 1: bytes 0..4 and 2..10
    """
    check_types(source, plan)
    offset = planned_offsets(plan)
    for column in ("size", "lower", "upper"):
        integers(column, getattr(plan, column), len(plan.buffers))
    if isinstance(source, Problem):
        needed = source
        claims = plan.order, plan.views, plan.relations
        if any(claims) or plan.cost is not None or plan.base_cost is not None:
            raise VerificationError(
                "a bare problem has no order, cost, views or relations, but the plan has"
            )
        if plan.pools != source.pools:
            names = [", ".join(repr(p.name) for p in pools) for pools in (plan.pools, source.pools)]
            raise VerificationError(f"the plan is for pools {names[0]}, not {names[1]} as given")
    else:
        program = planned_program(source, plan)
        touches = trace(program, plan.residency, pairs_in_place(plan))
        needed = needed_buffers(touches)
        check_costs(program, plan)
        check_views(program.graph, plan)
    offset = _match_buffers(needed, plan, offset)
    rectangles = cut_gaps(needed)
    if isinstance(source, Problem) or not plan.relations:
        _check_placement(needed, rectangles, offset)
    else:
        check_relations(program.graph, plan)
        unions = shared_unions(program, plan, touches)
        _check_addresses(needed, offset)
        check_apart(*_with_unions(needed, rectangles, offset, unions))
    _check_peak(needed, plan, offset)
    _check_claims(needed, plan, rectangles)
    if plan.bound_by == "live bytes, shared" and plan.lower_bound is not None:
        if isinstance(source, Problem):
            raise VerificationError("buffers of a bare problem share no bytes by choice")
        check_shared_bound(program, plan.sharing, touches, plan.lower_bound)


def check_offsets(problem: Problem, offsets: Ints, algorithm: str) -> None:
    """Check what an algorithm answered: one offset a row, aligned, as fixed, and no overlap.

    Raises
    ------
    VerificationError
        Names the algorithm, the buffers and the step.

    Examples
    --------
    >>> problem = Problem(("a", "b"), lower=[0, 1], upper=[2, 3], size=[4, 8])
    >>> check_offsets(problem, np.array([8, 0]), "mine")
    """
    try:
        offset = integers("offset", offsets, len(problem))
        _check_placement(problem, cut_gaps(problem), offset)
    except VerificationError as error:
        raise VerificationError(f"algorithm {algorithm!r}: {error}") from error


def _match_buffers(needed: Problem, plan: Plan, offset: Ints) -> Ints:
    """The plan's offsets in the order of the buffers needed; each is there once, as needed."""
    row = {name: k for k, name in enumerate(plan.buffers)}
    absent = next((k for k, name in enumerate(needed.names) if name not in row), None)
    if absent is not None:
        raise VerificationError(
            f"buffer {needed.names[absent]!r}, needed from step {needed.lower[absent]}, "
            "is not in the plan"
        )
    if len(row) > len(needed):
        known = set(needed.names)
        extra = next(name for name in row if name not in known)
        raise VerificationError(f"buffer {extra!r} of the plan is not needed in the arena")
    rows = np.array([row[name] for name in needed.names], np.int64)
    for column in ("size", "lower", "upper"):
        planned, wanted = np.asarray(getattr(plan, column))[rows], getattr(needed, column)
        if (planned != wanted).any():
            k = int(np.argmax(planned != wanted))
            raise VerificationError(
                f"buffer {needed.names[k]!r} has {column} {planned[k]} in the plan, but needs "
                f"{wanted[k]}"
            )
    planned_gaps = {plan.buffers[k]: sorted(gaps) for k, gaps in plan.gaps.items() if gaps}
    needed_gaps = {needed.names[k]: sorted(gaps) for k, gaps in needed.gaps.items() if gaps}
    if planned_gaps != needed_gaps:
        names = [*planned_gaps, *needed_gaps]
        name = next(name for name in names if planned_gaps.get(name) != needed_gaps.get(name))
        raise VerificationError(f"buffer {name!r} has other gaps in the plan than it needs")
    return offset[rows]


def _with_unions(
    needed: Problem,
    rectangles: Rectangles,
    offset: Ints,
    unions: Mapping[str, tuple[Sequence[str], Sequence[Union]]],
) -> tuple[Rectangles, list[str], Ints]:
    """All rectangles at their addresses; those that share bytes only as what they fill together."""
    grouped = {name for names, _ in unions.values() for name in names}
    alone = np.array([needed.names[row] not in grouped for row in rectangles.buffer], bool)
    columns = [column[alone] for column in rectangles]
    extra = [
        (len(needed) + k, u.lower, u.upper, u.begin, u.end)
        for k, (_, filled) in enumerate(unions.values())
        for u in filled
    ]
    added = np.array(extra, np.int64).reshape(-1, 5)
    together = Rectangles(*(np.concatenate([c, added[:, k]]) for k, c in enumerate(columns)))
    addresses = np.concatenate([offset, np.zeros(len(unions), np.int64)])
    return together, [*needed.names, *unions], addresses


def _check_placement(needed: Problem, rectangles: Rectangles, offset: Ints) -> None:
    _check_addresses(needed, offset)
    check_apart(rectangles, needed.names, offset)


def _check_addresses(needed: Problem, offset: Ints) -> None:
    for wrong, rule in (
        (offset < 0, "must not be negative"),
        (offset > HIGHEST, "is beyond 2**62"),
        (offset % needed.alignment != 0, "is not a multiple of the alignment"),
    ):
        if wrong.any():
            k = int(np.argmax(wrong))
            raise VerificationError(
                f"buffer {needed.names[k]!r}, live from step {needed.lower[k]} and aligned to "
                f"{needed.alignment[k]} B: offset {offset[k]} {rule}"
            )
    for k, wanted in needed.fixed.items():
        if offset[k] != wanted:
            raise VerificationError(
                f"buffer {needed.names[k]!r}: offset {offset[k]}, but it is fixed at {wanted}"
            )


def _check_peak(needed: Problem, plan: Plan, offset: Ints) -> None:
    peak = int(np.max(offset + needed.size, initial=0))
    if not _is_integer(plan.peak) or plan.peak != peak:
        raise VerificationError(f"the plan claims a peak of {plan.peak!r} B, but it is {peak} B")
    for what, capacity in (
        ("the plan's", plan.capacity),
        *((f"pool {pool.name!r}'s", pool.capacity) for pool in needed.pools),
    ):
        if capacity is not None and not (_is_integer(capacity) and peak <= capacity):
            highest = needed.names[int(np.argmax(offset + needed.size))]
            raise VerificationError(
                f"buffer {highest!r} ends at {peak} B, beyond {what} capacity of {capacity!r} B"
            )


def _check_claims(needed: Problem, plan: Plan, rectangles: Rectangles) -> None:
    bound, peak = plan.lower_bound, plan.peak
    if bound is not None:
        if not _is_integer(bound) or bound < 0:
            raise VerificationError(f"the lower bound must be a byte count, not {bound!r}")
        assert peak is not None
        if bound > peak:
            raise VerificationError(f"lower bound {bound} B is above the peak of {peak} B")
        if plan.bound_by not in RECOMPUTED and not str(plan.bound_by).startswith(SEARCHES):
            raise VerificationError(f"the lower bound has no known proof: {plan.bound_by!r}")
        if plan.scope == "every order" and str(plan.bound_by).startswith("live bytes"):
            raise VerificationError("live bytes of one order prove nothing about every order")
        if plan.sharing and plan.bound_by == "live bytes":
            raise VerificationError("live bytes prove nothing where tensors may share bytes")
        if plan.bound_by == "live bytes":
            check_bound(rectangles, needed.alignment, bound)
        if plan.bound_by == "fixed offset":
            ends = [at + int(needed.size[k]) for k, at in needed.fixed.items()]
            if bound > max(ends, default=0):
                raise VerificationError(f"no fixed offset proves a lower bound of {bound} B")
        if plan.bound_by == "largest buffer" and bound > needed.size.max(initial=0):
            raise VerificationError(f"no buffer is so large as to prove a lower bound of {bound} B")
    if plan.status not in ("optimal", "feasible"):
        raise VerificationError(f"the plan holds offsets, but claims to be {plan.status!r}")
    if (plan.status == "optimal") != (peak == bound):
        raise VerificationError(
            f"status {plan.status!r} contradicts peak {peak} B and lower bound {bound} B"
        )


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
