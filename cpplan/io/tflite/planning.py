"""Plans of TFLite models within a limit on TFLite Micro's arena, also with ops in pieces."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from os import PathLike
from typing import NamedTuple

from cpplan.io.tflite.arena import RUNTIME, micro_arena
from cpplan.model.byte_sizes import format_bytes
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph
from cpplan.model.plan import Plan
from cpplan.runtime.interrupts import noting_interrupts
from cpplan.solving.pipeline import solve_arena
from cpplan.solving.request import Request
from cpplan.solving.whole_arena import arena_limit, without_offsets

# Shares of the time left for plans in pieces: for the first one, and for others after it.
_FIRST_SHARE = 0.4
_SHARES = (0.4, 0.5, 1.0)
# Time that must be left for another plan, as a multiple of the time to place the last one's model.
_SLOWER = 2.0
# Share of the time for a plan without pieces.
_WHOLE_SHARE = 0.1
# What a plan says of the bound on every splitting.
_BOUND = ("lower_bound", "bound_by", "scope", "certificate", "cost_limit")
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
    records of, and tensors that gather what pieces read. Where ``piece_bytes`` are weighed, several
    plans are made, with fewer and fewer pieces, and the one of the smallest arena counts; none is
    cut if that is smaller. While the arena exceeds a limit, further plans are made that need as
    much less room. A plan that a TFLite file cannot hold, with repeated ops, is within the limit
    without them.

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

    def arena(plan: Plan) -> int:
        return micro_arena(source, plan, dims, stated=stated, kernels=kernels).total

    with noting_interrupts() as interrupted:
        return _plan(_Micro(graph, arena, interrupted), request)


def _plan(micro: _Micro, request: Request) -> Plan:
    """The plan of :func:`plan_micro`."""
    limit, weighed = arena_limit(request), request.split and bool(request.piece_bytes)
    if limit is None and not weighed:
        return micro.solved(request)
    whole = least = None
    if request.split:
        costs = request.cost_limit if request.remat else None
        without = replace(request, split=False, piece_bytes=0, cost_limit=costs)
        whole = micro.made(without, _WHOLE_SHARE)
    if limit is None:
        least = _fewer_and_fewer(micro, request, enough=0)
        return _smaller(least, whole)
    if weighed and not (whole and whole.within(limit)):
        least = _fewer_and_fewer(micro, _unlimited(request), enough=limit)
        if least.within(limit):
            return least.plan
    found = _in_less_room(micro, request, limit)
    if found.within(limit) or found.arena is None:
        return found.plan
    least = found if least is None or found.before(least) else least
    assert least.arena is not None
    why = f"the best model needs {least.arena} B in {RUNTIME}, {least.arena - limit} B more"
    if whole is not None:
        why = f"in pieces, {why}; whole, {whole.plan.message}"
    why = f"for an arena of {format_bytes(limit)} no plan was found: {why}"
    return without_offsets(least.plan, "unknown", why)


class _Made(NamedTuple):
    """A plan, and the bytes of its model's arena; ``None`` if there is no such model."""

    plan: Plan
    arena: int | None

    def within(self, limit: int) -> bool:
        """True if there is an arena, of at most ``limit`` bytes."""
        return self.arena is not None and self.arena <= limit

    def before(self, other: _Made) -> bool:
        """True if there is an arena, and it is smaller than another plan's."""
        return self.arena is not None and (other.arena is None or self.arena < other.arena)


class _Micro:
    """A model to plan within a limit on time, and the arenas of its plans."""

    def __init__(self, graph: Graph, arena: Callable[[Plan], int], interrupted: Callable[[], bool]):
        self._graph, self._arena, self._interrupted = graph, arena, interrupted
        self._started = time.monotonic()
        # Seconds that it took to write the last model and to place its tensors; counted time spent.
        self._written = self._spent = 0.0

    def _left(self, request: Request) -> float:
        if self._interrupted():  # what is known by now is enough
            return 0.0
        elapsed = time.monotonic() - self._started
        return request.time_limit - (self._spent if request.deterministic else elapsed)

    def is_late(self, request: Request) -> bool:
        """True if there is no time for another plan and its arena."""
        return self._left(request) <= _SLOWER * self._written

    def solved(self, request: Request, share: float = 1.0) -> Plan:
        """A plan within a share of the time left."""
        seconds = share * (self._left(request) - self._written)
        self._spent += seconds
        return solve_arena(self._graph, request.within(seconds))

    def made(self, request: Request, share: float = 1.0) -> _Made:
        """A plan within a share of the time left, with its arena."""
        plan = self.solved(request, share)
        if plan.offset is None:
            return _Made(plan, None)
        begin = time.monotonic()
        try:
            return _Made(plan, self._arena(plan))
        except InputError:  # ops run again, which a file cannot say
            return _Made(plan, None)
        finally:
            self._written = 0.0 if request.deterministic else time.monotonic() - begin


def _smaller(least: _Made, whole: _Made | None) -> Plan:
    """The plan of the smallest arena in pieces, or the one without if that is smaller."""
    if whole is None or least.arena is None or not whole.before(least):
        return least.plan
    return replace(
        whole.plan,
        status="feasible",
        message=_TOO_LARGE,
        copied_bytes=0,
        **{name: getattr(least.plan, name) for name in _BOUND},
    )


def _fewer_and_fewer(micro: _Micro, request: Request, *, enough: int) -> _Made:
    """The plan of the smallest arena among some with fewer and fewer pieces.

    One of at most ``enough`` bytes ends the search.
    """
    last = least = micro.made(request, _FIRST_SHARE)
    for share in _SHARES:
        if not last.plan.pieces or least.within(enough) or micro.is_late(request):
            break
        request = _with_heavier_pieces(request)
        last = micro.made(request, share)
        least = last if last.before(least) else least
    return least


def _in_less_room(micro: _Micro, request: Request, limit: int) -> _Made:
    """A plan within the limit, or the one of the smallest arena that was found.

    While the arena exceeds the limit, the next plan has as much less room.
    """
    last = least = micro.made(request, _FIRST_SHARE if request.split else 1.0)
    for share in _SHARES:
        if last.arena is None or last.arena <= limit or micro.is_late(request):
            break
        unused = (last.plan.capacity or 0) - (last.plan.peak or 0)
        request = _with_less(request, unused + last.arena - limit)
        last = micro.made(request, share if request.split else 1.0)
        least = last if last.before(least) else least
    return least


def _unlimited(request: Request) -> Request:
    """The request for the fewest bytes instead of a limit on them, at no more work."""
    cost_limit = 1.0 if request.cost_limit is None else request.cost_limit
    return replace(request, capacity=None, memory_limit=None, cost_limit=cost_limit)


def _with_heavier_pieces(request: Request) -> Request:
    """The request in which every piece counts twice the bytes."""
    given = request.piece_bytes
    if isinstance(given, int):
        return replace(request, piece_bytes=2 * given)
    return replace(request, piece_bytes={name: 2 * count for name, count in given.items()})


def _with_less(request: Request, over: int) -> Request:
    """The request with limits reduced by ``over`` bytes."""

    def less(limit: int | str | None) -> int | str | None:
        return max(0, limit - over) if isinstance(limit, int) else limit

    capacity, limit = less(request.capacity), less(request.memory_limit)
    return replace(request, capacity=capacity, memory_limit=limit)
