"""Limits on all of an arena: on its tensors, and on what a runtime needs beside them."""

from __future__ import annotations

from dataclasses import replace

from cpplan.model.byte_sizes import format_bytes
from cpplan.model.graph import Graph
from cpplan.model.overhead import Overhead
from cpplan.model.plan import Plan
from cpplan.model.plan_data import Status
from cpplan.model.problem import Problem
from cpplan.program.anf import Program
from cpplan.solving.request import Request


def arena_limit(request: Request) -> int | None:
    """The limit in bytes that every plan must meet, ``None`` for none and for shares."""
    stated = (request.capacity, request.memory_limit)
    return min((limit for limit in stated if isinstance(limit, int)), default=None)


def on_tensors(source: Graph | Program | Problem, request: Request) -> Request:
    """The request with limits on the tensors' bytes, instead of those on all of an arena.

    Shares stay: they are shares of the tensors' bytes.
    """
    overhead, left = _beside(source, request)
    if overhead is None:
        return request

    def room(limit: int | str | None) -> int | str | None:
        return max(0, overhead.room(limit) - left) if isinstance(limit, int) else limit

    capacity, limit = room(request.capacity), room(request.memory_limit)
    return replace(request, capacity=capacity, memory_limit=limit)


def needed_arena(plan: Plan, source: Graph | Program | Problem, request: Request) -> int:
    """Bytes of the arena that a plan's tensors need, with what a runtime needs beside them."""
    overhead, left = _beside(source, request)
    assert plan.peak is not None
    return plan.peak if overhead is None else overhead.total(plan.peak + left)


def of_arena(plan: Plan, source: Graph | Program | Problem, request: Request) -> Plan:
    """The plan with a message that says by how much the arena exceeds the limit, if it does."""
    overhead, left = _beside(source, request)
    limit = arena_limit(request)
    if overhead is None or limit is None:
        return plan
    if plan.peak is not None and overhead.total(plan.peak + left) <= limit:
        return plan
    head = (plan.lower_bound or 0) + left
    kept = f"{overhead.runtime} keeps up to {overhead.kept} B of it"
    if overhead.before > head:
        kept += f", and needs up to {overhead.before} B more before the first run"
    if left:
        kept += f", and places {left} B of tensors itself"
    lacking = overhead.total(head) - limit
    why = f"an arena of {format_bytes(limit)} lacks {lacking} B: {kept}"
    if lacking <= 0:
        why = f"for an arena of {format_bytes(limit)} no plan was found: {kept}"
    if plan.peak is not None:  # no bytes, but before it the runtime needs more
        return without_offsets(plan, "infeasible", why)
    return replace(plan, message=f"{why}; {plan.message}" if overhead.room(limit) else why)


def without_offsets(plan: Plan, status: Status, message: str) -> Plan:
    """The plan without its offsets: it is the best that was found, and does not fit."""
    return replace(
        plan,
        status=status,
        offset=None,
        peak=None,
        found_by=None,
        relations=(),
        pieces=(),
        copied_bytes=None,
        message=message,
    )


def _beside(source: Graph | Program | Problem, request: Request) -> tuple[Overhead | None, int]:
    """Overhead of a source's runtime, and bytes of tensors that the runtime places itself.

    Those are the inputs and outputs that the plan leaves outside.
    """
    graph = source.graph if isinstance(source, Program) else source
    if not isinstance(graph, Graph) or graph.overhead is None:
        return None, 0
    kinds = [kind for kind in ("input", "output") if getattr(request, f"{kind}s") == "outside"]
    outside = [t for t in graph.tensors if t.kind in kinds and graph.is_storage(t.name)]
    left = sum(-(-t.nbytes // t.alignment) * t.alignment for t in outside)
    if not left:
        return graph.overhead, 0
    # Beside tensors of its own, the runtime may place scratch memory above the others.
    scratch = (t.nbytes for t in graph.tensors if t.kind == "workspace")
    return graph.overhead, left + max(scratch, default=0)
