"""Plans of TFLite models within a limit on TFLite Micro's arena, also with ops in pieces."""

from __future__ import annotations

import time
from collections.abc import Container, Mapping
from dataclasses import replace
from os import PathLike

from cpplan.io.tflite.arena import RUNTIME, micro_arena
from cpplan.model.byte_sizes import format_bytes
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph
from cpplan.model.plan import Plan
from cpplan.solving.pipeline import solve_arena
from cpplan.solving.request import Request
from cpplan.solving.whole_arena import arena_limit, without_offsets

# Plans in pieces that are tried, and the share of the time left that each but the last takes.
_TURNS = 4
_SHARE = 0.5
# Share of the time for a plan without pieces.
_WHOLE_SHARE = 0.1
# What a plan says of the bound on every splitting.
_BOUND = ("lower_bound", "bound_by", "scope", "certificate")
_TOO_LARGE = f"no op runs in pieces: in {RUNTIME}, the model in pieces that was found needs more"


def plan_micro(
    source: str | PathLike[str] | bytes,
    graph: Graph,
    request: Request,
    dims: Mapping[str, int] | None = None,
    *,
    stated: Container[str] = (),
    kernels: str | None = None,
) -> Plan:
    """Plan a TFLite model within the request's limits on TFLite Micro's arena.

    The model that is written for a plan in pieces has more operators, which TFLite Micro keeps
    records of, and tensors that gather what pieces read. While the arena of a plan's model exceeds
    the limit, another plan is made that needs as much less room. Without a limit, no op is cut if
    that needs a larger arena and ``piece_bytes`` are weighed. A plan that a TFLite file cannot
    hold, with repeated ops, is within the limit without them.

    Parameters
    ----------
    source, dims, stated, kernels
        As in :func:`~cpplan.io.tflite.micro_arena`.
    graph
        What ``cpplan.load`` gives of the model.
    request
        Options of ``solve``.

    Raises
    ------
    InputError
        If an option is not understood.

    Examples
    --------
    >>> from cpplan.io.tflite import read_tflite
    >>> path = "datasets/tflite/branches.tflite"
    >>> request = Request(order="search", memory_limit="42 KiB", workers=1)
    >>> plan = plan_micro(path, read_tflite(path), request)
    >>> plan.peak, micro_arena(path, plan).total
    (31744, 42496)
    """
    started = time.monotonic()

    def solved(asked: Request, share: float = 1.0) -> Plan:
        spent = 0.0 if asked.deterministic else time.monotonic() - started
        return solve_arena(graph, asked.within(share * (asked.time_limit - spent)))

    def arena_of(plan: Plan) -> int:
        return micro_arena(source, plan, dims, stated=stated, kernels=kernels).total

    limit, whole = arena_limit(request), None
    if request.split and (request.piece_bytes or limit is not None):
        costs = request.cost_limit if request.remat else None
        without = replace(request, split=False, piece_bytes=0, cost_limit=costs)
        whole = solved(without, _WHOLE_SHARE)
    if limit is None:
        plan = solved(request)
        if whole is None or not plan.pieces or arena_of(plan) <= arena_of(whole):
            return plan
        return replace(
            whole,
            status="feasible",
            message=_TOO_LARGE,
            copied_bytes=0,
            **{name: getattr(plan, name) for name in _BOUND},
        )
    asked, found, least = request, None, 0
    for turn in range(_TURNS):
        plan = solved(asked, _SHARE if request.split and turn < _TURNS - 1 else 1.0)
        if plan.offset is None:
            break
        try:
            arena = arena_of(plan)
        except InputError:
            return plan
        if arena <= limit:
            return plan
        if found is None or arena < least:
            found, least = plan, arena
        unused = (plan.capacity or 0) - (plan.peak or 0)
        asked = _with_less(asked, unused + arena - limit)
    if found is None:
        return plan
    why = f"the best model needs {least} B in {RUNTIME}, {least - limit} B more"
    if whole is not None:
        why = f"in pieces, {why}; whole, {whole.message}"
    why = f"for an arena of {format_bytes(limit)} no plan was found: {why}"
    return without_offsets(found, "unknown", why)


def _with_less(request: Request, over: int) -> Request:
    """The request with limits reduced by ``over`` bytes."""

    def less(limit: int | str | None) -> int | str | None:
        return max(0, limit - over) if isinstance(limit, int) else limit

    capacity, limit = less(request.capacity), less(request.memory_limit)
    return replace(request, capacity=capacity, memory_limit=limit)
