"""Checks of a plan against the model: the ops run, the buffers needed, and the costs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter

import numpy as np

from cpplan.model.errors import InputError, VerificationError
from cpplan.model.graph import Graph
from cpplan.model.plan import Plan
from cpplan.model.pool import Pool
from cpplan.model.problem import Ints, Problem
from cpplan.model.tensor import LIMIT, Tensor
from cpplan.program.anf import Program
from cpplan.verification.access_trace import Access, lifespans


def check_types(source: object, plan: object) -> None:
    """Raise unless the arguments are a model and its plan."""
    if not isinstance(source, (Graph, Program, Problem)) or not isinstance(plan, Plan):
        found = f"{type(source).__name__} and {type(plan).__name__}"
        raise InputError(f"expected a Graph, a Program or a Problem and its Plan, not {found}")


def check_first_last(plan: Plan) -> None:
    """Raise if the order does not begin and end with the ops that it had to."""
    count = len(plan.order)
    for what, names, there in (
        ("first", plan.first, plan.order[: len(plan.first)]),
        ("last", plan.last, plan.order[max(0, count - len(plan.last)) :]),
    ):
        if tuple(there) != tuple(names):
            raise VerificationError(
                f"the plan says that {', '.join(map(repr, names))} come {what}, but its order has "
                f"{', '.join(map(repr, there))} there"
            )


def planned_offsets(plan: Plan) -> Ints:
    """The plan's offsets in bytes, shape ``(n,)``."""
    if plan.offset is None:
        raise VerificationError("the plan holds no offsets")
    if len(set(plan.buffers)) < len(plan.buffers):
        twice = next(name for name, count in Counter(plan.buffers).items() if count > 1)
        raise VerificationError(f"buffer {twice!r} is in the plan twice")
    return integers("offset", plan.offset, len(plan.buffers))


def pool_starts(plan: Plan) -> Ints:
    """Start of each buffer's pool, bytes, with the used pools one above the other."""
    pool = integers("pool", plan.pool, len(plan.buffers))
    if pool.size and not 0 <= pool.min() <= pool.max() < len(plan.pools):
        raise VerificationError("a buffer of the plan lies in none of its pools")
    ends = np.zeros(len(plan.pools), np.int64)
    offset, size = (integers(c, getattr(plan, c), len(pool)) for c in ("offset", "size"))
    np.maximum.at(ends, pool, offset + size)
    return (np.cumsum(ends) - ends)[pool]


def needed_buffers(accesses: Sequence[Access], pools: Sequence[Pool] = (Pool(),)) -> Problem:
    """Buffers that a program needs in these pools, from its accesses there.

    Raises
    ------
    VerificationError
        If the sizes or an alignment exceed 2**62 bytes, or a buffer may lie in none of the pools.
    """
    spans = lifespans(accesses)
    if (
        max(
            sum(retention.size for retention in spans),
            *(retention.alignment for retention in spans),
            0,
        )
        >= LIMIT
    ):
        raise VerificationError("the sizes or an alignment of the model exceed 2**62 bytes")
    # If the user gave no pools, there is one arena, and the tensors' pools are ignored.
    everywhere, one_arena = tuple(range(len(pools))), tuple(pools) == (Pool(),)
    return Problem(
        names=tuple(retention.name for retention in spans),
        lower=np.array([lower for lower, _ in spans.values()], np.int64),
        upper=np.array([upper for _, upper in spans.values()], np.int64),
        size=np.array([retention.size for retention in spans], np.int64),
        alignment=np.array([retention.alignment for retention in spans], np.int64),
        reads=np.array([retention.reads for retention in spans], np.int64),
        writes=np.array([retention.writes for retention in spans], np.int64),
        pools=tuple(pools),
        candidates={
            row: allowed
            for row, retention in enumerate(() if one_arena else spans)
            if (allowed := _allowed_pools(retention.name, retention.tensors, pools)) != everywhere
        },
    )


def in_pools(buffers: Problem, graph: Graph, pools: Sequence[Pool]) -> Problem:
    """The buffers of a graph's storages in these pools, as their tensors allow. O(tensors).

    Raises
    ------
    VerificationError
        If a buffer may lie in none of the pools.
    """
    columns = graph.columns
    row = np.full(len(columns.names), -1, np.int64)
    row[[columns.number[name] for name in buffers.names]] = np.arange(len(buffers))
    rows = row[columns.root]
    lying: dict[int, list[Tensor]] = {}
    for k in np.flatnonzero(rows >= 0).tolist():
        lying.setdefault(int(rows[k]), []).append(graph.tensors[k])
    everywhere = tuple(range(len(pools)))
    # Most buffers are alike: what they may use is found once.
    known: dict[tuple[object, ...], tuple[int, ...]] = {}
    candidates: dict[int, tuple[int, ...]] = {}
    for k, tensors in lying.items():
        alike = tuple([(tensor.pools, tensor.kind) for tensor in tensors])
        allowed = known.get(alike)
        if allowed is None:
            allowed = known[alike] = _allowed_pools(buffers.names[k], tensors, pools)
        if allowed != everywhere:
            candidates[k] = allowed
    return replace(buffers, pools=tuple(pools), candidates=candidates)


def _allowed_pools(name: str, tensors: Sequence[Tensor], pools: Sequence[Pool]) -> tuple[int, ...]:
    """Positions of the pools that all tensors of a buffer may lie in, in order of preference."""
    constant = any(tensor.kind == "constant" for tensor in tensors)
    named = [tensor.pools for tensor in tensors if tensor.pools is not None]
    for_constants = constant and any(pool.kind == "constant" for pool in pools)
    wanted = "constant" if for_constants else "workspace"
    number = {pool.name: k for k, pool in enumerate(pools)}
    in_order = [number[name] for name in named[0] if name in number] if named else range(len(pools))
    allowed = tuple(
        k
        for k, pool in ((k, pools[k]) for k in in_order)
        if all(pool.name in names for names in named)
        and (pool.kind == wanted or named)
        and (pool.kind == "workspace" or constant)
    )
    if not allowed:
        raise VerificationError(f"buffer {name!r} may lie in none of the plan's pools")
    return allowed


def check_costs(program: Program, plan: Plan) -> None:
    """Check the sums of op costs that the plan claims, with and without recomputation."""
    for claim, ops in (("cost", program.ops), ("base_cost", program.graph.ops)):
        claimed, cost = getattr(plan, claim), sum(map(attrgetter("cost"), ops))
        right = claimed == cost and not isinstance(claimed, bool)
        if isinstance(cost, float) and isinstance(claimed, float):
            # Sums of floats depend on the order of the terms.
            right = math.isclose(claimed, cost, rel_tol=1e-9)
        if not right:
            raise VerificationError(f"the plan claims a {claim} of {claimed!r}, but it is {cost}")
    limit = plan.cost_limit
    if limit is not None and not (isinstance(limit, int | float) and plan.cost <= limit):  # type: ignore[operator]
        raise VerificationError(f"the plan costs {plan.cost}, beyond its cost_limit of {limit!r}")


def integers(column: str, values: object, count: int) -> Ints:
    """``values`` as an array of ``count`` integers."""
    array = np.asarray(values)
    if array.shape != (count,):
        raise VerificationError(f"{column} has shape {array.shape}: expected ({count},)")
    if array.size and array.dtype.kind not in "iu":
        raise VerificationError(f"{column} must hold integers, not {array.dtype}")
    return array.astype(np.int64)
